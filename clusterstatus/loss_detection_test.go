package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// storeWithBackup is two processes, and a Store that can be restored from a backup.
type storeWithBackup struct {
	*testing.T
	store *fakeStore
	a, b  *Tracker
	at    time.Time
	rows  map[string]Row
	when  map[string]time.Time
	want  map[string]Row
}

// newStoreWithBackup fills a Store and makes a backup before the last rows.
func newStoreWithBackup(t *testing.T) *storeWithBackup {
	t.Helper()
	store := newFakeStore()
	p := &storeWithBackup{T: t, store: store, a: NewTracker(Config{Store: store}), b: NewTracker(Config{Store: store}), at: noon}
	p.a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, p.at)
	p.sync(2)
	p.backUp()
	p.a.confirm("x", "components", "c0", rcpt(1), p.at)
	p.b.confirm("y", "components", "c0", rcpt(2), p.at)
	p.sync(3)
	p.sync(100) // far more than a read reaches back
	p.want = store.content()
	require.Len(t, p.want, 6)
	p.b.confirm("last", "components", "c0", rcpt(4), p.at)
	p.b.Sync(t.Context(), p.at)
	return p
}

func (p *storeWithBackup) sync(times int) {
	for range times {
		p.at = p.at.Add(syncInterval)
		p.a.Sync(p.Context(), p.at)
		p.b.Sync(p.Context(), p.at)
	}
}

func (p *storeWithBackup) backUp() { p.rows, p.when = maps.Clone(p.store.rows), maps.Clone(p.store.at) }

// untilSeen is the number of syncs after which the last poll of a cluster is written again.
const untilSeen = int(seenInterval / syncInterval)

// restore replaces the Store by its backup.
func (p *storeWithBackup) restore() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.store.rows, p.store.at = maps.Clone(p.rows), maps.Clone(p.when)
	p.store.given = 0
}

// busy records an observation in each process, so that it writes in its next sync.
func (p *storeWithBackup) busy(trackers ...*Tracker) {
	for i, tracker := range trackers {
		tracker.confirm(fmt.Sprint("busy", i), "components", "c0", rcpt(5), p.at)
	}
}

// TestStoreFromBackupResynced: the processes write the rows again that a restored Store lacks, however old these are and
// whichever process writes to it first.
func TestStoreFromBackupResynced(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(p *storeWithBackup){
		"nobody writes": func(p *storeWithBackup) { p.restore() },
		"all write": func(p *storeWithBackup) {
			p.restore()
			p.busy(p.a, p.b)
		},
		"another process writes first": func(p *storeWithBackup) {
			p.restore()
			started := NewTracker(Config{Store: p.store})
			p.busy(started)
			for range 2 {
				p.at = p.at.Add(syncInterval)
				started.Sync(p.Context(), p.at)
			}
			p.busy(p.a, p.b)
		},
		"restored between read and write": func(p *storeWithBackup) {
			p.busy(p.b)
			p.store.mu.Lock()
			p.store.beforePut = func() { p.store.rows, p.store.at = maps.Clone(p.rows), maps.Clone(p.when) }
			p.store.mu.Unlock()
			p.at = p.at.Add(syncInterval)
			p.b.Sync(p.Context(), p.at)
		},
		"first write fails": func(p *storeWithBackup) {
			p.restore()
			p.store.failPuts(1, errors.New("gone"))
			p.busy(p.b)
			p.sync(untilSeen)
		},
		"several writes fail": func(p *storeWithBackup) {
			p.restore()
			p.store.failPuts(4, errors.New("gone"))
			p.busy(p.a, p.b)
			p.sync(4 + untilSeen)
		},
		"read-only at first": func(p *storeWithBackup) {
			p.restore()
			p.store.failPuts(2, ErrDenied)
			p.busy(p.a)
			p.sync(2)
			p.busy(p.a, p.b)
		},
		"twice": func(p *storeWithBackup) {
			p.restore()
			p.busy(p.a, p.b)
			p.sync(1)
			p.restore()
			p.busy(p.a, p.b)
		},
		"the clock goes back": func(p *storeWithBackup) {
			p.at = p.at.Add(-time.Hour)
			p.sync(2)
			p.backUp()
			p.b.confirm("after", "components", "c0", rcpt(6), p.at)
			p.b.Sync(p.Context(), p.at)
			p.want["after receipt/components/c0"] = p.store.content()["after receipt/components/c0"]
			p.restore()
			p.busy(p.a, p.b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStoreWithBackup(t)
			restore(p)
			p.sync(4)
			got := p.store.content()
			for key, row := range p.want {
				require.Equal(t, row.Body, got[key].Body, key)
			}
			require.Contains(t, got, "last receipt/components/c0", "which the other process did not know")
			given := p.store.given
			p.sync(3)
			require.Equal(t, given, p.store.given, "once")
		})
	}
}

// TestReadOnlyStoreFromBackup: a process that may not write notices the restored Store and goes on.
func TestReadOnlyStoreFromBackup(t *testing.T) {
	t.Parallel()
	p := newStoreWithBackup(t)
	p.store.fail(ErrDenied)
	p.restore()
	p.sync(3)
	require.Equal(t, Confirmed, p.a.stateOf("x", p.at, desiredLists(`"1"`, 1)))
	started, tried := NewTracker(Config{Store: p.store}), p.store.tried
	for range 20 {
		started.Sync(t.Context(), p.at)
	}
	require.Equal(t, tried+1, p.store.tried, "one that has nothing to say does not go on trying")
}

// TestResyncByReaderProcess: a process writes the lost rows of processes that have ended.
func TestResyncByReaderProcess(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	teller, listener := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	teller.confirm("x", "components", "c0", rcpt(1), noon)
	for range 3 {
		teller.Sync(t.Context(), noon)
		listener.Sync(t.Context(), noon)
	}
	want := store.content()
	require.NotEmpty(t, want)
	store.clear()
	for range 3 {
		listener.Sync(t.Context(), noon)
	}
	require.Equal(t, want, store.content())
}

// TestMarksBounded: the marks of processes that have ended are pruned. An idle process keeps its own, and does not take the
// Store for one that lost rows.
func TestMarksBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, ctx := newFakeStore(), context.WithoutCancel(t.Context())
		tidy := NewTracker(Config{Store: store, PruneStore: true, Clusters: func() ([]string, bool) { return []string{"x"}, true }})
		quiet := NewTracker(Config{Store: store})
		tidy.confirm("x", "components", "c0", rcpt(1), time.Now())
		exchange := func() {
			for range 3 {
				tidy.Sync(ctx, time.Now())
				quiet.Sync(ctx, time.Now())
			}
		}
		exchange()
		for range 12 {
			for range maxRows / 16 {
				crashing := NewTracker(Config{Store: store})
				for range 2 {
					time.Sleep(time.Millisecond)
					crashing.Sync(ctx, time.Now())
				}
			}
			time.Sleep(pruneInterval)
			store.given = 0
			exchange()
			require.LessOrEqual(t, store.given, 4, "the marks of both, and nothing told again")
		}
		marks := 0
		for key := range store.rows {
			if strings.HasPrefix(key, " ") {
				marks++
			}
		}
		require.LessOrEqual(t, marks, maxRows+4)
		require.Len(t, store.content(), 3)
	})
}
