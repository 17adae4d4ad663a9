package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanHashIsOfTheRemovals: whoever was shown a plan without removals, or with others, has not agreed to those that the
// same change makes by now, although polls are answered with just what the plan said.
func TestPlanHashIsOfTheRemovals(t *testing.T) {
	t.Parallel()
	off := batch(`{"op":"unassign_namespace","all":true,"namespace_id":"kept"}`)
	gone := func(lists string) func(*Tx) error {
		return create(KindCluster, `{"id":"gone","cluster_dns":"gone.example.com","environment":"dev",`+lists+`}`)
	}
	orphan := remove(KindCluster, "gone", DeleteOptions{Orphan: true})
	heir := create(KindCluster, `{"id":"heir","cluster_dns":"gone.example.com","environment":"dev"}`)
	const readers, grafana = `"rolebindings":[{"id":"readers"}]`, `"platform_components":[{"id":"grafana"}]`
	type edits []func(*Tx) error
	for name, c := range map[string]struct {
		before    edits
		edit      func(*Tx) error
		planned   int
		meanwhile edits
		now       int
		stands    bool
	}{
		"a namespace is no longer kept":     {nil, off, 0, edits{patch(KindNamespace, "kept", `{"deletion_policy":"delete"}`)}, 4, false},
		"another namespace is kept":         {nil, off, 0, edits{patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`)}, 0, true},
		"a name has a former cluster":       {nil, heir, 0, edits{gone(readers), orphan}, 1, false},
		"a former cluster had nothing":      {nil, heir, 0, edits{gone(`"labels":{}`), orphan}, 0, true},
		"a former cluster had other things": {edits{gone(readers), orphan}, heir, 1, edits{gone(readers + "," + grafana), orphan}, 2, false},
		"another one of its former things":  {edits{gone(readers), orphan}, heir, 1, edits{gone(grafana), orphan}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 4)
			for _, edit := range c.before {
				w.must(edit)
			}
			plan := w.plan(c.edit)
			require.Equal(t, c.planned, plan.Totals.Removals)
			for _, edit := range c.meanwhile {
				w.must(confirmedBy(w, edit))
			}
			now := w.plan(c.edit)
			require.Equal(t, c.now, now.Totals.Removals)
			if c.stands {
				w.must(confirmed(plan.PlanHash, c.edit))
				return
			}
			w.refused(CodeStale, confirmed(plan.PlanHash, c.edit))
			w.must(confirmed(now.PlanHash, c.edit))
		})
	}
}
