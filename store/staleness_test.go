package store_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// ageing is attach with a clock that a test moves, and a limit of a minute.
func ageing(t *testing.T, path string) (*world, *atomic.Int64) {
	t.Helper()
	w, now := &world{path: path, faulty: &faulty{Store: open(t, path)}, logs: &logs{}}, &atomic.Int64{}
	w.replica = store.NewReplica(store.Config{
		Store: w.faulty, Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Interval: time.Millisecond, MaxBackoff: 2 * time.Millisecond,
		Elapsed: func() time.Duration { return time.Duration(now.Load()) }, MaxStaleness: time.Minute,
	})
	return w, now
}

// slowHead moves the clock during the head query: the answer is as old as the query.
type slowHead struct {
	store.Store
	now  *atomic.Int64
	took time.Duration
}

func (s *slowHead) Head(ctx context.Context) (fleet.Head, error) {
	head, err := s.Store.Head(ctx)
	s.now.Add(int64(s.took))
	return head, err
}

func TestAgeCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	w, now := ageing(t, setup(t).path)
	_, _, err := w.replica.StateForPolls()
	require.ErrorIs(t, err, store.ErrNotLoaded)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createNamespace("a"))
	now.Add(int64(50 * time.Second))
	slow := &slowHead{Store: w.faulty.Store, now: now, took: 40 * time.Second}
	w.faulty.Store = slow
	require.NoError(t, w.replica.Load(t.Context()))
	_, age, err := w.replica.StateForPolls()
	require.NoError(t, err)
	require.Equal(t, 40*time.Second, age, "and not 0: the store may have moved on since it was asked")
	slow.took = 61 * time.Second
	require.NoError(t, w.replica.Load(t.Context()))
	_, age, err = w.replica.StateForPolls()
	require.ErrorIs(t, err, store.ErrTooOld)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, 61*time.Second, age)
}

// A process that was stopped for long does not answer from its old State, not even at the moment it continues or while it
// fetches another State. After a query to the store it answers again.
func TestStoppedForLong(t *testing.T) {
	t.Parallel()
	w, now := ageing(t, setup(t).path)
	require.NoError(t, w.replica.Load(t.Context()))
	other := attach(t, w.path)
	require.NoError(t, other.replica.Load(t.Context()))
	other.update(t, createNamespace("a"))
	now.Add(int64(time.Minute + 1))
	_, _, err := w.replica.StateForPolls()
	require.ErrorIs(t, err, store.ErrTooOld)
	require.True(t, w.replica.Status().TooOld)

	require.NoError(t, w.replica.Load(t.Context()))
	st, age, err := w.replica.StateForPolls()
	require.NoError(t, err)
	require.Zero(t, age)
	require.True(t, has(st, fleet.KindNamespace, "a"))
}

// While a follower works through a long log, each State on the way is as old as the last one that was the store's head.
func TestCatchingUpIsNoConfirmation(t *testing.T) {
	t.Parallel()
	w, now := ageing(t, setup(t).path)
	require.NoError(t, w.replica.Load(t.Context()))
	other := attach(t, w.path)
	require.NoError(t, other.replica.Load(t.Context()))
	for _, id := range []string{"a", "b", "c"} {
		other.update(t, createNamespace(id))
	}
	now.Add(int64(30 * time.Second))
	broken := &breaksOff{Store: w.faulty.Store, after: 1}
	w.faulty.Store = broken
	require.ErrorIs(t, w.replica.Load(t.Context()), store.ErrUnavailable)
	st, age, err := w.replica.StateForPolls()
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Revision())
	require.Equal(t, 30*time.Second, age)
}

// breaksOff returns one commit at a time, and then fails.
type breaksOff struct {
	store.Store
	after int
}

func (b *breaksOff) Since(ctx context.Context, after fleet.Head, _ int) ([]fleet.Commit, error) {
	if b.after--; b.after < 0 {
		return nil, store.ErrUnavailable
	}
	return b.Store.Since(ctx, after, 1)
}
