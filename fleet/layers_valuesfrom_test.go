package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValuesFromObjectsThroughLayers: the objects on a cluster that hold values of a release are a setting like any other:
// first those of the catalog, then those of the highest document that names any.
func TestValuesFromObjectsThroughLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	names := func(cluster string) (out []string) {
		list, _ := component(t, w.state, cluster+".example.com", "grafana")["values_from"].([]any)
		for _, ref := range list {
			out = append(out, ref.(map[string]any)["name"].(string))
		}
		return out
	}
	w.must(patch(KindComponent, "grafana", `{"values_from":[{"kind":"ConfigMap","name":"catalog"}]}`))
	w.must(patch(KindLayer, "base", `{"platform_components":[{"id":"grafana","values_from":[{"kind":"Secret","name":"base"}]}]}`))
	require.Equal(t, []string{"catalog", "base"}, names("c2"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"values_from":[{"kind":"Secret","name":"prod"}]}}}`))
	require.Equal(t, []string{"catalog", "prod"}, names("c2"))
	require.Equal(t, []string{"catalog", "base"}, names("c0"))
	w.must(assign("c2", KindComponent, "grafana", `{"values_from":[{"kind":"Secret","name":"own"}]}`))
	require.Equal(t, []string{"catalog", "own"}, names("c2"))
	require.Equal(t, []string{"catalog", "prod"}, names("c3"))
	refused := w.refused(CodeInvalid, patch(KindLayer, "prod", `{"overrides":{"grafana":{"values_from":[{"kind":"Pod","name":"x"}]}}}`))
	require.Equal(t, "/overrides/grafana/values_from/0/kind", refused.Problems[0].Pointer)
}
