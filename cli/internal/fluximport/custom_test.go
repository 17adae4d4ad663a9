package fluximport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/offline"
)

// schemaShapes are parts of the schemas of public CustomResourceDefinitions, each with a value for a cluster.
var schemaShapes = []struct{ schema, value string }{
	{`{"type": "string"}`, `"text of %s"`},
	{`{"type": "string", "enum": ["Always", "Never"], "default": "Always"}`, `"Never"`},
	{`{"type": "string", "pattern": "^[a-z0-9.-]+$", "maxLength": 253}`, `"%s.example.com"`},
	{`{"type": "integer", "format": "int32", "minimum": 0, "default": 3}`, `7`},
	{`{"type": "integer", "format": "int64", "maximum": 9223372036854775807}`, `9007199254740991`},
	{`{"type": "boolean", "default": true}`, `false`},
	{`{"type": "number"}`, `1.50`},
	{`{"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}`, `"50%%"`},
	{`{"type": "object", "additionalProperties": {"type": "string"}}`, `{"a.b/c": "%s", "empty": ""}`},
	{`{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`, `{"any": [{"thing": true}], "null": null, "none": {}}`},
	{`{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}`, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}`},
	{`{"type": "string", "nullable": true}`, `null`},
	{`{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}`, `["b", "a", "$${vars.x}", "{{ .Values.a }}", "<< .x >>"]`},
	{`{"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}`, `[{"name": "a"}, {"name": "b", "port": 8080}]`},
	{`{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}}}}}}`, `{"a": {"b": {}}}`},
	{`{"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}`, `{"b": "%s"}`},
	{`{"type": "string", "format": "duration", "x-kubernetes-validations": [{"rule": "self != ''"}]}`, `"1h30m"`},
}

// TestManyCustomKinds: 34 kinds in the shapes of public ones become resource types in one import. The rendered objects have exactly the
// fields of the dump, and the defaults. The comparison is independent of that of the check.
func TestManyCustomKinds(t *testing.T) {
	t.Parallel()
	const kinds = 2 * 17 // each shape as a field of the spec, and beside other fields of an object without a spec
	require.Len(t, schemaShapes, kinds/2)
	dir, want := t.TempDir(), map[string]any{}
	for _, cluster := range []string{"berlin", "paris"} {
		items := []string{}
		add := func(format string, values ...any) { items = append(items, fmt.Sprintf(format, values...)) }
		const labels = `"labels": {"kustomize.toolkit.fluxcd.io/name": "root", "kustomize.toolkit.fluxcd.io/namespace": "flux-system", "team": "a"}`
		add(`{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "root", "namespace": "flux-system", "uid": "a"}, "spec": {"interval": "1h", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "x"}}}`)
		add(`{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "charts", "namespace": "flux-system", "uid": "a"}, "spec": {"url": "https://charts.example.com"}}`)
		add(`{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "app", "namespace": "apps", "uid": "a", %s}, "spec": {"interval": "10m", "chart": {"spec": {"chart": "app", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "flux-system"}}}}}`, labels)
		for i := range kinds {
			shape, kind, scope, namespace := schemaShapes[i/2], fmt.Sprintf("Kind%d", i), "Cluster", ""
			value := strings.ReplaceAll(strings.ReplaceAll(shape.value, "%s", cluster), "%%", "%")
			schema, object := `{"spec": {"type": "object", "properties": {"field": `+shape.schema+`}}}`, `"spec": {"field": `+value+`}`
			if i%2 == 1 {
				scope, namespace = "Namespaced", `"namespace": "apps",`
				schema, object = `{"field": `+shape.schema+`, "other": {"type": "string"}}`, `"field": `+value+`, "other": "x"`
			}
			add(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "kind%ds.example.com", "uid": "b"}, "spec": {"group": "example.com", "scope": %q,
				"names": {"kind": %q, "plural": "kind%[1]ds"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": %[4]s}}}]}}`, i, scope, kind, schema)
			add(`{"apiVersion": "example.com/v1", "kind": %q, "metadata": {"name": "a.b", %s "uid": "c", %s}, %s}`, kind, namespace, labels, object)
			var fields any
			require.NoError(t, json.Unmarshal([]byte("{"+object+"}"), &fields), object)
			want[cluster+kind] = fields
		}
		text := `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + "]}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, cluster+".json"), []byte(text), 0o600))
	}
	result, _ := imported(t, Options{}, dir)
	require.Len(t, result.Documents["resource_type"], kinds)
	require.Len(t, result.Report.Types, kinds)
	require.Zero(t, result.Report.Totals()[left], result.Report.Markdown())
	fleet := new(offline.Fleet)
	differences, compared, err := result.Check(fleet, result.Documents)
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, 2*(kinds+1), compared)
	for _, cluster := range []string{"berlin", "paris"} {
		objects, err := fleet.Render(cluster)
		require.NoError(t, err)
		for _, raw := range objects {
			var object map[string]any
			require.NoError(t, json.Unmarshal(raw, &object))
			fields, ok := want[cluster+fmt.Sprint(object["kind"])]
			if !ok {
				continue
			}
			metadata := object["metadata"].(map[string]any)
			require.Equal(t, "a.b", metadata["name"])
			require.Equal(t, "a", metadata["labels"].(map[string]any)["team"])
			delete(want, cluster+fmt.Sprint(object["kind"]))
			for _, field := range []string{"apiVersion", "kind", "metadata"} {
				delete(object, field)
			}
			text := strings.NewReplacer("map[c:x]", "map[]", "name:a port:80]", "name:a]").Replace(fmt.Sprint(object)) // defaults
			require.Equal(t, fmt.Sprint(fields), text)
		}
	}
	require.Empty(t, want)
}

// TestBuiltCustomObjects: custom objects from kustomize build get the values of their variables, with their types.
func TestBuiltCustomObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, cluster := range []string{"berlin", "paris"} {
		text := helmRepository + fmt.Sprintf(otherRelease, "") + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: a}
data: {SIZE: "3", DOMAIN: ` + cluster + `.example.com}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Cert, plural: certs}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, host: {type: string}}}}}}}]
---
apiVersion: example.com/v1
kind: Cert
metadata: {name: web, namespace: apps, labels: {size: "${SIZE}"}}
spec: {size: "${SIZE}", host: "web.${DOMAIN}"}
---
apiVersion: example.com/v1
kind: Cert
metadata: {name: unknown, namespace: apps}
spec: {host: "${UNKNOWN}"}
`
		require.NoError(t, os.WriteFile(filepath.Join(dir, cluster+".yaml"), []byte(text), 0o600))
	}
	result, _ := imported(t, Options{Settings: []string{"settings"}}, dir)
	require.Len(t, result.Documents["resource/certs"], 1)
	require.JSONEq(t, `{"id": "web", "type": "certs", "spec": {"namespace": "apps", "labels": {"size": "3"}, "spec": {"size": 3, "host": "web.${vars.DOMAIN}"}}}`, string(result.Documents["resource/certs"][0]))
	require.Contains(t, result.Report.Markdown(), "| Cert apps/unknown | `spec.host` | berlin, paris | the object is not taken: no ConfigMap of settings in the dump has UNKNOWN")
	differences, compared, err := result.Check(newFleet(), result.Documents)
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, 4, compared)
}
