// Package storetest is the suite every store backend must pass: each obligation in the comments of [store.Store] has a
// test here, and a bug in one backend becomes a case for all. A backend's own test file opens databases and calls [Run].
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Opened is an empty, migrated database and the ways into it.
type Opened struct {
	// Store is a handle that may write. The suite closes it.
	Store store.Store
	// Again opens one more handle on the same database, independent of the others as another process's would be.
	// The suite closes it. Nil when the backend cannot: cases that need it are skipped.
	Again func(t *testing.T, readOnly bool) store.Store
	// Exec changes the database behind the store's back, with SQL on the tables head, documents, commits and
	// changes. Nil when there is no way to: cases that damage a database are skipped.
	Exec func(t *testing.T, query string)
}

// Run tests one backend. open is called once for every case, from parallel tests, and must return a database of its
// own each time.
func Run(t *testing.T, open func(t *testing.T) Opened) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"Empty", testEmpty},
		{"Commit", testCommit},
		{"Sorted", testSorted},
		{"Gapless", testGapless},
		{"Stale", testStale},
		{"AllOrNothing", testAllOrNothing},
		{"RefusedCommits", testRefusedCommits},
		{"Diverged", testDiverged},
		{"HistoryReplaced", testHistoryReplaced},
		{"Compacted", testCompacted},
		{"Corrupt", testCorrupt},
		{"History", testHistory},
		{"HistoryPages", testHistoryPages},
		{"HistoryRefused", testHistoryRefused},
		{"HistoryOfDocuments", testHistoryOfDocuments},
		{"Changes", testChanges},
		{"DocumentLogOfMany", testDocumentLogOfMany},
		{"Latest", testLatest},
		{"LongPast", testLongPast},
		{"DamagedLog", testDamagedLog},
		{"Compact", testCompact},
		{"CompactLong", testCompactLong},
		{"HostileText", testHostileText},
		{"NUL", testNUL},
		{"LargeDocument", testLargeDocument},
		{"LargeCommit", testLargeCommit},
		{"LargePages", testLargePages},
		{"Chunks", testChunks},
		{"NoChanges", testNoChanges},
		{"Size", testSize},
		{"Pool", testPool},
		{"Times", testTimes},
		{"CreatedAgain", testCreatedAgain},
		{"LoadIsOneMoment", testLoadIsOneMoment},
		{"SinceWhileWriting", testSinceWhileWriting},
		{"Writers", testWriters},
		{"ReadersStarveNobody", testReadersStarveNobody},
		{"CommitLocked", testCommitLocked},
		{"CommitLockedIsNotOvertaken", testCommitLockedIsNotOvertaken},
		{"Probe", testProbe},
		{"Barrier", testBarrier},
		{"BarrierReadOnly", testBarrierReadOnly},
		{"BarrierWhileWriting", testBarrierWhileWriting},
		{"BarrierCanceled", testBarrierCanceled},
		{"RemovalBudget", testRemovalBudget},
		{"CancelledBefore", testCancelledBefore},
		{"CancelledMeanwhile", testCancelledMeanwhile},
		{"HangUps", testHangUps},
		{"Quarantine", testQuarantine},
		{"QuarantineSeeded", testQuarantineSeeded},
		{"QuarantineWhileWriting", testQuarantineWhileWriting},
		{"ReadOnly", testReadOnly},
		{"Durable", testDurable},
		{"Closed", testClosed},
		{"Copy", testCopy},
		{"CopyNothing", testCopyNothing},
		{"CopyShortened", testCopyShortened},
		{"ImportRefused", testImportRefused},
		{"Chain", testChain},
		{"ChainAltered", testChainAltered},
		{"ChainLost", testChainLost},
		{"ChainShortened", testChainShortened},
		{"Audit", testAudit},
		{"Sessions", testSessions},
		{"Pin", testPin},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			t.Cleanup(func() { require.NoError(t, o.Store.Close()) })
			c.test(t, &bench{Opened: o, t: t, open: open})
		})
	}
}

// testTimeout ends a test that hangs; it is not used to measure.
const testTimeout = 3 * time.Minute

// bench is one case's database and where its history stands.
type bench struct {
	Opened
	t    *testing.T
	open func(*testing.T) Opened // makes one more database
	head fleet.Head
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), testTimeout)
	b.t.Cleanup(cancel)
	return ctx
}

// again opens another handle, or skips the case.
func (b *bench) again(readOnly bool) store.Store {
	b.t.Helper()
	if b.Again == nil {
		b.t.Skip("this backend has one handle per database")
	}
	s := b.Again(b.t, readOnly)
	b.t.Cleanup(func() { require.NoError(b.t, s.Close()) })
	return s
}

// exec damages the database, or skips the case.
func (b *bench) exec(query string) {
	b.t.Helper()
	if b.Exec == nil {
		b.t.Skip("there is no way into this backend's database")
	}
	b.Exec(b.t, query)
}

// commit commits changes on top of the last commit of this bench.
func (b *bench) commit(changes ...fleet.Change) fleet.Commit {
	b.t.Helper()
	c := next(b.head, changes...)
	b.must(c)
	return c
}

func (b *bench) must(c fleet.Commit) {
	b.t.Helper()
	require.NoError(b.t, persist(b.ctx(), func() error { return b.Store.Commit(b.ctx(), b.head, c) }))
	b.head = c.Head()
}

func (b *bench) load() store.Snapshot {
	b.t.Helper()
	snap, err := b.Store.Load(b.ctx())
	require.NoError(b.t, err)
	return snap
}

func (b *bench) since(after fleet.Head, limit int) []fleet.Commit {
	b.t.Helper()
	commits, err := b.Store.Since(b.ctx(), after, limit)
	require.NoError(b.t, err)
	return commits
}

func (b *bench) history(q store.HistoryQuery) []fleet.Commit {
	b.t.Helper()
	commits, err := b.Store.History(b.ctx(), q)
	require.NoError(b.t, err)
	return commits
}

// unchanged runs f and requires that the store is as it was before.
func (b *bench) unchanged(f func()) {
	b.t.Helper()
	before, log := b.load(), b.history(store.HistoryQuery{Limit: 1000})
	f()
	require.Equal(b.t, before, b.load())
	require.Equal(b.t, log, b.history(store.HistoryQuery{Limit: 1000}))
}

// start is when the first commit of every case was made: an odd moment, to see that its microseconds are kept.
var start = time.Date(2024, 2, 29, 23, 59, 58, 123456000, time.UTC)

// next is a commit on top of base.
func next(base fleet.Head, changes ...fleet.Change) fleet.Commit {
	rev := base.Revision + 1
	return fleet.Commit{
		Revision:   rev,
		ID:         uuid.New(),
		At:         start.Add(time.Duration(rev-1) * time.Hour),
		Actor:      "ci",
		Reason:     fmt.Sprintf("reason %d", rev),
		Author:     fmt.Sprintf("author-%d", rev),
		RequestID:  fmt.Sprintf("request-%d", rev),
		Operations: operations(rev),
		Changes:    changes,
	}
}

// operations returns the operations of some commits; others have none.
func operations(rev fleet.Revision) json.RawMessage {
	if rev%3 == 1 {
		return nil
	}
	return body(`{"operations":[{"op":"delete","kind":"namespace","id":"n%d"}]}`, rev)
}

func body(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func create(kind fleet.Kind, id string, after json.RawMessage) fleet.Change {
	return fleet.Change{Kind: kind, ID: id, After: after}
}

func update(kind fleet.Kind, id string, before, after json.RawMessage) fleet.Change {
	return fleet.Change{Kind: kind, ID: id, Before: before, After: after}
}

func remove(kind fleet.Kind, id string, before json.RawMessage) fleet.Change {
	return fleet.Change{Kind: kind, ID: id, Before: before}
}

// record returns the expected result of Load for a document created by one commit and last changed by another.
func record(created, changed fleet.Commit, kind fleet.Kind, id string, b json.RawMessage) fleet.Record {
	return fleet.Record{
		Kind: kind, ID: id, Body: b,
		Revision: changed.Revision, CommitID: changed.ID,
		CreatedAt: created.At, UpdatedAt: changed.At,
	}
}

// commitRetrying commits the changes that the callback computes from the newest documents, and retries when another writer was
// faster.
func commitRetrying(ctx context.Context, s store.Store, changes func(store.Snapshot) []fleet.Change) (fleet.Commit, error) {
	for {
		snap, err := s.Load(ctx)
		if err != nil {
			return fleet.Commit{}, err
		}
		c := next(snap.Head, changes(snap)...)
		err = s.Commit(ctx, snap.Head, c)
		if !errors.Is(err, store.ErrStale) {
			return c, err
		}
	}
}
