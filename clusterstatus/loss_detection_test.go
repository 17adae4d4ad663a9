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

// backedUp is two processes whose table will be brought back from a backup, and what is in it by then.
type storeWithBackup struct {
	*testing.T
	table *fakeStore
	a, b  *Tracker
	at    time.Time
	rows  map[string]Row
	when  map[string]time.Time
	want  map[string]Row
}

// newBackedUp fills a table of which there is an older backup.
func newStoreWithBackup(t *testing.T) *storeWithBackup {
	t.Helper()
	table := newFakeStore()
	p := &storeWithBackup{T: t, table: table, a: NewTracker(Config{Store: table}), b: NewTracker(Config{Store: table}), at: noon}
	p.a.RecordPoll("x", "components", `"1"`, "flux-operator/v1", p.at)
	p.sync(2)
	p.backUp()
	p.a.confirm("x", "components", "c0", rcpt(1), p.at)
	p.b.confirm("y", "components", "c0", rcpt(2), p.at)
	p.sync(3)
	p.sync(100) // far more than what is read again
	p.want = table.content()
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

// backUp makes the backup.
func (p *storeWithBackup) backUp() { p.rows, p.when = maps.Clone(p.table.rows), maps.Clone(p.table.at) }

// untilSeen is how many exchanges it takes until it is written again that a cluster was seen, where that has failed.
const untilSeen = int(seenInterval / syncInterval)

// restore brings the table back.
func (p *storeWithBackup) restore() {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	p.table.rows, p.table.at = maps.Clone(p.rows), maps.Clone(p.when)
	p.table.given = 0
}

// busy has a process hear something, so that it writes as soon as it can.
func (p *storeWithBackup) busy(books ...*Tracker) {
	for i, book := range books {
		book.confirm(fmt.Sprint("busy", i), "components", "c0", rcpt(5), p.at)
	}
}

// TestStoreFromBackupResynced: one that is what it was, and behind, however long ago that was written which it has not, and
// whoever writes to it before anybody has looked.
func TestStoreFromBackupResynced(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(p *storeWithBackup){
		"nobody writes": func(p *storeWithBackup) { p.restore() },
		"all write": func(p *storeWithBackup) {
			p.restore()
			p.busy(p.a, p.b)
		},
		"another one writes first": func(p *storeWithBackup) {
			p.restore()
			started := NewTracker(Config{Store: p.table})
			p.busy(started)
			for range 2 {
				p.at = p.at.Add(syncInterval)
				started.Sync(p.Context(), p.at)
			}
			p.busy(p.a, p.b)
		},
		"between what one reads and what it writes": func(p *storeWithBackup) {
			p.busy(p.b)
			p.table.mu.Lock()
			p.table.beforePut = func() { p.table.rows, p.table.at = maps.Clone(p.rows), maps.Clone(p.when) }
			p.table.mu.Unlock()
			p.at = p.at.Add(syncInterval)
			p.b.Sync(p.Context(), p.at)
		},
		"it takes nothing at first": func(p *storeWithBackup) {
			p.restore()
			p.table.failPuts(1, errors.New("gone"))
			p.busy(p.b)
			p.sync(untilSeen)
		},
		"it takes nothing for longer": func(p *storeWithBackup) {
			p.restore()
			p.table.failPuts(4, errors.New("gone"))
			p.busy(p.a, p.b)
			p.sync(4 + untilSeen)
		},
		"it may not be written at first": func(p *storeWithBackup) {
			p.restore()
			p.table.failPuts(2, ErrDenied)
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
			p.want["after receipt/components/c0"] = p.table.content()["after receipt/components/c0"]
			p.restore()
			p.busy(p.a, p.b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStoreWithBackup(t)
			restore(p)
			p.sync(4)
			got := p.table.content()
			for key, row := range p.want {
				require.Equal(t, row.Body, got[key].Body, key)
			}
			require.Contains(t, got, "last receipt/components/c0", "which the other process did not know")
			given := p.table.given
			p.sync(3)
			require.Equal(t, given, p.table.given, "once")
		})
	}
}

// TestReadOnlyStoreFromBackup: a process sees it, and has nothing to do about it.
func TestReadOnlyStoreFromBackup(t *testing.T) {
	t.Parallel()
	p := newStoreWithBackup(t)
	p.table.fail(ErrDenied)
	p.restore()
	p.sync(3)
	require.Equal(t, Confirmed, p.a.stateOf("x", p.at, desiredLists(`"1"`, 1)))
	started, tried := NewTracker(Config{Store: p.table}), p.table.tried
	for range 20 {
		started.Sync(t.Context(), p.at)
	}
	require.Equal(t, tried+1, p.table.tried, "one that has nothing to say does not go on trying")
}

// TestResyncByReaderProcess knows what others said, and tells it when the table has lost that, with those who said it gone.
func TestResyncByReaderProcess(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	teller, listener := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
	teller.confirm("x", "components", "c0", rcpt(1), noon)
	for range 3 {
		teller.Sync(t.Context(), noon)
		listener.Sync(t.Context(), noon)
	}
	want := table.content()
	require.NotEmpty(t, want)
	table.clear()
	for range 3 {
		listener.Sync(t.Context(), noon)
	}
	require.Equal(t, want, table.content())
}

// TestMarksBounded: processes come and go, and what they leave in the table does not grow for ever. One that goes on
// and has nothing to say for long is not taken for one whose table was lost.
func TestMarksBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, ctx := newFakeStore(), context.WithoutCancel(t.Context())
		tidy := NewTracker(Config{Store: table, PruneStore: true, Clusters: func() ([]string, bool) { return []string{"x"}, true }})
		quiet := NewTracker(Config{Store: table})
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
				crashing := NewTracker(Config{Store: table})
				for range 2 {
					time.Sleep(time.Millisecond)
					crashing.Sync(ctx, time.Now())
				}
			}
			time.Sleep(pruneInterval)
			table.given = 0
			exchange()
			require.LessOrEqual(t, table.given, 4, "the marks of both, and nothing told again")
		}
		marks := 0
		for key := range table.rows {
			if strings.HasPrefix(key, " ") {
				marks++
			}
		}
		require.LessOrEqual(t, marks, maxRows+4)
		require.Len(t, table.content(), 3)
	})
}
