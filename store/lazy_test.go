package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// Opening may take long, since it may migrate: callers wait only as long as their context permits, and a canceled caller does
// not end it.
func TestLazyOpensForAll(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	leave := make(chan struct{})
	opened := open(t, setup(t).path)
	lazy := store.NewLazy(func(ctx context.Context) (store.Store, error) {
		attempts.Add(1)
		select {
		case <-leave:
			return opened, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, lazy.Ping(ctx), context.DeadlineExceeded)
	}
	close(leave)
	require.NoError(t, lazy.Ping(t.Context()))
	require.EqualValues(t, 1, attempts.Load())
	require.NoError(t, lazy.Close())
	require.ErrorIs(t, lazy.Ping(t.Context()), store.ErrUnavailable)
}

func TestLazyTriesAgain(t *testing.T) {
	t.Parallel()
	answers := []error{store.ErrUnavailable, store.ErrNotInitialised, nil}
	opened := open(t, setup(t).path)
	lazy := store.NewLazy(func(context.Context) (store.Store, error) {
		err := answers[0]
		answers = answers[1:]
		if err != nil {
			return nil, err
		}
		return opened, nil
	})
	require.ErrorIs(t, lazy.Ping(t.Context()), store.ErrUnavailable)
	require.ErrorIs(t, lazy.Open(t.Context()), store.ErrNotInitialised)
	require.NoError(t, lazy.Open(t.Context()))
	require.NoError(t, lazy.Ping(t.Context()))
	require.Empty(t, answers)
}

func TestLazyCloseEndsOpening(t *testing.T) {
	t.Parallel()
	opening := make(chan struct{})
	lazy := store.NewLazy(func(ctx context.Context) (store.Store, error) {
		close(opening)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	done := make(chan error, 1)
	go func() { done <- lazy.Open(context.Background()) }()
	<-opening
	require.NoError(t, lazy.Close())
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, lazy.Open(t.Context()), store.ErrUnavailable)
}
