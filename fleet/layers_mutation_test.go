package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLabelsAndALayerChangeTogether: a commit that changes a layer matches clusters with changed labels again, also with
// unchanged layers.
func TestLabelsAndALayerChangeTogether(t *testing.T) {
	t.Parallel()
	w := tiers(t,
		`{"id":"base","priority":1,"all":true,"platform_components":[{"id":"grafana"}]}`,
		`{"id":"prod","priority":2,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`)
	const dns = "c0.example.com"
	require.Equal(t, []string{"grafana"}, ids(inputsOf(t, w.state, dns, KindComponent)))
	w.must(both(
		func(tx *Tx) error { _, err := tx.SetLabels("c0", []byte(`{"tier":"prod"}`)); return err },
		patch(KindLayer, "base", `{"namespaces":[{"id":"team"}]}`)))
	require.Equal(t, []string{"grafana", "loki"}, ids(inputsOf(t, w.state, dns, KindComponent)))
	require.Equal(t, []string{"team"}, ids(inputsOf(t, w.state, dns, KindNamespace)))
}

// TestPatchOfAClusterWithALayerOfItsEnvironment: patches of a component that leaves a cluster's document stay where a layer assigns
// it, and the layer may be selected by the environment.
func TestPatchOfAClusterWithALayerOfItsEnvironment(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{"dev": `"patches":{"grafana":{"a":"1"}}`, "qa": `"patches":{}`} {
		t.Run(environment, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, `{"id":"dev","priority":1,"selector":"environment=dev","platform_components":[{"id":"grafana"}]}`)
			w.must(create(KindCluster, fmt.Sprintf(`{"id":"k","cluster_dns":"k.example.com","environment":%q,"platform_components":[{"id":"grafana"}],"patches":{"grafana":{"a":"1"}}}`, environment)))
			w.must(patch(KindCluster, "k", `{"platform_components":[]}`))
			require.Contains(t, bodies(w.state)[docKey{KindCluster, "k"}], want)
		})
	}
}

// TestRemovalsDependOnTheEnvironment: clusters with the same layers are counted separately if their environments differ.
// Here a component gets the path that it already had in dev, so it is redeployed only elsewhere.
func TestRemovalsDependOnTheEnvironment(t *testing.T) {
	t.Parallel()
	docs := []string{string(KindComponent), `{"id":"app","component_path":"apps/dev","oci_url":"oci://registry.example.com/x"}`}
	for i, environment := range []string{"dev", "prod", "dev", "prod", "qa"} {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":%q}`, i, i, environment))
	}
	w := newWorld(t, append(docs, string(KindLayer), `{"id":"base","priority":1,"all":true,"platform_components":[{"id":"app"}]}`)...)
	plan := w.plan(patch(KindComponent, "app", `{"component_path":"apps","cluster_env_enabled":true}`))
	require.Equal(t, 3, plan.Totals.Removals)
}

// TestPlanHashHasNoTimeOfDeletion: the plan of a deletion stays valid while the fleet does not change.
func TestPlanHashHasNoTimeOfDeletion(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 4)
	edit := remove(KindCluster, "c000", DeleteOptions{})
	plan := w.plan(edit)
	w.now = w.now.Add(time.Hour)
	require.Equal(t, plan.PlanHash, w.plan(edit).PlanHash)
	w.must(confirmed(plan.PlanHash, edit))
}
