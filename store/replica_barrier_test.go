package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// pair is two processes on one store, behind one address. Neither follows: each sees the other's changes only when it asks the
// store.
func pair(t *testing.T) (a, b *world) {
	t.Helper()
	a = setup(t)
	require.NoError(t, a.replica.Load(t.Context()))
	a.update(t, createClusters("a", "b"))
	a.update(t, createNamespace("n"))
	b = attach(t, a.path)
	require.NoError(t, b.replica.Load(t.Context()))
	return a, b
}

func assign(tx *fleet.Tx) error {
	_, err := tx.Assign("a", fleet.KindNamespace, "n", nil)
	return err
}

func unassign(tx *fleet.Tx) error {
	_, err := tx.Unassign("a", fleet.KindNamespace, "n")
	return err
}

func protect(on bool) func(*fleet.Tx) error {
	return func(tx *fleet.Tx) error {
		_, err := tx.Put(fleet.KindCluster, "b", fmt.Appendf(nil, `{"deletion_protection":%t}`, on))
		return err
	}
}

// stored returns the store's State, as a process that starts now loads it.
func stored(t *testing.T, w *world) *fleet.State {
	t.Helper()
	fresh := attach(t, w.path)
	require.NoError(t, fresh.replica.Load(t.Context()))
	return fresh.replica.State()
}

// One client sends opposite writes, and a balancer each to another process: none may be lost for being a no-op in a copy
// that is behind.
func TestOppositeWritesThroughTwoProcesses(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	a.update(t, assign)
	require.NoError(t, b.replica.Load(t.Context()))
	for range 20 {
		a.update(t, unassign)
		res := b.update(t, assign)
		require.Len(t, res.Commit.Changes, 1, "it was acknowledged, so it was made")
		doc, err := stored(t, a).Find(fleet.KindCluster, "a")
		require.NoError(t, err)
		require.Len(t, doc.Cluster().Namespaces, 1)
		a, b = b, a
	}
}

func TestGoodAfterBadThroughTwoProcesses(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	a.update(t, protect(true))
	b.update(t, protect(false)) // as b knows
	doc, err := stored(t, a).Find(fleet.KindCluster, "b")
	require.NoError(t, err)
	require.False(t, doc.Cluster().DeletionProtection)
}

func TestRefusalsAreTheHeads(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]func(t *testing.T, a, b *world) error{
		"what another process created is there": func(t *testing.T, a, b *world) error {
			a.update(t, createClusters("c"))
			_, err := b.replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
				_, err := tx.Assign("c", fleet.KindNamespace, "n", nil)
				return err
			})
			return err
		},
		"what another process deleted can be created": func(t *testing.T, a, b *world) error {
			a.update(t, func(tx *fleet.Tx) error {
				_, err := tx.Delete(fleet.KindNamespace, "n", fleet.DeleteOptions{})
				return err
			})
			_, err := b.replica.Update(t.Context(), store.Meta{}, createNamespace("n"))
			return err
		},
		"a dry run, too": func(t *testing.T, a, b *world) error {
			a.update(t, createNamespace("m"))
			_, err := b.replica.Update(t.Context(), store.Meta{DryRun: true}, func(tx *fleet.Tx) error {
				_, err := tx.Assign("a", fleet.KindNamespace, "m", nil)
				return err
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			require.NoError(t, refused(t, a, b))
		})
	}
}

// A condition that the head does not fulfill is refused, also if the edit would change no document.
func TestStaleConditionThroughTwoProcesses(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	doc, err := b.replica.State().Find(fleet.KindCluster, "b")
	require.NoError(t, err)
	a.update(t, protect(true))
	for _, dry := range []bool{false, true} {
		_, err = b.replica.Update(t.Context(), store.Meta{DryRun: dry}, func(tx *fleet.Tx) error {
			if err := tx.Match(fleet.KindCluster, "b", doc.ETag()); err != nil {
				return err
			}
			return protect(false)(tx)
		})
		var stale *fleet.Error
		require.ErrorAs(t, err, &stale)
		require.Equal(t, fleet.CodeStale, stale.Code)
	}
}

// While the store cannot be asked, its head is unknown, and no write is answered.
func TestNothingIsAnsweredUnconfirmed(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	mine := errors.New("mine")
	for name, update := range map[string]struct {
		meta store.Meta
		edit func(*fleet.Tx) error
	}{
		"no-op":   {store.Meta{}, protect(false)},
		"refusal": {store.Meta{}, createNamespace("n")},
		"own":     {store.Meta{}, func(*fleet.Tx) error { return mine }},
		"dry run": {store.Meta{DryRun: true}, createNamespace("x")},
	} {
		a.fail(errors.New("the network is down"))
		_, err := a.replica.Update(t.Context(), update.meta, update.edit)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		a.heal()
	}
	_, err := a.replica.Update(t.Context(), store.Meta{}, func(*fleet.Tx) error { return mine })
	require.ErrorIs(t, err, mine)
}
