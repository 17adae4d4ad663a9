package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCyclesThroughLayers: only the catalog defines dependencies, so layers cannot close a cycle, and a cycle between
// components of different layers is refused too.
func TestCyclesThroughLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer) // loki, of prod, depends on grafana, of base
	before := polls(t, w.state)
	circle := patch(KindComponent, "grafana", `{"depends_on":["loki"]}`)
	const cycle = "the dependencies form a cycle: grafana -> loki -> grafana"
	require.Contains(t, w.refused(CodeInvalid, circle).Detail, cycle)
	// Nor if the layer that combines both comes in the same change, or matches no cluster.
	for _, selects := range []string{`"all":true`, `"selector":"tier=none"`} {
		both := both(create(KindLayer, `{"id":"x","priority":90,`+selects+`,"platform_components":[{"id":"loki"},{"id":"grafana"}]}`), circle)
		require.Contains(t, w.refused(CodeInvalid, both).Detail, cycle)
	}
	require.Equal(t, before, polls(t, w.state))

	// A layer that assigns only one of them leaves no dependency.
	w = tiers(t, `{"id":"x","priority":90,"all":true,"platform_components":[{"id":"loki"}]}`)
	require.Equal(t, []any{}, component(t, w.state, "c0.example.com", "loki")["dependencies"])
	w.must(create(KindLayer, baseLayer))
	require.Len(t, component(t, w.state, "c0.example.com", "loki")["dependencies"], 1)
}
