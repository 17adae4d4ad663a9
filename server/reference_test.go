package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// The cases that the reference's own integration suites check, over this API.

func TestReferenceServiceEndpoints(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		require.JSONEq(t, `{"status":"ok"}`, string(w.get("/health", "Authorization", "").want(200).body))
		require.Equal(t, "ok", w.get("/ready", "Authorization", "").want(200).json()["status"])
		w.get("/openapi.yaml", "Authorization", "").want(200)
		version := w.get("/version", "Authorization", "").want(200).json()
		require.Equal(t, mode, version["mode"])
		require.Equal(t, "v2.0.0-test", version["version"])
		require.Equal(t, "memory", version["store"])
	}
}

func TestReferencePollStatuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, resource := range []string{"platform-components", "namespaces", "rolebindings"} {
		w.poll(demoPolls + "/" + resource).want(200)
		w.get(demoPolls+"/"+resource, "Authorization", "").problem(401, "unauthorized")
		w.get(demoPolls+"/"+resource, "Authorization", "Bearer wrong").problem(401, "unauthorized")
		w.poll("/api/v2/flux/clusters/unknown.example.com/"+resource).problem(404, "not_found")
	}
	w.poll(demoPolls+"/networkpolicies").problem(404, "not_found")
}

func TestReferenceReferences(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for body, pointers := range map[string][]string{
			`{"platform_components":[{"id":"nobody","enabled":true}]}`:                  {"/platform_components/0/id"},
			`{"namespaces":[{"id":"podinfo"},{"id":"nobody"}]}`:                         {"/namespaces/1/id"},
			`{"rolebindings":[{"id":"nobody"}]}`:                                        {"/rolebindings/0/id"},
			`{"namespaces":[{"id":"podinfo"},{"id":"podinfo"}]}`:                        {"/namespaces/1/id"},
			`{"rolebindings":[{"id":"dev-readers"},{"id":"dev-readers"}]}`:              {"/rolebindings/1/id"},
			`{"platform_components":[{"id":"podinfo"},{"id":"podinfo"},{"id":"x"}]}`:    {"/platform_components/1/id", "/platform_components/2/id"},
			`{"platform_components":[{"id":"cert-manager"}],"namespaces":[{"id":"x"}]}`: {"/namespaces/0/id"},
		} {
			for _, method := range []string{"PUT", "PATCH"} {
				require.Equal(t, pointers, w.do(method, demoCluster, body).problem(400, "validation_error").pointers(), body)
			}
		}
		w.do("POST", "/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","namespaces":[{"id":"nobody"}]}`).problem(400, "validation_error")
	})
}

// A patch that is written arrives at the cluster, and a disabled component stays in the list as such.
func TestReferencePatchesReachFlux(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(demoCluster, `{"patches":{"podinfo":{"replicaCount":"3","ui.message":"Hello"},"traefik":{"service.type":"LoadBalancer"}}}`).want(200)
	inputs := w.poll(demoPolls + "/platform-components").json()["inputs"]
	require.Equal(t, map[string]any{"replicaCount": "3", "ui.message": "Hello"}, at(inputs, 2, "patches"))
	require.Equal(t, map[string]any{"service.type": "LoadBalancer"}, at(inputs, 1, "patches"))
	require.Equal(t, map[string]any{}, at(inputs, 0, "patches"))

	w.put(demoCluster, `{"platform_components":[{"id":"cert-manager","enabled":true},{"id":"traefik","enabled":false},{"id":"podinfo","enabled":true}]}`).want(200)
	inputs = w.poll(demoPolls + "/platform-components").json()["inputs"]
	require.Equal(t, false, at(inputs, 1, "enabled"))
	require.Equal(t, []any{}, at(inputs, 2, "dependencies"), "waiting for one that is disabled would block for ever")
	require.Equal(t, []any{"traefik"}, at(inputs, 2, "depends_on"))
}

func TestReferenceCatalogReachesFlux(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.poll(demoPolls + "/platform-components")
	w.put("/platform_components/podinfo", `{"component_version":"6.9.0","secret_ref":"pull","release_name":"pod","target_namespace":"apps","patches":{"ui.color":"red","logLevel":"debug"}}`).want(200)
	after := w.poll(demoPolls + "/platform-components")
	require.NotEqual(t, before.etag(), after.etag())
	input := at(after.json(), "inputs", 2)
	require.Equal(t, "6.9.0", at(input, "component_version"))
	require.Equal(t, "pull", at(input, "secret_ref"))
	require.Equal(t, "pod", at(input, "release_name"))
	require.Equal(t, "apps", at(input, "target_namespace"))
	require.Equal(t, "#2f855a", at(input, "patches", "ui.color"), "per path, the cluster wins")
	require.Equal(t, "debug", at(input, "patches", "logLevel"))

	w.put("/namespaces/podinfo", `{"labels":{"app":"changed"}}`).want(200)
	require.Equal(t, "changed", at(w.poll(demoPolls+"/namespaces").json(), "inputs", 2, "labels", "app"))
	w.put("/rolebindings/dev-readers", `{"subjects":[{"kind":"ServiceAccount","name":"ci","namespace":"tools"},{"kind":"User","name":"ann"}]}`).want(200)
	require.Equal(t, []any{
		map[string]any{"kind": "ServiceAccount", "name": "ci", "namespace": "tools", "apiGroup": ""},
		map[string]any{"kind": "User", "name": "ann", "namespace": "", "apiGroup": "rbac.authorization.k8s.io"},
	}, at(w.poll(demoPolls+"/rolebindings").json(), "inputs", 1, "subjects"))
}

// The example of the source documents' chapter on merging, posted as it stands there (our clusters have an id).
func TestMergeExample(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	w.create("/platform_components", `{"id":"cert-manager","component_path":"core/cert-manager/1.14.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","depends_on":[]}`)
	w.create("/platform_components", `{"id":"grafana","component_path":"observability/grafana/17.0.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","depends_on":["cert-manager"]}`)
	w.create("/clusters", `{"id":"us-east-prod-01","cluster_name":"us-east-prod-01","cluster_dns":"us-east-prod-01.k8s.example.com","environment":"prod",
		"platform_components":[
			{"id":"cert-manager","enabled":true,"oci_tag":null,"component_path":null},
			{"id":"grafana","enabled":true,"oci_tag":"v1.0.0-1","component_path":"observability/grafana/17.1.0"}],
		"patches":{"grafana":{"GRAFANA_REPLICAS":"3"}}}`)
	got := w.poll("/api/v2/flux/clusters/us-east-prod-01.k8s.example.com/platform-components").want(200)
	golden(t, "merge-example.json", got.body)

	// The fields that the reference prints; others are ours.
	cluster := `{"name":"us-east-prod-01","dns":"us-east-prod-01.k8s.example.com","environment":"prod"}`
	for i, printed := range []string{
		`{"id":"cert-manager","component_path":"core/cert-manager/1.14.0","source":{"oci_url":"oci://registry/repo","oci_tag":"v1.0.0"},"patches":{},"cluster":` + cluster + `}`,
		`{"id":"grafana","component_path":"observability/grafana/17.1.0","source":{"oci_url":"oci://registry/repo","oci_tag":"v1.0.0-1"},"depends_on":["cert-manager"],"patches":{"GRAFANA_REPLICAS":"3"},"cluster":` + cluster + `}`,
	} {
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(printed), &want))
		for field, value := range want {
			require.Equal(t, value, at(got.json(), "inputs", i, field), field)
		}
	}
	require.Len(t, got.ids(), 2)
	require.Equal(t, "kustomize", at(got.json(), "inputs", 1, "type"), "an oci:// URL without a type")
}

// Texts that YAML or a template would misread arrive exactly as they were written.
func TestHostileTextArrivesUnchanged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	texts := []string{`"`, `\`, `{{ .x }}`, `<< inputs.id >>`, `a: b`, "two\nlines", `on`, `1e3`, `~`, `*x`, `&x`, `!x`, `<script>&amp;`, "\u2028", "grüße 🚀", `#x`, `%`, `$(id)`}
	annotations, patches := map[string]string{}, map[string]string{}
	for i, text := range texts {
		annotations["key"+string(rune('a'+i))] = text
		patches["key"+string(rune('a'+i))] = text
	}
	body, err := json.Marshal(map[string]any{"annotations": annotations})
	require.NoError(t, err)
	w.put("/namespaces/podinfo", string(body)).want(200)
	body, err = json.Marshal(map[string]any{"patches": map[string]any{"podinfo": patches}})
	require.NoError(t, err)
	w.put(demoCluster, string(body)).want(200)
	namespace := at(w.poll(demoPolls+"/namespaces").json(), "inputs", 2, "annotations")
	input := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 2)
	for i, text := range texts {
		key := "key" + string(rune('a'+i))
		require.Equal(t, text, at(namespace, key))
		require.Equal(t, text, at(input, "patches", key))
		require.Equal(t, text, at(input, "values", key))
	}
}
