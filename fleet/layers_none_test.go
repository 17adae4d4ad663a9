package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFleetsWithoutLayersAreAsBefore compares polls, plans, their hashes and stored documents with those that the last
// version without layers produced for the same fleet and changes.
func TestFleetsWithoutLayersAreAsBefore(t *testing.T) {
	t.Parallel()
	digest := func(v any) string {
		body, err := json.Marshal(v)
		require.NoError(t, err)
		return fmt.Sprintf("%x", sha256.Sum256(body))[:16]
	}
	stored := func(s *State) map[string]string {
		out := map[string]string{}
		for rec := range s.Records() {
			out[string(rec.Kind)+"/"+rec.ID] = string(rec.Body)
		}
		return out
	}
	w := demo(t)
	require.Equal(t, "fd4cc45be46dce65", digest(polls(t, w.state)))
	require.Equal(t, "36d4dc7d5dc69e16", digest(stored(w.state)))
	w = fleetOf(t, 12)
	w.state.rules.MaxRemovals = 1000
	edits := map[string]func(*Tx) error{
		"1 catalog":   patch(KindComponent, "grafana", `{"patches":{"replicas":"2","ingress.enabled":true}}`),
		"2 labels":    batch(`{"op":"set_labels","selector":"environment=dev","labels":{"tier":"a"}}`),
		"3 values":    batch(`{"op":"patch_values","selector":"tier=a","component_id":"grafana","values":{"replicas":3},"field_manager":"ci"}`),
		"4 off":       batch(`{"op":"set_component","all":true,"component_id":"loki","enabled":false}`),
		"5 namespace": remove(KindNamespace, "team", DeleteOptions{Cascade: true}),
		"6 cluster":   remove(KindCluster, "c003", DeleteOptions{}),
		"7 forgotten": remove(KindCluster, "c004", DeleteOptions{Orphan: true}),
		"8 renamed":   patch(KindCluster, "c005", `{"cluster_dns":"other.example.com"}`),
		"9 put":       put(KindCluster, "c006", `{"platform_components":[{"id":"loki"}]}`),
	}
	hashes, after := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		plan := w.plan(edits[name])
		hashes[name] = plan.PlanHash
		plan.Warnings = nil
		after[name] = digest(plan)
		res := w.must(confirmed(plan.PlanHash, edits[name]))
		after[name] += " " + digest(res.Warnings) + " " + digest(polls(t, w.state)) + " " + digest(stored(w.state))
	}
	require.Equal(t, "dca60a4907eb3c9c", digest(hashes))
	require.Equal(t, "60c50c78e1e49b79", digest(after))
}
