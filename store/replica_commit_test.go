package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A commit may take the longer the more it changes: this one would never end within the time of a small one.
func TestReplicaLargeCommit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := store.NewReplica(store.Config{Store: w.faulty, CommitTimeout: time.Millisecond})
	require.NoError(t, r.Load(t.Context()))
	// Few documents, and large ones: they have much time, and need little of it, on a slow machine too.
	text := strings.Repeat("x", 200<<10)
	res, err := r.Update(t.Context(), store.Meta{Actor: "test"}, func(tx *fleet.Tx) error {
		for i := range 40 {
			if _, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"n%d","annotations":{"text":"%s"}}`, i, text)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, store.ExtraCommitTime(res.Commit), 2*time.Second)
}

func TestExtraCommitTime(t *testing.T) {
	t.Parallel()
	of := func(before, after int) time.Duration {
		return store.ExtraCommitTime(fleet.Commit{Changes: []fleet.Change{{Before: make([]byte, before)}, {After: make([]byte, after)}}})
	}
	require.Zero(t, of(1000, 1000))
	require.Equal(t, 20*time.Second, of(0, 10<<20))
	require.Equal(t, 20*time.Second, of(8<<20, 2<<20))
	require.Equal(t, 15*time.Minute, of(300<<20, 300<<20), "nothing takes for ever")
}

// An adopted State is not loaded again, and it is not served until the store has confirmed it.
func TestReplicaAdopts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	filled := w.update(t, createNamespace("a")).State
	r := store.NewReplica(store.Config{Store: noLoad{w.faulty}, MaxStaleness: time.Minute, Elapsed: func() time.Duration { return time.Hour }})
	r.Adopt(filled)
	_, _, err := r.StateForPolls()
	require.ErrorIs(t, err, store.ErrTooOld)
	w.update(t, createNamespace("b"))
	require.NoError(t, r.Load(t.Context()))
	st, _, err := r.StateForPolls()
	require.NoError(t, err)
	require.True(t, has(st, fleet.KindNamespace, "b"), "it follows the log")
	r.Adopt(filled)
	require.Same(t, st, r.State(), "a State is never replaced by an older one")
}

// noLoad is a store that cannot be loaded.
type noLoad struct{ store.Store }

func (noLoad) Load(context.Context) (store.Snapshot, error) {
	return store.Snapshot{}, errors.New("it is loaded")
}
