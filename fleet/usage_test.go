package fleet

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestComponentsDeviate: a component deviates if the cluster's own document sets another version than its layers, or else the catalog.
func TestComponentsDeviate(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	for id, entries := range map[string]string{
		"c0": `[{"id":"grafana","component_version":"17.0.0"},{"id":"loki","component_version":"1"}]`, // as the catalog; another than the catalog
		"c1": `[{"id":"grafana","component_version":"17.1.0"}]`,                                       // another than the catalog
		"c2": `[{"id":"grafana","component_version":"17.1.0"}]`,                                       // as the layer
		"c3": `[{"id":"grafana","component_version":"17.0.0"}]`,                                       // another than the layer
	} {
		w.must(patch(KindCluster, id, `{"platform_components":`+entries+`}`))
	}
	deviating := map[string][]string{}
	for _, cluster := range w.state.All(KindCluster) {
		var all []string
		for c := range w.state.Components(cluster) {
			all = append(all, c.ID)
			runs, ok := w.state.Running(cluster, c.ID)
			require.True(t, ok)
			require.Equal(t, runs.ComponentVersion, c.ComponentVersion)
			require.Equal(t, runs.OCITag, c.OCITag)
			if c.Deviates {
				deviating[cluster.ID] = append(deviating[cluster.ID], c.ID)
			}
		}
		require.Equal(t, ids(inputsOf(t, w.state, cluster.Cluster().ClusterDNS, KindComponent)), all, "the order of the inputs")
	}
	want := map[string][]string{"c0": {"loki"}, "c1": {"grafana"}, "c3": {"grafana"}}
	require.Equal(t, want, deviating)

	w.must(pinAll("c0", "c1", "c2", "c3"))
	for _, cluster := range w.state.All(KindCluster) {
		for c := range w.state.Components(cluster) {
			require.Equal(t, slices.Contains(want[cluster.ID], c.ID), c.Deviates, "%s on %s under a pin", c.ID, cluster.ID)
		}
	}
}
