package storetest

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// importer opens one more, empty database.
func (b *bench) importer() *bench {
	b.t.Helper()
	o := b.open(b.t)
	b.t.Cleanup(func() { require.NoError(b.t, o.Store.Close()) })
	return &bench{Opened: o, t: b.t, open: b.open}
}

func (b *bench) imports(from *bench) error {
	return store.Copy(b.ctx(), from.Store, b.Store, nil)
}

// fill makes a history in which documents are created, changed, removed and created again, longer than one batch.
func (b *bench) fill() {
	b.t.Helper()
	two := body(`{"n":2}`)
	for i := range 120 {
		id := fmt.Sprint(i)
		b.commit(create(fleet.KindNamespace, id, body(`{"n":1}`)), create(fleet.KindCluster, id, body(`{ "n" : 1 }`)))
		b.commit(update(fleet.KindNamespace, id, body(`{"n":1}`), two))
		if i%2 == 0 {
			b.commit(remove(fleet.KindNamespace, id, two))
		}
		if i%4 == 0 {
			b.commit(create(fleet.KindNamespace, id, body(`{"n":3}`)))
		}
	}
	var changes []fleet.Change
	for _, text := range hostile {
		changes = append(changes, create(fleet.KindComponent, text, body(`{"%%":1}`)))
	}
	b.commit(changes...)
	b.commit() // a commit may have no changes
}

func testCopy(t *testing.T, b *bench) {
	target := b.importer()
	b.fill()
	var last store.Progress
	require.NoError(t, store.Copy(b.ctx(), b.Store, target.Store, func(p store.Progress) { last = p }))
	require.Equal(t, store.Progress{Verifying: true, Revision: b.head.Revision, Of: b.head.Revision}, last)
	require.Equal(t, b.content(), target.content())
	require.Equal(t, b.since(fleet.Head{}, 1000), target.since(fleet.Head{}, 1000))
	q := store.HistoryQuery{Kind: fleet.KindNamespace, ID: "8", Limit: 10}
	require.Equal(t, b.history(q), target.history(q))

	// It is a store like any other, and another copy of it is the same again.
	target.head = b.head
	target.commit(update(fleet.KindNamespace, "8", body(`{"n":3}`), body(`{}`)), remove(fleet.KindCluster, "0", body(`{ "n" : 1 }`)))
	third := b.importer()
	require.NoError(t, third.imports(target))
	require.Equal(t, target.content(), third.content())

	target.unchanged(func() { require.ErrorIs(t, target.imports(b), store.ErrNotEmpty) })
	testCopied(t, target)
}

// testCopied: a copy has a mark that every reader sees, and that changes do not end, until the acceptance.
func testCopied(t *testing.T, b *bench) {
	t.Helper()
	for range 2 {
		head, err := b.Store.Head(b.ctx())
		var marked *store.QuarantinedError
		require.ErrorAs(t, err, &marked)
		require.True(t, marked.Quarantine.Copied())
		require.Equal(t, b.head, head)
		require.True(t, b.load().Quarantine.Copied())
		require.NoError(t, b.Store.Probe(b.ctx()))
		head, err = b.Store.Barrier(b.ctx())
		require.NoError(t, err)
		require.Equal(t, b.head, head)
		b.commit()
	}
	accepted, err := store.Accept(b.ctx(), b.Store, b.head, fleet.Head{}, time.Now())
	require.NoError(t, err)
	head, err := b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Equal(t, accepted, head)
	require.Nil(t, b.load().Quarantine)
}

// content is load without the mark of a copy.
func (b *bench) content() store.Snapshot {
	b.t.Helper()
	snap := b.load()
	if snap.Quarantine.Copied() {
		snap.Quarantine = nil
	}
	return snap
}

func testCopyNothing(t *testing.T, b *bench) {
	target := b.importer()
	require.NoError(t, target.imports(b))
	require.Equal(t, store.Snapshot{}, target.load())
	target.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	require.NoError(t, b.imports(target), "a store that got nothing is still empty")
	require.Equal(t, target.content(), b.content())
}

// testImportRefused: an invalid import leaves the store empty.
func testImportRefused(t *testing.T, b *bench) {
	target := b.importer()
	b.fill()
	snap, log := b.load(), b.since(fleet.Head{}, 1000)
	to := target.Store
	broken := errors.New("the disk is on fire")
	twice := log[0]
	twice.Changes = append(append([]fleet.Change{}, twice.Changes...), twice.Changes[0])
	for name, seq := range map[string]iter.Seq2[store.Entry, error]{
		"nothing":          commits(),
		"the end missing":  commits(log[:len(log)-1]...),
		"the start":        commits(log[1:]...),
		"a gap":            commits(append(append([]fleet.Commit{}, log[:5]...), log[6:]...)...),
		"more than that":   commits(append(append([]fleet.Commit{}, log...), next(b.head))...),
		"a doubled change": commits(append([]fleet.Commit{twice}, log[1:]...)...),
	} {
		require.Error(t, to.Import(b.ctx(), snap, seq), name)
		require.Equal(t, store.Snapshot{}, target.load(), name)
	}
	require.ErrorIs(t, to.Import(b.ctx(), snap, failing(log, broken)), broken)
	if target.Again != nil {
		require.ErrorIs(t, target.again(true).Import(b.ctx(), snap, commits(log...)), store.ErrReadOnly)
	}
	require.Equal(t, store.Snapshot{}, target.load())
	require.Empty(t, target.history(store.HistoryQuery{Limit: 1}))
	require.NoError(t, to.Import(b.ctx(), snap, commits(log...)), "no lock is left behind")
	require.Equal(t, snap, target.content())
}

func commits(log ...fleet.Commit) iter.Seq2[store.Entry, error] { return failing(log, nil) }

// failing yields a log and then an error, if any.
func failing(log []fleet.Commit, err error) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, c := range log {
			if !yield(store.Entry{Commit: c}, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
		}
	}
}

// testCopyShortened: a copy of a shortened log returns the same as the original for every revision, refuses the same ones, and
// can be copied and shortened again.
func testCopyShortened(t *testing.T, b *bench) {
	s := b.Store
	l := live(b, 3, 30)
	from := b
	for _, first := range []int{2, 17, 30} {
		oldest, _, err := s.Compact(b.ctx(), l.commits[first-1].At)
		require.NoError(t, err)
		require.EqualValues(t, first, oldest)
		target := b.importer()
		require.NoError(t, target.imports(from))
		target.head = from.head
		l.check(target, first)
		require.Equal(t, from.content(), target.content())
		_, err = target.Store.Since(b.ctx(), fleet.Head{}, 10)
		require.ErrorIs(t, err, store.ErrCompacted)
		from, s = target, target.Store
	}
	from.commit(create(fleet.KindNamespace, "more", body(`{}`)))
	third := b.importer()
	require.NoError(t, third.imports(from))
	require.Equal(t, from.content(), third.content())
}
