package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
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
			`{"values_from":[{"kind":"Secret","name":"x","target_path":"a b"}]}`:   "/values_from/0/target_path",
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

// TestValuesFromTargetPath: entries are served in order whatever they name, since one Secret may be in several values. A
// reference without a target path has no field of that name, as before there was one.
func TestValuesFromTargetPath(t *testing.T) {
	t.Parallel()
	w := setup(t)
	podinfo := func() any {
		return at(w.poll(demoPolls+"/platform-components").want(200).json(), "inputs", 2, "values_from")
	}
	ref := func(name, key, path string) map[string]any {
		out := map[string]any{"kind": "Secret", "name": name, "values_key": key, "optional": false}
		if path != "" {
			out["target_path"] = path
		}
		return out
	}
	w.put("/platform_components/podinfo", `{"values_from":[{"kind":"Secret","name":"db"},{"kind":"Secret","name":"db","values_key":"password","target_path":"auth.password"}]}`).want(200)
	w.create("/layers", `{"id":"l1","priority":1,"all":true,"overrides":{"podinfo":{"values_from":[{"kind":"Secret","name":"db","values_key":"password","target_path":"auth.copy[0].password"}]}}}`)
	require.Equal(t, []any{ref("db", "", ""), ref("db", "password", "auth.password"), ref("db", "password", "auth.copy[0].password")}, podinfo())
	const entry = demoCluster + "/platform_components/podinfo"
	receipt := func() any {
		return at(w.poll(demoPolls+"/platform-components").want(200).json(), "inputs", 2, "receipt")
	}
	before := receipt()
	w.put(entry, `{"values_from":[{"kind":"Secret","name":"db","values_key":"password","target_path":"a\\.b.c"}]}`).want(200)
	require.Equal(t, []any{ref("db", "", ""), ref("db", "password", "auth.password"), ref("db", "password", `a\.b.c`)}, podinfo(), "the cluster's list in place of the layer's")
	require.NotEqual(t, before, receipt())
	require.Equal(t, `a\.b.c`, at(w.get(demoCluster).json(), "platform_components", 2, "values_from", 0, "target_path"))

	w.unchanged(func() {
		for path, accepted := range map[string]bool{
			"a": true, "a.b-c_d": true, `a\.b/c`: true, "a[0]": true, "a[0][1].b": true, "a[65536]": true, strings.Repeat("a", 250): true,
			strings.Repeat("a", 251): false, "a b": false, "a=b": false, "a,b": false, "a[]": false, "a[x]": false, "a{b}": false, "ä": false,
			"a[65537]": false, "a..b": false, "a.": false, "[0]": false, `a\`: false, "a[0]b": false, strings.Repeat("a.", 30) + "a": false, "a\n": false,
		} {
			body, err := json.Marshal(map[string]any{"operations": []any{map[string]any{
				"op": "set_component", "all": true, "component_id": "podinfo",
				"values_from": []any{map[string]any{"kind": "Secret", "name": "db", "target_path": path}},
			}}})
			require.NoError(t, err)
			if got := w.do("POST", "/plan", string(body)); accepted {
				got.want(200)
			} else {
				got.problem(400, "validation_error")
			}
		}
	})
}

// The digest of an artifact and images are taken wherever the tag is: POST, PUT, PATCH, assignments, layers, batches and seeds.
func TestDigestAndImages(t *testing.T) {
	t.Parallel()
	const (
		digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
		images = `"images":[{"name":"web","new_name":"m.example.com/web","new_tag":"1","digest":"` + digest + `"}]`
		pinned = `"oci_tag":"v1","oci_digest":"` + digest + `",` + images
		source = `"component_path":"p","oci_url":"oci://c.example.com/x"`
	)
	w := setupWith(t, options{empty: true})
	has := func(doc any) {
		t.Helper()
		require.Equal(t, "v1", at(doc, "oci_tag"))
		require.Equal(t, digest, at(doc, "oci_digest"))
		require.Equal(t, []any{map[string]any{"name": "web", "new_name": "m.example.com/web", "new_tag": "1", "digest": digest}}, at(doc, "images"))
	}
	served := func() any {
		return at(w.poll("/api/v2/flux/clusters/c1.example.com/platform-components").want(200).json(), "inputs", 0)
	}
	has(w.create("/platform_components", `{"id":"posted",`+source+`,`+pinned+`}`).json())
	w.create("/platform_components", `{"id":"app",`+source+`}`)
	has(w.put("/platform_components/app", `{`+pinned+`}`).want(200).json())
	has(w.put("/platform_components/app", `{"component_path":"q"}`).want(200).json())
	w.patch("/platform_components/app", `{"oci_tag":null,"oci_digest":null,"images":null}`).want(200)
	require.NotContains(t, w.get("/platform_components/app").json(), "oci_digest")
	has(w.patch("/platform_components/app", `{`+pinned+`}`).want(200).json())
	w.patch("/platform_components/app", `{"oci_digest":null,"images":null}`).want(200)

	w.create("/clusters", `{"id":"c1","cluster_dns":"c1.example.com","environment":"dev","platform_components":[{"id":"app",`+pinned+`}]}`)
	has(at(w.get("/clusters/c1").json(), "platform_components", 0))
	require.Equal(t, digest, at(served(), "source", "oci_digest"))
	require.Equal(t, "web", at(served(), "images", 0, "name"))
	w.put("/clusters/c1/platform_components/app", `{"oci_tag":null,"images":null}`).want(200)
	require.NotContains(t, at(served(), "source"), "oci_digest")
	require.NotContains(t, served(), "images")
	w.put("/clusters/c1/platform_components/app", `{`+pinned+`}`).want(200)
	has(at(w.get("/clusters/c1").json(), "platform_components", 0))
	w.batch(`{"op":"set_component","all":true,"component_id":"app","oci_tag":null,"oci_digest":null,"images":[]}`).want(200)
	require.NotContains(t, served(), "images")
	w.batch(`{"op":"set_component","all":true,"component_id":"app",` + pinned + `}`).want(200)
	has(at(w.get("/clusters/c1").json(), "platform_components", 0))
	w.batch(`{"op":"unassign_component","all":true,"component_id":"app"}`).want(200)

	w.create("/layers", `{"id":"l1","priority":1,"all":true,"platform_components":[{"id":"app",`+pinned+`}],"overrides":{"posted":{`+pinned+`}}}`)
	has(at(w.get("/layers/l1").json(), "platform_components", 0))
	has(at(w.get("/layers/l1").json(), "overrides", "posted"))
	require.Equal(t, digest, at(served(), "source", "oci_digest"))
	w.put("/layers/l1", `{"overrides":{"posted":{"oci_tag":"v2"}}}`).want(200)
	w.patch("/layers/l1", `{"overrides":{"posted":{`+pinned+`}}}`).want(200)
	has(at(w.get("/layers/l1").json(), "overrides", "posted"))
	explained := w.get("/clusters/c1/explain/platform-components/app?pointer=/source/oci_digest").want(200).json()
	require.Equal(t, "layer", at(explained, "inputs", 0, "values", 0, "set_by", "kind"))

	seed, err := fleet.ParseSeed([]byte(`{"components":[{"_id":"app",` + source + `,` + pinned + `}],"clusters":[{"_id":"c1","cluster_dns":"c1.example.com","environment":"dev","platform_components":[{"id":"app",` + pinned + `}]}]}`))
	require.NoError(t, err)
	w = setupWith(t, options{empty: true})
	_, err = server.SeedEmptyStore(t.Context(), w.replica, seed, store.Meta{})
	require.NoError(t, err)
	has(w.get("/platform_components/app").json())
	has(at(w.get("/clusters/c1").json(), "platform_components", 0))
	w.patch("/platform_components/app", `{"images":[{"name":"web:1"}]}`).problem(400, "validation_error")
}
