package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Helm values from objects on the cluster: the catalog's, then the cluster's, which come later and win.
func TestValuesFrom(t *testing.T) {
	t.Parallel()
	w := setup(t)
	podinfo := func() any {
		return at(w.poll(demoPolls+"/platform-components").want(200).json(), "inputs", 2, "values_from")
	}
	ref := func(kind, name, key string, optional bool) any {
		return map[string]any{"kind": kind, "name": name, "values_key": key, "optional": optional}
	}
	require.Equal(t, []any{}, podinfo(), "always there")
	require.NotContains(t, w.get("/platform_components/podinfo").json(), "values_from", "what nobody wrote is absent")

	w.put("/platform_components/podinfo", `{"values_from":[{"kind":"ConfigMap","name":"platform","optional":true}]}`).want(200)
	const entry = demoCluster + "/platform_components/podinfo"
	w.put(entry, `{"values_from":[{"kind":"Secret","name":"podinfo.admin","values_key":"admin.yaml"}]}`).want(200)
	both := []any{ref("ConfigMap", "platform", "", true), ref("Secret", "podinfo.admin", "admin.yaml", false)}
	require.Equal(t, both, podinfo())

	// It is kept by changes that do not mention it, and cleared by null and by an empty list.
	w.put(entry, `{"component_version":"6.9.0"}`).want(200)
	require.Equal(t, both, podinfo())
	plan := w.do("POST", "/plan", `{"operations":[{"op":"set_component","all":true,"component_id":"podinfo","values_from":[]}]}`).want(200).json()
	require.Equal(t, "/values_from", at(plan, "groups", 0, "effect", "platform-components", "changed", 0, "fields", 0, "pointer"))
	w.batch(`{"op":"set_component","all":true,"component_id":"podinfo","values_from":null}`).want(200)
	require.Equal(t, both[:1], podinfo())
	w.batch(`{"op":"set_component","all":true,"component_id":"podinfo","values_from":[{"kind":"Secret","name":"x"}]}`).want(200)
	require.Equal(t, ref("Secret", "x", "", false), at(podinfo(), 1))
	w.patch("/platform_components/podinfo", `{"values_from":null}`).want(200)
	w.put(entry, `{"values_from":[]}`).want(200)
	require.Equal(t, []any{}, podinfo())
	require.NotContains(t, at(w.get(demoCluster).json(), "platform_components", 2), "values_from")

	w.unchanged(func() {
		for body, pointer := range map[string]string{
			`{"values_from":[{"kind":"Pod","name":"x"}]}`:                          "/values_from/0/kind",
			`{"values_from":[{"kind":"Secret","name":"A b"}]}`:                     "/values_from/0/name",
			`{"values_from":[{"kind":"Secret","name":"x","values_key":"a b"}]}`:    "/values_from/0/values_key",
			`{"values_from":[{"kind":"Secret"}]}`:                                  "/values_from/0/name",
			`{"values_from":[{"kind":"Secret","name":"x","namespace":"other"}]}`:   "/values_from/0/namespace",
			`{"values_from":[{"kind":"Secret","name":"x"},{"kind":"","name":""}]}`: "/values_from/1/kind",
		} {
			require.Contains(t, w.put("/platform_components/podinfo", body).problem(400, "validation_error").pointers(), pointer, body)
			require.NotEmpty(t, w.put(entry, body).problem(400, "validation_error").pointers(), body)
		}
	})

	w.create("/platform_components", `{"id":"kust","component_path":"p","oci_url":"oci://c.example.com/x"}`)
	require.Contains(t, w.put("/platform_components/kust", `{"values_from":[{"kind":"Secret","name":"x"}]}`).want(200).header.Get("Warning"), "has no effect")
	require.Contains(t, w.put(demoCluster+"/platform_components/kust", `{"values_from":[{"kind":"Secret","name":"x"}]}`).want(200).header.Get("Warning"), "has no effect")
}
