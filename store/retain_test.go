package store_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	w.update(t, createNamespace("n"))
	lazy := store.NewLazy(func(context.Context) (store.Store, error) { return w.faulty.Store, nil })
	start := clock
	var turns atomic.Int64 // in which something could have been removed, or would have been
	run := func(keep, passed time.Duration, may bool) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		turns.Store(0)
		go func() {
			defer close(done)
			store.Retention{
				Store: lazy, Keep: keep, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return start.Add(passed) },
				May: func() bool { turns.Add(1); return may },
			}.Run(ctx)
		}()
		eventually(t, func() bool { return keep == 0 || turns.Load() > 2 })
		cancel()
		<-done
	}
	run(0, time.Hour, true)
	run(2*time.Hour, time.Hour, true)
	require.EqualValues(t, 1, oldest(t, w), "nothing is old enough, or all is kept")
	run(time.Hour, 2*time.Hour, false)
	require.EqualValues(t, 1, oldest(t, w), "it may be another fleet's")
	run(time.Hour, 2*time.Hour, true)
	require.EqualValues(t, 2, oldest(t, w))
	require.True(t, has(w.replica.State(), fleet.KindNamespace, "n"))
}

// An operator's acceptance of another history is a commit that changes nothing. It is copied with the rest, and kept as
// long as the rest: whoever comes back later than that holds on, as after any longer outage, until it is accepted again.
func TestAcceptanceIsKeptAndCopied(t *testing.T) {
	t.Parallel()
	first := setup(t)
	require.NoError(t, first.replica.Load(t.Context()))
	first.update(t, createClusters("a"))
	data := backup(t, first)
	before := first.update(t, createClusters("b")).State
	serving := func() *world {
		w := attach(t, first.path)
		require.NoError(t, w.replica.Load(t.Context()))
		require.Equal(t, before.Head(), w.replica.State().Head())
		return w
	}
	soon, inTime, late := serving(), serving(), serving()

	restore(t, first, data)
	db := open(t, first.path)
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	accepted, err := store.Accept(t.Context(), db, head, before.Head(), clock.Add(time.Hour))
	require.NoError(t, err)
	next := attach(t, first.path)
	require.NoError(t, next.replica.Load(t.Context()))
	next.update(t, createNamespace("since"))

	copied := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, sqlite.Migrate(t.Context(), copied))
	require.NoError(t, store.Copy(t.Context(), db, open(t, copied), nil))
	restore(t, soon, backup(t, &world{path: copied}))
	soon.run(t)
	eventually(t, func() bool { return has(soon.replica.State(), fleet.KindNamespace, "since") })

	at, _, err := open(t, first.path).Compact(t.Context(), clock.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, accepted.Revision, at)
	inTime.run(t)
	eventually(t, func() bool { return has(inTime.replica.State(), fleet.KindNamespace, "since") })
	require.False(t, has(inTime.replica.State(), fleet.KindCluster, "b"))

	at, _, err = open(t, first.path).Compact(t.Context(), clock.Add(2*time.Hour))
	require.NoError(t, err)
	require.Greater(t, at, accepted.Revision)
	late.run(t)
	late.holds(t, late.replica.State())
	require.True(t, has(late.replica.State(), fleet.KindCluster, "b"))
	late.accept(t, before.Head())
	eventually(t, func() bool { return has(late.replica.State(), fleet.KindNamespace, "since") })
}

// oldest is the oldest revision in the log.
func oldest(t *testing.T, w *world) fleet.Revision {
	t.Helper()
	log, err := w.faulty.History(t.Context(), store.HistoryQuery{Limit: 1000})
	require.NoError(t, err)
	return log[len(log)-1].Revision
}
