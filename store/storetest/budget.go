package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testRemovalBudget: the hourly removal budget is shared by all processes that write, including later ones.
func testRemovalBudget(t *testing.T, b *bench) {
	ctx := b.ctx()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	process := func(s store.Store) *store.Replica {
		r := store.NewReplica(store.Config{Store: s, Rules: fleet.Rules{MaxRemovals: 3}, Now: func() time.Time { return now }})
		require.NoError(t, r.Load(ctx))
		return r
	}
	processes := []*store.Replica{process(b.Store)}
	_, err := processes[0].Update(ctx, store.Meta{}, func(tx *fleet.Tx) error {
		for i := range 8 {
			if _, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"n%d"}`, i)); err != nil {
				return err
			}
		}
		_, err := tx.Create(fleet.KindCluster, []byte(`{"id":"c","cluster_dns":"c.example.com","environment":"dev",
			"namespaces":[{"id":"n0"},{"id":"n1"},{"id":"n2"},{"id":"n3"},{"id":"n4"},{"id":"n5"}]}`))
		return err
	})
	require.NoError(t, err)
	processes = append(processes, process(b.again(false)))
	unassign := func(r *store.Replica, n int) error {
		_, err := r.Update(ctx, store.Meta{}, func(tx *fleet.Tx) error {
			_, err := tx.Unassign("c", fleet.KindNamespace, fmt.Sprintf("n%d", n))
			return err
		})
		return err
	}
	refused := func(err error) {
		t.Helper()
		e, ok := errors.AsType[*fleet.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, fleet.CodeConfirm, e.Code)
	}
	for n := range 3 {
		now = now.Add(time.Minute)
		require.NoError(t, unassign(processes[(n+1)%2], n)) // the other's copy is the older one every time
	}
	for _, r := range processes {
		refused(unassign(r, 3))
	}
	refused(unassign(process(b.again(false)), 3)) // it was not there when the others removed
	now = now.Add(time.Hour)
	require.NoError(t, unassign(processes[1], 3))
}
