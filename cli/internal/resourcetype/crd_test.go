package resourcetype_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
)

// definition returns a CustomResourceDefinition with one version of this schema and with columns of these JSONPaths.
func definition(schema string, columns ...string) string {
	printed := make([]map[string]string, len(columns))
	for i, path := range columns {
		printed[i] = map[string]string{"jsonPath": path}
	}
	text, _ := json.Marshal(printed)
	return fmt.Sprintf(`{"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
		"versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": %s, "schema": {"openAPIV3Schema": %s}}]}}`, text, schema)
}

func TestSchemasOfCRDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, properties, required string }{
		"closed": {
			`{"properties": {"spec": {"type": "object", "properties": {"a": {"items": {"type": "object"}}}}}}`,
			`{"spec": {"type": "object", "additionalProperties": false, "properties": {"a": {"items": {"type": "object", "additionalProperties": false}}}}}`, `["namespace", "spec"]`,
		},
		"a map": {
			`{"properties": {"spec": {"type": "object", "additionalProperties": {"type": "object"}}}}`,
			`{"spec": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": false}}}`, `["namespace", "spec"]`,
		},
		"open": {
			`{"properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object"}}}}}`,
			`{"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "additionalProperties": false}}}}`, `["namespace", "spec"]`,
		},
		"embedded": {
			`{"properties": {"spec": {"type": "object", "x-kubernetes-embedded-resource": true}}}`,
			`{"spec": {"type": "object", "x-kubernetes-embedded-resource": true}}`, `["namespace", "spec"]`,
		},
		"alternatives are not closed": {
			`{"properties": {"spec": {"type": "object", "anyOf": [{"type": "object", "required": ["a"]}]}}}`,
			`{"spec": {"type": "object", "additionalProperties": false, "anyOf": [{"type": "object", "required": ["a"]}]}}`, `["namespace", "spec"]`,
		},
		"beside the spec": {
			`{"required": ["must"], "properties": {"spec": {"type": "string"}, "may": {"type": "string"}, "must": {"type": "string"}, "status": {}}}`,
			`{"spec": {"type": "string"}, "must": {"type": "string"}}`, `["namespace", "must", "spec"]`,
		},
		"no spec": {
			`{"properties": {"kind": {}, "metadata": {}, "b": {"type": "string"}, "a": {"type": "string", "default": "x"}}}`,
			`{"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}`, `["namespace", "b"]`,
		},
		"bounds": {
			`{"properties": {"spec": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9007199254740992}}}`,
			`{"spec": {"type": "integer", "maximum": 9007199254740992}}`, `["namespace", "spec"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields, err := resourcetype.FromCRD([]byte(definition(c.schema)), "crd.yaml", "widgets", resourcetype.CRDOptions{})
			require.NoError(t, err)
			schema := fields["schema"].(map[string]any)
			properties := schema["properties"].(map[string]any)
			require.Contains(t, properties, "namespace")
			delete(properties, "namespace")
			got, err := json.Marshal([]any{properties, schema["required"]})
			require.NoError(t, err)
			require.JSONEq(t, "["+c.properties+","+c.required+"]", string(got))
		})
	}
}

func TestConditionsOfCRDs(t *testing.T) {
	t.Parallel()
	for want, columns := range map[string][]string{
		"Ready":      {`.status.conditions[?(@.type=="Accepted")].status`, `.status.conditions[?(@.type=="Ready")].status`},
		"Reconciled": {`.status.replicas`, `.status.conditions[?(@.type == 'Reconciled')].status`},
		"":           {`.status.conditions[?(@.type=="Degraded")].status`, `.status.conditions[?(@.type=="Ready")].message`},
	} {
		fields, err := resourcetype.FromCRD([]byte(definition(`{"properties": {"spec": {}}}`, columns...)), "crd.yaml", "widgets", resourcetype.CRDOptions{})
		require.NoError(t, err)
		if want == "" {
			require.NotContains(t, fields["template"], `"ready"`)
		} else {
			require.Contains(t, fields["template"], `c.type == '`+want+`'`)
		}
	}
}

func TestInvalidCRDs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "holds no CustomResourceDefinition", "a: [": "crd.yaml: ", `{"kind": "CustomResourceDefinition"}`: "has no served version",
		definition(`null`): "has no fields besides metadata", definition(`{"properties": {"metadata": {}}}`): "has no fields besides metadata",
		definition(`[]`): "has no fields besides metadata", definition(`{"properties": {"namespace": {}}}`): `the field "namespace" of Widget conflicts`,
		definition(`{"properties": {"a-b": {}}}`): `a template cannot have the field "a-b" of Widget`, definition(`{"properties": {"a >><< fail": {}}}`): "a template cannot have the field",
		strings.Replace(definition(`{"properties": {"spec": {}}}`), `"Widget"`, `"Widget\\nspec: << inputs.id >>"`, 1): "is not a name of Kubernetes",
		strings.Replace(definition(`{"properties": {"spec": {}}}`), `"example.com"`, `"example.com << fail >>"`, 1):    "is not a name of Kubernetes",
		`{"kind": "List", "items": [` + definition(`{}`) + `, ` + definition(`{}`) + `]}`:                              "NAME is the plural of 2",
	} {
		_, err := resourcetype.FromCRD([]byte(text), "crd.yaml", "widgets", resourcetype.CRDOptions{})
		require.ErrorContains(t, err, want, text)
	}
	_, err := resourcetype.FromCRD([]byte(`{"kind": "List", "items": [`+definition(`{"properties": {"spec": {}}}`)+`]}`), "crd.yaml", "any", resourcetype.CRDOptions{})
	require.NoError(t, err)
}

// FuzzFromCRD: no file causes a panic, and what is made of one can be sent.
func FuzzFromCRD(f *testing.F) {
	f.Add([]byte(definition(`{"properties": {"spec": {"type": "object", "properties": {"a": {"items": {"nullable": true}}}}}}`)))
	f.Add([]byte("kind: CustomResourceDefinition\nspec: {versions: [{served: true, schema: {openAPIV3Schema: {properties: [1]}}}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := resourcetype.FromCRD(data, "crd.yaml", "widgets", resourcetype.CRDOptions{Keep: true, Named: true, Metadata: true})
		if err != nil {
			return
		}
		_, err = json.Marshal(fields)
		require.NoError(t, err)
	})
}
