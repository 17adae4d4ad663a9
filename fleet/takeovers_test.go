package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestTakenOverNameIsAlwaysConfirmed: a cluster that gets the DNS name of an orphaned one is polled by the old cluster,
// whose Flux uninstalls everything that the new one does not have. Even a single removal needs a reviewed plan.
func TestTakenOverNameIsAlwaysConfirmed(t *testing.T) {
	t.Parallel()
	const dns = `"cluster_dns":"c000.example.com","environment":"dev"`
	orphan := remove(KindCluster, "c000", DeleteOptions{Orphan: true})
	spare := create(KindCluster, `{"id":"spare","cluster_dns":"spare.example.com","environment":"dev"}`)
	for name, route := range map[string]struct {
		before []func(*Tx) error
		edit   func(*Tx) error
		heir   string
	}{
		"created":           {[]func(*Tx) error{orphan}, create(KindCluster, `{"id":"heir",`+dns+`}`), "heir"},
		"created by batch":  {[]func(*Tx) error{orphan}, batch(`{"op":"create","kind":"cluster","document":{"id":"heir",` + dns + `}}`), "heir"},
		"the same id again": {[]func(*Tx) error{orphan}, create(KindCluster, `{"id":"c000",`+dns+`}`), "c000"},
		"renamed by PATCH":  {[]func(*Tx) error{spare, orphan}, patch(KindCluster, "spare", `{"cluster_dns":"c000.example.com"}`), "spare"},
		"renamed by PUT":    {[]func(*Tx) error{spare, orphan}, put(KindCluster, "spare", `{`+dns+`}`), "spare"},
		"in another case":   {[]func(*Tx) error{spare, orphan}, patch(KindCluster, "spare", `{"cluster_dns":"C000.Example.com"}`), "spare"},
		"after a rename": {
			[]func(*Tx) error{spare, patch(KindCluster, "c000", `{"cluster_dns":"elsewhere.example.com"}`)},
			patch(KindCluster, "spare", `{"cluster_dns":"c000.example.com"}`), "spare",
		},
		"two names exchanged": {
			[]func(*Tx) error{spare},
			both(patch(KindCluster, "c000", `{"cluster_dns":"spare.example.com"}`), patch(KindCluster, "spare", `{"cluster_dns":"c000.example.com"}`)), "spare",
		},
		"orphaned and created in one commit": {nil, both(orphan, create(KindCluster, `{"id":"heir",`+dns+`}`)), "heir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 1)
			for _, edit := range route.before {
				w.must(edit)
			}
			plan := w.plan(route.edit)
			require.True(t, plan.ConfirmationRequired, "4 of 50 removals, and yet")
			require.Contains(t, plan.ConfirmationReason, `takes over the name "c000.example.com"`)
			require.Equal(t, 4, plan.Totals.Removals)
			require.GreaterOrEqual(t, plan.Totals.Removed, 4)
			effect := groupWith(t, plan, route.heir).Effect
			require.ElementsMatch(t, []string{"grafana", "loki"}, effect["platform-components"].Removed)
			require.ElementsMatch(t, []string{"readers"}, effect["rolebindings"].Removed)
			require.Contains(t, effect["namespaces"].Removed, "team")
			w.refused(CodeConfirm, route.edit)
			w.must(confirmed(plan.PlanHash, route.edit))
		})
	}
}

// groupWith returns the group of a plan with a cluster that loses an object.
func groupWith(t *testing.T, plan api.Plan, cluster string) api.EffectGroup {
	t.Helper()
	for _, g := range plan.Groups {
		for _, id := range g.Clusters {
			for _, effect := range g.Effect {
				if id == cluster && len(effect.Removed) > 0 {
					return g
				}
			}
		}
	}
	require.Fail(t, "no group shows what is removed", "%s: %+v", cluster, plan.Groups)
	return api.EffectGroup{}
}

// TestNameTakenOverWithEverything needs no confirmation, since no object is uninstalled.
func TestNameTakenOverWithEverything(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	w.must(remove(KindCluster, "c000", DeleteOptions{Orphan: true}))
	heir := create(KindCluster, `{"id":"heir","cluster_dns":"c000.example.com","environment":"dev","platform_components":[{"id":"grafana"},{"id":"loki"}],
		"namespaces":[{"id":"team"}],"rolebindings":[{"id":"readers"}]}`)
	require.False(t, w.plan(heir).ConfirmationRequired)
	w.must(heir)
}
