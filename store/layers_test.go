package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A follower gives the same answers for layers as the process that made them. So does a process that starts from its disk
// without a store, and one that continues the log from there. Values from layers are in no cluster's document.
func TestLayersFollowAndAreKept(t *testing.T) {
	t.Parallel()
	w, dir, _ := kept(t)
	follower := attach(t, w.path)
	require.NoError(t, follower.replica.Load(t.Context()))
	follower.run(t)
	none := answerOf(t, follower.replica.State(), "namespaces")

	writer := keeping(t, w.path, dir)
	require.True(t, writer.replica.Restore(t.Context()))
	require.NoError(t, writer.replica.Load(t.Context()))
	writer.run(t)
	writer.update(t, func(tx *fleet.Tx) error {
		if _, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"from-layer"}`)); err != nil {
			return err
		}
		_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"all","priority":1,"all":true,"namespaces":[{"id":"from-layer"}]}`))
		return err
	})
	want := answerOf(t, writer.replica.State(), "namespaces")
	require.Contains(t, want, `"id":"from-layer"`)
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "namespaces") == want })
	writer.stop()

	late := keeping(t, w.path, dir)
	late.fail(store.ErrUnavailable)
	require.True(t, late.replica.Restore(t.Context()))
	require.Equal(t, want, answerOf(t, late.replica.State(), "namespaces"))
	late.heal()
	late.run(t)
	late.update(t, func(tx *fleet.Tx) error { // now a label decides
		tx.Guard(fleet.Guard{Off: true})
		_, err := tx.Patch(fleet.KindLayer, "all", []byte(`{"all":null,"selector":"has=it"}`))
		return err
	})
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "namespaces") == none })
	late.update(t, func(tx *fleet.Tx) error {
		_, err := tx.SetLabels("a", []byte(`{"has":"it"}`))
		return err
	})
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "namespaces") == want })
	late.stop()
	last := keeping(t, w.path, dir)
	last.fail(store.ErrUnavailable)
	require.True(t, last.replica.Restore(t.Context()))
	require.Equal(t, want, answerOf(t, last.replica.State(), "namespaces"))
}
