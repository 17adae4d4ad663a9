package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func recall(w *world, revision int64, kind, id string) func(*Tx) error {
	return func(tx *Tx) error {
		past := Documents{}
		for i := len(w.log.commits) - 1; i >= 0 && int64(w.log.commits[i].Revision) > revision; i-- {
			for _, ch := range w.log.commits[i].Changes {
				if id == "" || string(ch.Kind) == kind && ch.ID == id {
					past.Set(ch.Kind, ch.ID, ch.Before)
				}
			}
		}
		tx.Guard(Guard{Off: true})
		_, err := NewBatch(tx, &log{past: past}).Run([]api.Operation{{Op: "restore", Revision: revision, Kind: kind, ID: id}})
		return err
	}
}

// TestInactivePatchesComeBack: a cluster with patches of a component that a layer assigned can be restored after its
// deletion, with all other clusters or alone, and created again from an export.
func TestInactivePatchesComeBack(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, `{"id":"prod","priority":20,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`)
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "loki", []byte(`{"a":1}`), PatchOptions{})
		return err
	})
	w.must(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`))
	there, before := w.last(), bodies(w.state)
	exported := string(w.state.docs[KindCluster]["c2"].Body)
	w.must(remove(KindCluster, "c2", DeleteOptions{}))
	gone := w.last()
	for name, back := range map[string]func(*Tx) error{
		"revert": revert(w, api.Operation{Revision: gone}), "revert, and prefer it": revert(w, api.Operation{Revision: gone, Prefer: "theirs"}),
		"restore all": recall(w, there, "", ""), "restore it": recall(w, there, "cluster", "c2"),
	} {
		other := *w
		res := other.must(back)
		require.Equal(t, before, bodies(other.state), name)
		require.Contains(t, strings.Join(res.Warnings, "\n"), `the patches of component "loki" on cluster "c2" have no effect`, name)
	}
	w.must(remove(KindCluster, "c2", DeleteOptions{Orphan: true}))
	w.must(create(KindCluster, exported))
	require.Equal(t, before[docKey{KindCluster, "c2"}], bodies(w.state)[docKey{KindCluster, "c2"}])
	w.must(patch(KindCluster, "c2", `{"labels":{"tier":"prod"}}`))
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c2.example.com", "loki")["values"])
	w.refused(CodeInvalid, create(KindCluster, `{"id":"typo","cluster_dns":"t.example.com","environment":"dev","patches":{"lokki":{"a":1}}}`))
	w.refused(CodeInvalid, patch(KindCluster, "c1", `{"patches":{"lokki":{"a":1}}}`))
}

// TestRestoreToInactivePatches: a component that was removed since does not prevent restoring the rest of the fleet.
func TestRestoreToInactivePatches(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, `{"id":"prod","priority":20,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`)
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "loki", []byte(`{"a":1}`), PatchOptions{})
		return err
	})
	w.must(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`))
	there, before := w.last(), bodies(w.state)
	w.must(patch(KindCluster, "c2", `{"patches":null}`))
	w.must(patch(KindCluster, "c1", `{"namespaces":[{"id":"kept"}]}`))
	w.must(recall(w, there, "", ""))
	require.Equal(t, before, bodies(w.state))
}

// TestPatchesGoWithTheirComponent: another component of the same name does not inherit values.
func TestPatchesGoWithTheirComponent(t *testing.T) {
	t.Parallel()
	for _, cascade := range []bool{false, true} {
		w := tiers(t, `{"id":"prod","priority":20,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`)
		w.must(func(tx *Tx) error {
			_, err := tx.PatchValues("c2", "loki", []byte(`{"a":1}`), PatchOptions{Manager: "ci"})
			return err
		})
		if !cascade {
			w.must(remove(KindLayer, "prod", DeleteOptions{}))
		}
		before := bodies(w.state)
		w.must(remove(KindComponent, "loki", DeleteOptions{Cascade: cascade}))
		require.Empty(t, w.state.docs[KindCluster]["c2"].Cluster().Patches, "cascade: %v", cascade)
		require.Empty(t, w.state.docs[KindCluster]["c2"].Cluster().PatchOwners)
		w.must(revert(w, api.Operation{Revision: w.last()}))
		require.Equal(t, before, bodies(w.state))
	}
}

// TestInactivePatchesKeepTheirOwners, however the component was removed, and conflict with others as before.
func TestInactivePatchesKeepTheirOwners(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*Tx) error{
		"labels patched": patch(KindCluster, "c2", `{"labels":{"tier":null}}`),
		"labels set":     func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"dev"}`)); return err },
		"layer deleted":  remove(KindLayer, "prod", DeleteOptions{}),
	} {
		w := tiers(t, `{"id":"prod","priority":20,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`)
		w.must(func(tx *Tx) error {
			_, err := tx.PatchValues("c2", "loki", []byte(`{"a":1}`), PatchOptions{Manager: "ci"})
			return err
		})
		owners := w.state.docs[KindCluster]["c2"].Cluster().PatchOwners
		require.NotEmpty(t, owners)
		w.must(away)
		w.must(patch(KindCluster, "c2", `{"node_count":1}`))
		require.Equal(t, owners, w.state.docs[KindCluster]["c2"].Cluster().PatchOwners, name)
		w.refused(CodeFieldConflict, patch(KindCluster, "c2", `{"patches":{"loki":{"a":null}}}`))
	}
}
