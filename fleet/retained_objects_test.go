package fleet

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const keptConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.name | quote >>, namespace: ns, annotations: {fluxcd.controlplane.io/prune: disabled}}\n"

// setAround is a ResourceSet with another template, and with more in its spec.
func setAround(template, spec string) string {
	return "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: << inputs.id | quote >>, namespace: flux-system}\nspec:\n" + spec +
		"  resourcesTemplate: |\n    " + strings.ReplaceAll(strings.TrimSpace(template), "\n", "\n    ") + "\n"
}

func typeWith(t testing.TB, id, template string, more map[string]any) string {
	t.Helper()
	var obj map[string]any
	require.NoError(t, json.Unmarshal([]byte(typeOf(id, template)), &obj))
	maps.Copy(obj, more)
	body, err := json.Marshal(obj)
	require.NoError(t, err)
	return string(body)
}

var keep = map[string]any{"removal": "keep", "overridable": []string{"name", "list"}}

// TestKeepIsKept: the template of a type whose removal is "keep" must make Flux keep each object, not only the first one.
func TestKeepIsKept(t *testing.T) {
	t.Parallel()
	const deleted = "Flux would delete ConfigMap ns/"
	for name, c := range map[string]struct{ template, want string }{
		"no annotation":         {configMap, deleted},
		"one of two":            {keptConfigMap + "---\n" + strings.Replace(configMap, "name: <<", "name: b-<<", 1), deleted},
		"another value":         {strings.Replace(keptConfigMap, "disabled", "enabled", 1), deleted},
		"in a list":             {"apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}\n", deleted},
		"in a ResourceSet":      {setAround(configMap, ""), deleted},
		"of unknown inputs":     {setAround(keptConfigMap, "  inputs: [{name: a}]\n"), "Flux would delete ResourceSet flux-system/"},
		"all":                   {keptConfigMap, ""},
		"all in a ResourceSet":  {setAround(keptConfigMap, ""), ""},
		"by common metadata":    {setAround(configMap, "  commonMetadata: {annotations: {fluxcd.controlplane.io/prune: disabled}}\n"), ""},
		"a ResourceSet is kept": {strings.Replace(setAround(configMap, "  inputs: [{name: a}]\n"), "namespace: flux-system", "namespace: flux-system, annotations: {fluxcd.controlplane.io/prune: disabled}", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			typ := strings.ReplaceAll(c.template, "<< inputs.name | quote >>", "example") // nested templates have no inputs
			if c.want != "" {
				e := w.refused(CodeInvalid, create(KindResourceType, typeWith(t, "settings", typ, keep)))
				require.Contains(t, e.Detail, c.want)
				require.Equal(t, "/template", e.Problems[0].Pointer)
				w.must(create(KindResourceType, typeWith(t, "settings", typ, nil))) // it is right for a type that deletes
				w.refused(CodeInvalid, patch(KindResourceType, "settings", `{"removal":"keep"}`))
				return
			}
			w.must(create(KindResourceType, typeWith(t, "settings", typ, keep)))
		})
	}
}

// TestKeepIsKeptOfEachDefinition: neither a definition nor a cluster's override may render an object that Flux would delete.
func TestKeepIsKeptOfEachDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\n  annotations:\n    a: b\n    <<- if ne inputs.name \"owned\" >>\n    fluxcd.controlplane.io/prune: disabled\n    <<- end >>\n"
	w.must(create(KindResourceType, typeWith(t, "settings", template, keep)))
	kind := ResourceKind("settings")
	e := w.refused(CodeInvalid, create(kind, `{"id":"a","spec":{"name":"owned"}}`))
	require.Contains(t, e.Detail, "Flux would delete ConfigMap ns/a")
	w.must(create(kind, `{"id":"a"}`))
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	e = w.refused(CodeInvalid, assign("k", kind, "a", `{"overrides":{"name":"owned"}}`))
	require.Contains(t, e.Detail, "Flux would delete ConfigMap ns/a")
	w.must(assign("k", kind, "a", `{"overrides":{"name":"other"}}`))
}

// TestObjectsOfKubernetesAreNotDeleted: removing a definition does not delete objects that exist on every cluster.
func TestObjectsOfKubernetesAreNotDeleted(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: << index inputs.list 0 | quote >>\nkind: << index inputs.list 1 | quote >>\nmetadata: {name: << index inputs.list 2 | quote >>, namespace: << index inputs.list 3 | quote >>}\n"
	const kept = "apiVersion: << index inputs.list 0 | quote >>\nkind: << index inputs.list 1 | quote >>\nmetadata: {name: << index inputs.list 2 | quote >>, namespace: << index inputs.list 3 | quote >>, annotations: {fluxcd.controlplane.io/prune: disabled}}\n"
	w := newWorld(t)
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"list"}, "properties": map[string]any{
			"list": map[string]any{"type": "array", "minItems": 4, "items": map[string]any{"type": "string"}},
		},
		"examples": []any{map[string]any{"list": []string{"v1", "ConfigMap", "a", "b"}}},
	}
	more := map[string]any{"schema": schema, "overridable": []string{"list"}}
	w.must(create(KindResourceType, typeWith(t, "objects", object, more)))
	w.must(create(KindResourceType, typeWith(t, "kept", kept, more)))
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	w.must(create(ResourceKind("objects"), `{"id":"fine","spec":{"list":["v1","Namespace","team",""]}}`))
	w.must(assign("k", ResourceKind("objects"), "fine", ""))
	for i, list := range []string{
		`["v1","Namespace","kube-system",""]`, `["v1","Namespace","default",""]`, `["v1","ServiceAccount","default","team"]`,
		`["v1","ConfigMap","kube-root-ca.crt","team"]`, `["v1","Service","kubernetes","default"]`,
		`["rbac.authorization.k8s.io/v1","ClusterRole","view",""]`, `["rbac.authorization.k8s.io/v1","ClusterRoleBinding","system:basic-user",""]`,
		`["scheduling.k8s.io/v1","PriorityClass","system-node-critical",""]`,
	} {
		e := w.refused(CodeInvalid, create(ResourceKind("objects"), `{"id":"x","spec":{"list":`+list+`}}`))
		require.Contains(t, e.Detail, "which exists on every cluster")
		e = w.refused(CodeInvalid, assign("k", ResourceKind("objects"), "fine", `{"overrides":{"list":`+list+`}}`))
		require.Contains(t, e.Detail, "which exists on every cluster")
		w.must(create(ResourceKind("kept"), `{"id":"x`+string(rune('a'+i))+`","spec":{"list":`+list+`}}`))
	}
}
