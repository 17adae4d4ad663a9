package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// eachPrepared runs a test with each backend on a migrated database, which is opened on first use, after prepare.
func eachPrepared(t *testing.T, test func(t *testing.T, onFirstUse func(prepare func(context.Context) error) store.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := setup(t).path
		test(t, func(prepare func(context.Context) error) store.Store {
			return sqlite.New(sqlite.Config{Path: path, Prepare: prepare})
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		require.NoError(t, postgres.Migrate(t.Context(), url))
		test(t, func(prepare func(context.Context) error) store.Store {
			s, err := postgres.New(postgres.Config{URL: url, Prepare: prepare})
			require.NoError(t, err)
			return s
		})
	})
}

// Opening may take long, since it may migrate: callers wait only as long as their context permits, and a canceled caller does
// not end it.
func TestFirstUseIsForAll(t *testing.T) {
	t.Parallel()
	eachPrepared(t, func(t *testing.T, onFirstUse func(func(context.Context) error) store.Store) {
		var attempts atomic.Int64
		leave := make(chan struct{})
		s := onFirstUse(func(ctx context.Context) error {
			attempts.Add(1)
			select {
			case <-leave:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, s.Ping(ctx), context.DeadlineExceeded)
		}
		close(leave)
		require.NoError(t, s.Ping(t.Context()))
		_, err := s.Size(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, attempts.Load())
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Ping(t.Context()), store.ErrUnavailable)
	})
}

// Every operation needs the first use, and returns the error of its attempt unchanged.
func TestFirstUseIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachPrepared(t, func(t *testing.T, onFirstUse func(func(context.Context) error) store.Store) {
		failing, attempts := true, 0
		s := onFirstUse(func(context.Context) error {
			if attempts++; failing {
				return store.ErrNotInitialised
			}
			return nil
		})
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		operations := []func() error{
			func() error { return s.Ping(t.Context()) },
			func() error { _, err := s.Load(t.Context()); return err },
			func() error { _, err := s.Barrier(t.Context()); return err },
			func() error { return s.Probe(t.Context()) },
			func() error { _, err := s.Size(t.Context()); return err },
			func() error { _, err := s.History(t.Context(), store.HistoryQuery{Limit: 1}); return err },
		}
		for _, each := range operations {
			require.Equal(t, store.ErrNotInitialised, each())
		}
		require.Equal(t, len(operations), attempts)
		failing = false
		for _, each := range operations {
			require.NoError(t, each())
		}
		require.Equal(t, len(operations)+1, attempts)
	})
}

func TestCloseEndsTheFirstUse(t *testing.T) {
	t.Parallel()
	eachPrepared(t, func(t *testing.T, onFirstUse func(func(context.Context) error) store.Store) {
		opening := make(chan struct{})
		s := onFirstUse(func(ctx context.Context) error {
			close(opening)
			<-ctx.Done()
			return ctx.Err()
		})
		done := make(chan error, 1)
		go func() { done <- s.Ping(context.Background()) }()
		<-opening
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-done, context.Canceled)
		require.ErrorIs(t, s.Ping(t.Context()), store.ErrUnavailable)
	})
}
