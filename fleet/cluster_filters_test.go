package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeavingAFilteredListIsARemoval: management clusters provision from a filtered list, and may delete the clusters that leave it.
func TestLeavingAFilteredListIsARemoval(t *testing.T) {
	t.Parallel()
	filter, err := ParseClusterFilter("", "provision=yes")
	require.NoError(t, err)
	inDev, err := ParseClusterFilter("dev", "")
	require.NoError(t, err)
	known := ClusterFilters{Filters: []ClusterFilter{filter, inDev}}
	for name, c := range map[string]struct {
		edit func(*Tx) error
		lose int
	}{
		"PATCH":             {patch(KindCluster, "c0", `{"labels":{"provision":null}}`), 1},
		"PUT":               {put(KindCluster, "c0", `{"labels":{}}`), 1},
		"another value":     {patch(KindCluster, "c0", `{"labels":{"provision":"no"}}`), 1},
		"SetLabels":         {func(tx *Tx) error { _, err := tx.SetLabels("c0", []byte(`{"provision":null}`)); return err }, 1},
		"batch":             {batch(`{"op":"set_labels","all":true,"labels":{"provision":null}}`), 3},
		"created again":     {both(remove(KindCluster, "c0", DeleteOptions{Orphan: true}), create(KindCluster, `{"id":"c0","cluster_dns":"c0.example.com","environment":"qa"}`)), 1},
		"with a new name":   {patch(KindCluster, "c0", `{"cluster_dns":"x.example.com","labels":{"provision":null}}`), 1},
		"the environment":   {patch(KindCluster, "c2", `{"environment":"qa"}`), 1},
		"another label":     {patch(KindCluster, "c0", `{"labels":{"a":"b"}}`), 0},
		"other things":      {patch(KindCluster, "c0", `{"cluster_name":"x"}`), 0},
		"it was in no list": {patch(KindCluster, "c3", `{"labels":{"provision":"no"},"environment":"qa"}`), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, body := range []string{
				`{"id":"c0","cluster_dns":"c0.example.com","environment":"qa","labels":{"provision":"yes"}}`,
				`{"id":"c1","cluster_dns":"c1.example.com","environment":"qa","labels":{"provision":"yes"}}`,
				`{"id":"c2","cluster_dns":"c2.example.com","environment":"dev","labels":{"provision":"yes"}}`,
				`{"id":"c3","cluster_dns":"c3.example.com","environment":"uat"}`,
			} {
				w.must(create(KindCluster, body))
			}
			w.state.rules.MaxRemovals = 0
			edit := func(tx *Tx) error { tx.ClusterFilters(known); return c.edit(tx) }
			plan := w.plan(edit)
			require.Equal(t, c.lose, plan.Totals.Removals)
			if c.lose == 0 {
				w.must(edit)
				return
			}
			require.Contains(t, strings.Join(plan.Warnings, " "), "a management cluster that provisions from it may delete the cluster")
			require.Equal(t, c.lose, plan.Totals.Leaving)
			require.Contains(t, w.refused(CodeConfirm, edit).Detail, "would leave a filtered list of clusters that is polled")
			guarded := w.state
			w.must(confirmed(plan.PlanHash, edit))
			w.state = guarded
			if name == "created again" || name == "with a new name" {
				return // deletion_protection refuses that anyway
			}
			w.must(batch(`{"op":"patch","kind":"cluster","id":"c0","patch":{"deletion_protection":true}}`, `{"op":"patch","kind":"cluster","id":"c2","patch":{"deletion_protection":true}}`))
			w.refused(CodeProtected, edit)
		})
	}
	w := newWorld(t, string(KindCluster), `{"id":"c0","cluster_dns":"c0.example.com","environment":"qa"}`)
	w.state.rules.MaxRemovals = 0
	w.refused(CodeConfirm, func(tx *Tx) error {
		tx.ClusterFilters(ClusterFilters{Unknown: true})
		return patch(KindCluster, "c0", `{"labels":{"a":"b"}}`)(tx)
	})
}

// TestLeavingAProtectedEnvironmentIsConfirmed, because the cluster is unprotected afterwards.
func TestLeavingAProtectedEnvironmentIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Tx) error{
		"PATCH":            patch(KindCluster, "c0", `{"environment":"dev"}`),
		"PUT":              put(KindCluster, "c0", `{"environment":"dev"}`),
		"batch":            batch(`{"op":"patch","kind":"cluster","id":"c0","patch":{"environment":"dev"}}`),
		"created again":    both(remove(KindCluster, "c0", DeleteOptions{Orphan: true}), create(KindCluster, `{"id":"c0","cluster_dns":"c0.example.com","environment":"dev"}`)),
		"under another id": both(remove(KindCluster, "c0", DeleteOptions{Orphan: true}), create(KindCluster, `{"id":"heir","cluster_dns":"c0.example.com","environment":"dev"}`)),
		"with a new name":  patch(KindCluster, "c0", `{"environment":"dev","cluster_dns":"new.example.com"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, string(KindCluster), `{"id":"c0","cluster_dns":"c0.example.com","environment":"prod"}`)
			w.state.rules.Protected = []string{"prod"}
			plan := w.plan(edit)
			require.Contains(t, plan.ConfirmationReason, `cluster "c0" leaves the protected environment "prod"`)
			require.Equal(t, 1, plan.Totals.Removals)
			require.Equal(t, 1, plan.Protected[0].Clusters)
			w.refused(CodeConfirm, edit)
			w.must(confirmed(plan.PlanHash, edit))
		})
	}
}
