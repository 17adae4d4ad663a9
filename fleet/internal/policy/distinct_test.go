package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestDistinctLoops: only loops whose result cannot depend on other fields are evaluated on distinct clusters.
func TestDistinctLoops(t *testing.T) {
	t.Parallel()
	for rule, distinct := range map[string]bool{
		"effect.clusters.all(c, c.removals == 0)":                                                                  true,
		"effect.clusters.all(c, c.environment != 'prod' || c.removals == 0)":                                       true,
		"effect.clusters.all(c, c.before.environment == c.after.environment)":                                      true,
		"!effect.clusters.exists(c, c.lists.platform_components.exists(e, e.after.component_version == 'latest'))": true,
		"effect.clusters.all(c, !has(c.lists.namespaces) && [c.removals, 1].size() == 2)":                          true,
		"effect.clusters.all(c, c.lists.rolebindings.all(e, {'of': c.environment}['of'] != e.id))":                 true,
		"effect.clusters.all(c, effect.count < 5 && change.kind != 'source')":                                      true,
		"effect.clusters.all(c, c.id != 'a')":                                                                      false,
		"effect.clusters.all(c, c.labels['tier'] != 'gold')":                                                       false,
		"effect.clusters.all(c, c.before != null)":                                                                 false,
		"effect.clusters.all(c, c.before.labels.size() == 0)":                                                      false,
		"effect.clusters.all(c, [1].all(c, c == 1) && c.removals == 0)":                                            false,
		"effect.clusters.filter(c, c.removals == 0).size() < 3":                                                    false,
		"effect.clusters.exists_one(c, c.removals == 0)":                                                           false,
		"effect.clusters.map(c, c.removals).all(n, n == 0)":                                                        false,
		"effect.clusters.size() < 3":                                                                               false,
		"effect.clusters.all(c, type(c.lists) == type(c.lists))":                                                   false,
		"[effect].all(effect, effect.clusters.all(c, c.removals == 0))":                                            true,
		"change.documents.all(c, c.id != 'a')":                                                                     false,
		"effect.clusters.filter(c, true).all(c, c.removals == 0)":                                                  false,
		"effect.clusters.all(c, c.removals == 0) && effect.clusters.exists(c, c.id == 'a' && c.removals>1)":        true,
	} {
		p, err := Compile(rule, "")
		require.NoError(t, err, rule)
		require.Equal(t, distinct, len(distinctLoops(p.rule.ast.NativeRep().Expr())) > 0, rule)
	}
}

// TestDistinctClusters: rules have the same result on one of the clusters that are equal as on all of them, errors included.
func TestDistinctClusters(t *testing.T) {
	t.Parallel()
	rules := []string{
		"effect.clusters.all(c, c.removals == 0)",
		"effect.clusters.exists(c, c.removals > 1 && c.environment == 'prod')",
		"effect.clusters.all(c, c.before.environment == c.after.environment)",
		"effect.clusters.all(c, c.lists.platform_components.all(e, e.after.component_version != '2' || c.environment != 'dev'))",
		"effect.clusters.exists(c, c.lists.namespaces.exists(e, e.before == null))",
		"effect.clusters.all(c, c.lists.rolebindings.size() == c.removals)",
		"effect.clusters.all(c, c.lists.resources.all(r, r.type == 'queues'))",
		"effect.clusters.all(c, 4 / (c.removals - 1) > 0)", // a division by zero
	}
	rapid.Check(t, func(t *rapid.T) {
		components := []*Entry[api.FluxPlatformComponent]{}
		namespaces := []*Entry[api.FluxNamespace]{}
		bindings := []*Entry[api.FluxRoleBinding]{}
		resources := map[string][]*Entry[map[string]any]{"queues": {{ID: "a", After: &map[string]any{}}}, "topics": {{ID: "a", After: &map[string]any{}}}}
		for i := range 3 {
			id := fmt.Sprintf("e%d", i)
			components = append(components, &Entry[api.FluxPlatformComponent]{ID: id, After: &api.FluxPlatformComponent{ComponentVersion: id[1:]}})
			namespaces = append(namespaces, &Entry[api.FluxNamespace]{ID: id, After: &api.FluxNamespace{}})
			bindings = append(bindings, &Entry[api.FluxRoleBinding]{ID: id, Before: &api.FluxRoleBinding{}})
		}
		version := func(name string) *Version {
			return rapid.SampledFrom([]*Version{nil, {Environment: "dev"}, {Environment: "prod"}}).Draw(t, name)
		}
		var clusters []*Cluster
		for i := range rapid.IntRange(0, 8).Draw(t, "clusters") {
			c := &Cluster{ID: fmt.Sprintf("k%d", i), Before: version("before"), After: version("after"), Removals: rapid.IntRange(0, 2).Draw(t, "removals")}
			if c.Before == nil && c.After == nil {
				continue
			}
			lists := Lists{
				Components:   components[:rapid.IntRange(0, 3).Draw(t, "components")],
				Namespaces:   namespaces[rapid.IntRange(0, 3).Draw(t, "namespaces"):],
				RoleBindings: bindings[:rapid.IntRange(0, 2).Draw(t, "bindings")],
			}
			if of := rapid.SampledFrom([]string{"queues", "topics", ""}).Draw(t, "type"); of != "" {
				lists.Resources = map[string][]*Entry[map[string]any]{of: resources[of]}
			}
			c.Lists = &lists
			if rapid.Bool().Draw(t, "lazy") {
				c.Lists = &Lists{Fill: func(to *Lists, name ListName) error {
					switch name {
					case ListComponents:
						to.Components = lists.Components
					case ListNamespaces:
						to.Namespaces = lists.Namespaces
					case ListRoleBindings:
						to.RoleBindings = lists.RoleBindings
					case ListResources:
						to.Resources = lists.Resources
					}
					return nil
				}}
			}
			clusters = append(clusters, c)
		}
		for _, rule := range rules {
			var results [2]string
			for i, text := range []string{rule, strings.ReplaceAll(rule, "effect.clusters.", "effect.clusters.filter(x, true).")} {
				p, err := Compile(text, "")
				require.NoError(t, err, text)
				verdict, err := p.Eval(t.Context(), &Input{Change: &Change{}, Effect: func() (*Effect, error) { return &Effect{Clusters: clusters}, nil }}, NewBudget())
				results[i] = fmt.Sprint(verdict, err)
			}
			require.Equal(t, results[1], results[0], rule)
		}
	})
}

// TestDistinctSteps: the comparison of clusters takes steps for each entry of a list, so that large lists are no way around the limit.
func TestDistinctSteps(t *testing.T) {
	t.Parallel()
	var entries []*Entry[api.FluxNamespace]
	for i := range 100 {
		entries = append(entries, &Entry[api.FluxNamespace]{ID: fmt.Sprint(i)})
	}
	in := &Input{Change: &Change{}, Effect: func() (*Effect, error) {
		return &Effect{Clusters: []*Cluster{{ID: "a", After: &Version{}, Lists: &Lists{Namespaces: entries}}, {ID: "b", After: &Version{}, Lists: &Lists{Namespaces: entries}}}}, nil
	}}
	p, err := Compile("!effect.clusters.exists(c, has(c.lists.namespaces) && c.removals > 0)", "")
	require.NoError(t, err)
	budget := NewBudget()
	_, err = p.Eval(t.Context(), in, budget)
	require.NoError(t, err)
	require.Greater(t, NewBudget().left-budget.left, uint64(2*100))
}
