package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testPin: a pin keeps the answers to its cluster in every process, also later ones, and in a
// copy of the store, as backups and restores make it.
func testPin(t *testing.T, b *bench) {
	process := func(s store.Store) *store.Replica {
		r := store.NewReplica(store.Config{Store: s, Rules: fleet.Rules{MaxRemovals: 3}})
		require.NoError(t, r.Load(b.ctx()))
		return r
	}
	answers := func(r *store.Replica) map[string]string {
		st := r.State()
		out := map[string]string{}
		for _, d := range st.All(fleet.KindCluster) {
			a, err := st.Answer(d, fleet.KindNamespace)
			require.NoError(t, err)
			out[d.ID] = a.ETag
		}
		return out
	}
	writer := process(b.Store)
	update := func(edit func(*fleet.Tx) error) {
		_, err := writer.Update(b.ctx(), store.Meta{}, edit)
		require.NoError(t, err)
	}
	create := func(tx *fleet.Tx, kind fleet.Kind, text string) error {
		_, err := tx.Create(kind, []byte(text))
		return err
	}
	update(func(tx *fleet.Tx) error {
		err := create(tx, fleet.KindNamespace, `{"id":"team","labels":{"v":"1"}}`)
		for _, id := range []string{"a", "b"} {
			if err == nil {
				err = create(tx, fleet.KindCluster, fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","namespaces":[{"id":"team"}]}`, id, id))
			}
		}
		return err
	})
	setPin := func(tx *fleet.Tx, pin string) error {
		_, err := tx.Patch(fleet.KindCluster, "a", []byte(`{"pinned":`+pin+`}`))
		return err
	}
	follower := process(b.again(false))
	before := answers(writer)
	update(func(tx *fleet.Tx) error {
		return setPin(tx, `{"reason":"INC-7"}`)
	})
	update(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindNamespace, "team", []byte(`{"labels":{"v":"2"}}`))
		return err
	})
	now := answers(writer)
	require.Equal(t, before["a"], now["a"])
	require.NotEqual(t, before["b"], now["b"])
	require.NoError(t, follower.Load(b.ctx()))
	for _, r := range []*store.Replica{follower, process(b.again(false))} {
		require.Equal(t, now, answers(r))
	}
	target := b.importer()
	require.NoError(t, target.imports(b))
	restored := process(target.Store)
	require.Equal(t, now, answers(restored))
	for _, r := range []*store.Replica{writer, restored} {
		_, err := r.Update(b.ctx(), store.Meta{}, func(tx *fleet.Tx) error {
			return setPin(tx, "null")
		})
		require.NoError(t, err)
		require.NotEqual(t, before["a"], answers(r)["a"])
		require.Equal(t, now["b"], answers(r)["b"])
	}
}
