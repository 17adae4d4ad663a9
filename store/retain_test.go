package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	w.update(t, createNamespace("n"))
	lazy := store.NewLazy(func(context.Context) (store.Store, error) { return w.faulty.Store, nil })
	start := time.Now()
	stop := func(keep time.Duration, passed time.Duration) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			store.Retention{
				Store: lazy, Keep: keep, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return start.Add(passed) },
			}.Run(ctx)
		}()
		if keep > 0 && passed > keep {
			eventually(t, func() bool { return oldest(t, w) == 2 })
		}
		cancel()
		<-done
	}
	stop(0, time.Hour)
	stop(2*time.Hour, time.Hour)
	require.EqualValues(t, 1, oldest(t, w), "nothing is old enough, or all is kept")
	stop(time.Hour, 2*time.Hour)
	require.True(t, has(w.replica.State(), fleet.KindNamespace, "n"))
}

// oldest is the oldest revision in the log.
func oldest(t *testing.T, w *world) fleet.Revision {
	t.Helper()
	log, err := w.faulty.History(t.Context(), store.HistoryQuery{Limit: 1000})
	require.NoError(t, err)
	return log[len(log)-1].Revision
}
