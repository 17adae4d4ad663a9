package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUsage: the clusters with a component, their versions, and which of them have an override.
func TestUsage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	w.clusters(2, "prod")
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.9.0","cluster_ids":["qa-01","prod-00"]}`).want(200)
	w.batch(`{"op":"set_component","component_id":"podinfo","enabled":false,"cluster_ids":["qa-02"]}`).want(200)
	usage := w.get("/platform_components/podinfo/usage").want(200).json()
	require.EqualValues(t, 6, usage["clusters"])
	require.EqualValues(t, 1, usage["disabled"])
	require.Equal(t, []any{
		map[string]any{
			"component_version": "latest", "oci_tag": "latest", "component_path": "podinfo", "clusters": 4.0, "disabled": 1.0, "overriding": 0.0, "patched": 1.0,
			"environments": map[string]any{"dev": 1.0, "prod": 1.0, "qa": 2.0}, "cluster_ids": []any{"demo-cluster-01", "prod-01", "qa-00", "qa-02"},
		},
		map[string]any{
			"component_version": "6.9.0", "oci_tag": "latest", "component_path": "podinfo", "clusters": 2.0, "disabled": 0.0, "overriding": 2.0, "patched": 0.0,
			"environments": map[string]any{"prod": 1.0, "qa": 1.0}, "cluster_ids": []any{"prod-00", "qa-01"},
		},
	}, usage["variants"])
	ids := func(query string) (out []string) {
		for _, c := range w.get("/clusters?" + query).want(200).list() {
			out = append(out, c["id"].(string))
		}
		return out
	}
	require.Equal(t, []string{"prod-00", "qa-01"}, ids("component=podinfo&component_version=6.9.0"))
	require.Equal(t, []string{"qa-01"}, ids("component=podinfo&component_version=6.9.0&environment=qa"))
	require.Len(t, ids("component=podinfo"), 6)
	require.Equal(t, []string{"demo-cluster-01"}, ids("component=traefik"))
	require.Empty(t, ids("component=nothing"))
	w.get("/clusters?component_version=6.9.0").problem(400, "validation_error")
	w.get("/platform_components/nothing/usage").problem(404, "not_found")
	w.delete("/platform_components/podinfo?cascade=true").want(200)
	w.get("/platform_components/podinfo/usage").problem(404, "not_found")
	w.create("/platform_components", `{"id":"unused","component_path":"p","oci_url":"https://charts.example.com"}`)
	require.Empty(t, w.get("/platform_components/unused/usage").want(200).json()["variants"])
}

// TestUsageOnLayers: settings of a layer override the catalog as the cluster's own do.
func TestUsageOnLayers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	w.create("/layers", `{"id":"qa","priority":10,"selector":"environment=qa","overrides":{"podinfo":{"component_version":"6.9.0"}},"patches":{"podinfo":{"replicaCount":2}}}`)
	variants := func() map[string][]any {
		out := map[string][]any{}
		for _, v := range w.get("/platform_components/podinfo/usage").want(200).json()["variants"].([]any) {
			v := v.(map[string]any)
			out[v["component_version"].(string)] = []any{v["clusters"], v["overriding"], v["patched"]}
		}
		return out
	}
	require.Equal(t, map[string][]any{"6.9.0": {3.0, 3.0, 3.0}, "latest": {1.0, 0.0, 1.0}}, variants())
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.8.0","cluster_ids":["qa-01"]}`).want(200)
	require.Equal(t, map[string][]any{"6.9.0": {2.0, 2.0, 2.0}, "6.8.0": {1.0, 1.0, 1.0}, "latest": {1.0, 0.0, 1.0}}, variants())
	w.delete("/layers/qa").want(200)
	require.Equal(t, map[string][]any{"6.8.0": {1.0, 1.0, 0.0}, "latest": {3.0, 0.0, 1.0}}, variants())
}
