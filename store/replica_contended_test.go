package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A change that takes longer to compute than the time between other commits loses every round. It must not be refused for ever:
// the other writers wait once.
func TestSlowChangeAmongBusyWriters(t *testing.T) {
	t.Parallel()
	slow := setup(t)
	require.NoError(t, slow.replica.Load(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others sync.WaitGroup
	for p := range 3 {
		w := attach(t, slow.path)
		require.NoError(t, w.replica.Load(t.Context()))
		others.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = w.replica.Update(ctx, store.Meta{}, createNamespace(fmt.Sprintf("n%d-%d", p, i)))
			}
		})
	}
	var err error
	var rounds int
	var before int64
	// On a busy machine the lock may not be free in time. Clients try again then.
	for again := true; again; again = err != nil && strings.Contains(err.Error(), "is locked") {
		rounds, before = 0, slow.replica.Status().Stale
		_, err = slow.replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
			rounds++
			waiting, done := context.WithTimeout(t.Context(), time.Second)
			defer done()
			for waiting.Err() == nil { // until another writer was faster, or it is clear that none can be
				if head, err := slow.faulty.Store.Head(waiting); err == nil && head != tx.Base().Head() {
					break
				}
			}
			return createClusters("big")(tx)
		})
	}
	require.NoError(t, err)
	require.EqualValues(t, 10, slow.replica.Status().Stale-before)
	require.Equal(t, 11, rounds)
	stop()
	others.Wait()
	require.True(t, has(stored(t, slow), fleet.KindCluster, "big"))
}

// TestUrgentUpdateDoesNotWait: an urgent change, such as a freeze, is committed before the changes that queue in this process, and
// each of these is computed on it.
func TestUrgentUpdateDoesNotWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	computing, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var others sync.WaitGroup
	for i := range 5 {
		others.Go(func() {
			_, err := w.replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
				once.Do(func() { close(computing); <-proceed })
				return createNamespace(fmt.Sprintf("n%d", i))(tx)
			})
			assert.NoError(t, err)
		})
	}
	<-computing
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	res, err := w.replica.Update(ctx, store.Meta{Urgent: true}, createNamespace("urgent"))
	close(proceed)
	others.Wait()
	require.NoError(t, err)
	require.EqualValues(t, 1, res.State.Revision())
	require.EqualValues(t, 6, w.replica.State().Revision())
}

// A refusal, or an edit without changes, after so many rounds is computed while other commits are locked out.
func TestRefusedAfterManyStaleCommits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	for name, last := range map[string]func(*fleet.Tx) error{
		"nothing": func(*fleet.Tx) error { return nil },
		"refused": createNamespace("Not A Name"),
	} {
		w.faulty.stale.Store(10)
		rounds := 0
		res, err := w.replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
			if rounds++; rounds <= 10 {
				return createNamespace(name)(tx)
			}
			return last(tx)
		})
		if name == "nothing" {
			require.NoError(t, err)
			require.Empty(t, res.Commit.Changes)
		} else {
			var refused *fleet.Error
			require.ErrorAs(t, err, &refused)
		}
		require.Equal(t, 11, rounds)
		require.NoError(t, w.replica.Status().WriteError)
	}
	require.Zero(t, w.replica.State().Revision())
}
