package fleet

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestLayersAreEditedEntryByEntry(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	layer := func(id string) *api.Layer { return &w.state.docs[KindLayer][id].layer().Layer }
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "grafana", []byte(`{"enabled":false}`))
		return err
	})
	require.False(t, *layer("prod").PlatformComponents[1].Enabled)
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "grafana", []byte(`{"enabled":null,"oci_tag":"x"}`))
		return err
	})
	require.Nil(t, layer("prod").PlatformComponents[1].Enabled)
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", ResourceKind("quotas"), "small", []byte(`{"overrides":null}`))
		return err
	})
	require.Empty(t, layer("prod").Resources["quotas"][0].Overrides)
	w.must(func(tx *Tx) error { _, err := tx.UnassignFromLayer("prod", KindComponent, "grafana"); return err })
	require.Len(t, layer("prod").PlatformComponents, 1)
	require.Equal(t, "17.1.0", layer("prod").Overrides["grafana"].ComponentVersion, "what it says apart stays")
	w.refused(CodeNotFound, func(tx *Tx) error { _, err := tx.AssignToLayer("nobody", KindNamespace, "team", nil); return err })
	w.refused(CodeNotFound, func(tx *Tx) error { _, err := tx.AssignToLayer("prod", KindNamespace, "nobody", nil); return err })

	w.must(batch(
		`{"op":"assign_namespace","layers":["prod","base"],"namespace_id":"kept"}`,
		`{"op":"set_component","layers":["prod"],"component_id":"grafana","component_version":"18.0.0"}`,
		`{"op":"set_component","layers":["base"],"component_id":"grafana","oci_tag":"y"}`,
		`{"op":"patch_values","layers":["prod"],"component_id":"grafana","values":{"replicas":null,"a":1}}`))
	require.Len(t, layer("base").Namespaces, 2)
	require.Equal(t, "18.0.0", layer("prod").Overrides["grafana"].ComponentVersion)
	require.Equal(t, "y", layer("base").PlatformComponents[0].OCITag)
	require.Equal(t, api.PatchValues{"a": json.RawMessage("1")}, layer("prod").Patches["grafana"])
	for op, want := range map[string]string{
		`{"op":"set_labels","layers":["prod"],"labels":{"a":"b"}}`:                                          "is for clusters",
		`{"op":"apply_values","layers":["prod"],"component_id":"grafana","values":{}}`:                      "is for clusters",
		`{"op":"patch_values","layers":["prod"],"component_id":"grafana","values":{},"field_manager":"ci"}`: "is for clusters",
		`{"op":"set_component","layers":["prod"],"component_id":"grafana","enabled":false}`:                 "so it cannot enable or disable it",
		`{"op":"assign_namespace","layers":["prod"],"all":true,"namespace_id":"kept"}`:                      "exactly one of",
		`{"op":"assign_namespace","layers":["prod"]}`:                                                       "namespace_id: is required",
		`{"op":"delete","kind":"layer","id":"prod","layers":["prod"]}`:                                      "not cluster_ids, selector, all or layers",
		`{"op":"restore","revision":1,"layers":["prod"]}`:                                                   "not cluster_ids, selector, all or layers",
	} {
		require.Contains(t, w.refused(CodeInvalid, batch(op)).Error(), want, op)
	}
	require.Contains(t, w.refused(CodeNotFound, batch(`{"op":"assign_namespace","layers":["nobody"],"namespace_id":"kept"}`)).Error(), `there is no layer "nobody"`)
}

func TestViewsOfLayersAndClusters(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"none","priority":3,"selector":"x","patches":{"grafana":{"a":null}}}`)
	c2, _ := w.state.Get(KindCluster, "c2")
	view := w.state.EffectiveView(c2).(*api.Cluster)
	require.Equal(t, []string{"base", "prod"}, view.Layers)
	require.Len(t, view.PlatformComponents, 2)
	require.EqualValues(t, 1, view.Revision)
	require.Equal(t, `"3"`, string(view.Patches["grafana"]["replicas"]))
	prod, _ := w.state.Get(KindLayer, "prod")
	require.Equal(t, []string{"c2", "c3"}, w.state.LayerView(prod).(*api.Layer).Clusters)
	none, _ := w.state.Get(KindLayer, "none")
	require.Empty(t, w.state.LayerView(none).(*api.Layer).Clusters)

	// A view can be sent back: read-only fields are ignored.
	body, err := json.Marshal(w.state.LayerView(prod))
	require.NoError(t, err)
	require.Empty(t, w.must(put(KindLayer, "prod", string(body))).Commit.Changes)
}
