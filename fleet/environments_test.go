package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// kustomized is a fleet whose loki is a kustomize component, on alternating clusters of dev and prod.
func kustomized(t *testing.T, clusters int) *world {
	t.Helper()
	w := fleetOf(t, clusters)
	w.must(confirmedBy(w, patch(KindComponent, "loki", `{"type":"kustomize","oci_url":"oci://registry.example.com/loki","component_path":"./loki"}`)))
	return w
}

// TestEnvironmentInThePathCounts: if the cluster appends its environment to the path of a component, Flux removes the
// objects that only the old folder had.
func TestEnvironmentInThePathCounts(t *testing.T) {
	t.Parallel()
	const enabled = `{"cluster_env_enabled":true}`
	for name, c := range map[string]struct {
		before, edit func(*Tx) error
		removals     int
		groups       []string // number of clusters that lose loki's old folder, and of those that do not
	}{
		"of a component":                  {nil, patch(KindComponent, "loki", enabled), 6, []string{"6 true"}},
		"no longer":                       {patch(KindComponent, "loki", enabled), patch(KindComponent, "loki", `{"cluster_env_enabled":false}`), 6, []string{"6 true"}},
		"instead of a part of the path":   {patch(KindComponent, "loki", `{"component_path":"./loki/dev"}`), patch(KindComponent, "loki", `{"component_path":"./loki","cluster_env_enabled":true}`), 3, []string{"3 false", "3 true"}},
		"of clusters":                     {patch(KindComponent, "loki", enabled), environments("uat", 0, 6), 6, []string{"3 true", "3 true"}},
		"of clusters, without a path":     {nil, environments("uat", 0, 6), 0, []string{"3 false", "3 false"}},
		"of a cluster whose path follows": {patch(KindComponent, "loki", enabled), both(environments("dev", 1, 2), assign("c001", KindComponent, "loki", `{"component_path":"./other"}`)), 1, []string{"1 true"}},
		"of a path with a slash":          {patch(KindComponent, "loki", enabled), patch(KindComponent, "loki", `{"component_path":"./loki/"}`), 0, []string{"6 false"}},
		"of a helm component":             {nil, patch(KindComponent, "grafana", enabled), 0, []string{"6 false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kustomized(t, 6)
			if c.before != nil {
				w.must(confirmed(w.plan(c.before).PlanHash, c.before))
			}
			plan := w.plan(c.edit)
			require.Equal(t, c.removals, plan.Totals.Removals)
			var groups []string
			for _, g := range plan.Groups {
				lost := false
				for _, change := range g.Effect["platform-components"].Changed {
					lost = lost || change.Removal
				}
				groups = append(groups, fmt.Sprint(len(g.Clusters), " ", lost))
			}
			require.ElementsMatch(t, c.groups, groups)
			w.state.rules.MaxRemovals = 0
			if c.removals == 0 {
				w.must(c.edit)
				return
			}
			w.refused(CodeConfirm, c.edit)
			w.must(confirmed(plan.PlanHash, c.edit))
		})
	}
}

// environments moves clusters into another environment.
func environments(to string, from, until int) func(*Tx) error {
	var edits []func(*Tx) error
	for i := from; i < until; i++ {
		edits = append(edits, patch(KindCluster, fmt.Sprintf("c%03d", i), `{"environment":"`+to+`"}`))
	}
	return both(edits...)
}

func TestProtectionHoldsForTheEnvironmentInThePath(t *testing.T) {
	t.Parallel()
	w := kustomized(t, 2)
	w.must(patch(KindCluster, "c000", `{"deletion_protection":true}`))
	w.must(environments("qa", 0, 1)) // no component on it has the environment in its path
	w.refused(CodeProtected, patch(KindComponent, "loki", `{"cluster_env_enabled":true}`))
	w.must(patch(KindCluster, "c000", `{"deletion_protection":false}`))
	w.must(patch(KindComponent, "loki", `{"cluster_env_enabled":true}`))
	w.must(patch(KindCluster, "c000", `{"deletion_protection":true}`))
	e := w.refused(CodeProtected, environments("prod", 0, 1))
	require.Contains(t, e.Detail, "loki")
	w.must(environments("dev", 1, 2))
}
