package fleet

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMergeExample is the worked example in the documentation of the reference implementation, with our additional fields.
func TestMergeExample(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		string(KindComponent), `{"id":"cert-manager","component_path":"core/cert-manager/1.14.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","depends_on":[]}`,
		string(KindComponent), `{"id":"grafana","component_path":"observability/grafana/17.0.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","depends_on":["cert-manager"]}`,
		string(KindCluster), `{"id":"us-east-prod-01","cluster_name":"us-east-prod-01","cluster_dns":"us-east-prod-01.k8s.example.com","environment":"prod",
			"platform_components":[{"id":"cert-manager","enabled":true,"oci_tag":null,"component_path":null},
				{"id":"grafana","enabled":true,"oci_tag":"v1.0.0-1","component_path":"observability/grafana/17.1.0"}],
			"patches":{"grafana":{"GRAFANA_REPLICAS":"3"}}}`)
	cluster := `{"name":"us-east-prod-01","dns":"us-east-prod-01.k8s.example.com","environment":"prod"}`
	require.JSONEq(t, `{"inputs":[
		{"id":"cert-manager","enabled":true,"component_path":"core/cert-manager/1.14.0","component_version":"latest","cluster_env_enabled":false,
		 "source":{"oci_url":"oci://registry/repo","oci_tag":"v1.0.0"},"depends_on":[],"dependencies":[],"type":"kustomize","patches":{},"values":{},
		 "release_name":"cert-manager","target_namespace":"cert-manager","secret_ref":"","values_from":[],"cluster":`+cluster+`},
		{"id":"grafana","enabled":true,"component_path":"observability/grafana/17.1.0","component_version":"latest","cluster_env_enabled":false,
		 "source":{"oci_url":"oci://registry/repo","oci_tag":"v1.0.0-1"},"depends_on":["cert-manager"],"dependencies":[{"id":"cert-manager","type":"kustomize"}],
		 "type":"kustomize","patches":{"GRAFANA_REPLICAS":"3"},"values":{"GRAFANA_REPLICAS":"3"},
		 "release_name":"grafana","target_namespace":"grafana","secret_ref":"","values_from":[],"cluster":`+cluster+`}]}`,
		poll(t, w.state, "us-east-prod-01.k8s.example.com", KindComponent))
	require.Equal(t, `{"inputs":[]}`+"\n", poll(t, w.state, "us-east-prod-01.k8s.example.com", KindNamespace), "the cluster's own list is empty")
}

func TestMergeRules(t *testing.T) {
	t.Parallel()
	component := func(t *testing.T, w *world, id string) map[string]any {
		for _, in := range inputsOf(t, w.state, demoDNS, KindComponent) {
			if in["id"] == id {
				return in
			}
		}
		t.Fatalf("no %s", id)
		return nil
	}
	t.Run("the cluster's version, path and tag win", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		w.must(assign("demo-cluster-01", KindComponent, "podinfo", `{"component_version":"6.9.0","component_path":"other","oci_tag":"v2"}`))
		in := component(t, w, "podinfo")
		require.Equal(t, "6.9.0", in["component_version"])
		require.Equal(t, "other", in["component_path"])
		require.Equal(t, "v2", in["source"].(map[string]any)["oci_tag"])
		w.must(assign("demo-cluster-01", KindComponent, "podinfo", `{"component_version":null,"oci_tag":""}`))
		in = component(t, w, "podinfo")
		require.Equal(t, "latest", in["component_version"])
		require.Equal(t, "other", in["component_path"], "not mentioned: stays")
		require.Equal(t, "latest", in["source"].(map[string]any)["oci_tag"])
	})
	t.Run("a PUT of the list releases the pins that it leaves out, and keeps what the reference does not have", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		w.must(assign("demo-cluster-01", KindComponent, "podinfo", `{"component_version":"6.9.0","component_path":"other","oci_tag":"v2","enabled":false}`))
		w.must(put(KindCluster, "demo-cluster-01", `{"platform_components":[{"id":"cert-manager"},{"id":"traefik"},{"id":"podinfo","enabled":true}]}`))
		in := component(t, w, "podinfo")
		require.Equal(t, "latest", in["source"].(map[string]any)["oci_tag"])
		require.Equal(t, "podinfo", in["component_path"])
		require.Equal(t, "6.9.0", in["component_version"])
		require.Equal(t, true, in["enabled"])
		w.must(put(KindCluster, "demo-cluster-01", `{"platform_components":[{"id":"cert-manager"},{"id":"traefik"},{"id":"podinfo","oci_tag":"v3"}]}`))
		require.Equal(t, "v3", component(t, w, "podinfo")["source"].(map[string]any)["oci_tag"])
	})
	t.Run("the catalog's patches are defaults, by path", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		w.must(patch(KindComponent, "podinfo", `{"patches":{"replicaCount":"9","resources.limits.cpu":"1"}}`))
		in := component(t, w, "podinfo")
		require.Equal(t, "2", in["patches"].(map[string]any)["replicaCount"])
		require.Equal(t, map[string]any{"limits": map[string]any{"cpu": 1.0}}, in["values"].(map[string]any)["resources"])
	})
	t.Run("only what is assigned and enabled is waited for", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		require.Equal(t, []any{map[string]any{"id": "traefik", "type": "helm"}}, component(t, w, "podinfo")["dependencies"])
		w.must(assign("demo-cluster-01", KindComponent, "traefik", `{"enabled":false}`))
		in := component(t, w, "podinfo")
		require.Empty(t, in["dependencies"])
		require.Equal(t, []any{"traefik"}, in["depends_on"])
		require.False(t, component(t, w, "traefik")["enabled"].(bool))
	})
	t.Run("order is the order of assignment", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		require.Equal(t, []string{"cert-manager", "traefik", "podinfo"}, ids(inputsOf(t, w.state, demoDNS, KindComponent)))
		w.must(create(KindNamespace, `{"id":"aaa"}`))
		w.must(assign("demo-cluster-01", KindNamespace, "aaa", ""))
		require.Equal(t, []string{"cert-manager", "traefik", "podinfo", "aaa"}, ids(inputsOf(t, w.state, demoDNS, KindNamespace)))
	})
	t.Run("every field is there for a subject of any kind", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		w.must(create(KindRoleBinding, `{"id":"ci","role":"edit","subjects":[{"kind":"ServiceAccount","name":"ci","namespace":"build"},{"kind":"User","name":"jo"}]}`))
		w.must(assign("demo-cluster-01", KindRoleBinding, "ci", ""))
		subjects, err := json.Marshal(inputsOf(t, w.state, demoDNS, KindRoleBinding)[2]["subjects"])
		require.NoError(t, err)
		require.JSONEq(t, `[{"kind":"ServiceAccount","name":"ci","namespace":"build","apiGroup":""},
			{"kind":"User","name":"jo","namespace":"","apiGroup":"rbac.authorization.k8s.io"}]`, string(subjects))
	})
}

func TestAnswerIsMadeOncePerVersion(t *testing.T) {
	t.Parallel()
	w := demo(t)
	answer := func() *Answer {
		cluster, _ := w.state.ByDNS(demoDNS)
		a, err := w.state.Answer(cluster, KindComponent)
		require.NoError(t, err)
		return a
	}
	first := answer()
	require.Same(t, first, answer())
	w.must(create(KindNamespace, `{"id":"unrelated"}`))
	require.Same(t, first, answer(), "a change it does not depend on")
	w.must(patch(KindComponent, "podinfo", `{"component_version":"6.9.0"}`))
	require.NotSame(t, first, answer())
	require.NotEqual(t, first.ETag, answer().ETag)
}

func TestDanglingReferenceIsAnErrorNotAShorterList(t *testing.T) {
	t.Parallel()
	w := demo(t)
	broken, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{Kind: KindNamespace, ID: "podinfo", Before: []byte(`{}`)}}})
	require.NoError(t, err)
	cluster, _ := broken.ByDNS(demoDNS)
	_, err = broken.Answer(cluster, KindNamespace)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, CodeUnresolved, e.Code)
	_, err = broken.Answer(cluster, KindComponent)
	require.NoError(t, err, "the other endpoints are not touched")
}
