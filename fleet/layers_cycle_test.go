package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCyclesThroughLayers: what waits for what is the catalog's, so layers cannot close a circle, nor does one between components
// of different layers pass.
func TestCyclesThroughLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer) // loki, of prod, waits for grafana, of base
	before := polls(t, w.state)
	circle := patch(KindComponent, "grafana", `{"depends_on":["loki"]}`)
	const cycle = "the dependencies form a cycle: grafana -> loki -> grafana"
	require.Contains(t, w.refused(CodeInvalid, circle).Detail, cycle)
	// Nor where the layer that brings the two together comes in the same change, or matches no cluster.
	for _, selects := range []string{`"all":true`, `"selector":"tier=none"`} {
		both := both(create(KindLayer, `{"id":"x","priority":90,`+selects+`,"platform_components":[{"id":"loki"},{"id":"grafana"}]}`), circle)
		require.Contains(t, w.refused(CodeInvalid, both).Detail, cycle)
	}
	require.Equal(t, before, polls(t, w.state))

	// A layer that gives one without the other leaves nothing to wait for.
	w = tiers(t, `{"id":"x","priority":90,"all":true,"platform_components":[{"id":"loki"}]}`)
	require.Equal(t, []any{}, component(t, w.state, "c0.example.com", "loki")["dependencies"])
	w.must(create(KindLayer, baseLayer))
	require.Len(t, component(t, w.state, "c0.example.com", "loki")["dependencies"], 1)
}
