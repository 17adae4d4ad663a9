package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Null in a document is Helm's null, as `"null"` is in a change; null in a change removes the value, so that lower documents count. An
// input with a null field has its values as text, too.
func TestNullValues(t *testing.T) {
	t.Parallel()
	const (
		podinfo  = "/platform_components/podinfo"
		layer    = "/layers/prod"
		null     = `{"a":null}`
		nullText = `{"a":null}`
		catalog  = `{"a":"catalog"}`
		ofLayer  = `{"operations":[{"op":"patch_values","layers":["prod"],"component_id":"podinfo","values":{"a":"null"}}]}`
		removed  = `{}`
	)
	type step struct{ method, path, body string }
	for name, test := range map[string]struct {
		steps        []step
		values, text string
	}{
		"cluster, PUT":                    {[]step{{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":null}}}`}}, null, nullText},
		"cluster, text":                   {[]step{{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":"null"}}}`}}, null, nullText},
		"cluster, PATCH of text":          {[]step{{http.MethodPatch, demoCluster, `{"patches":{"podinfo":{"a":"null"}}}`}}, null, nullText},
		"cluster, below a value":          {[]step{{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":{"b":null}}}}`}}, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
		"cluster, in a list":              {[]step{{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":[null]}}}`}}, `{"a":[null]}`, ""},
		"cluster, in an object of a list": {[]step{{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":[{"b":null}]}}}`}}, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
		"cluster, PATCH": {[]step{
			{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":null}}}`},
			{http.MethodPatch, demoCluster, `{"patches":{"podinfo":{"a":null}}}`},
		}, catalog, ""},
		"cluster, PATCH below a value": {[]step{{http.MethodPatch, demoCluster, `{"patches":{"podinfo":{"a":{"b":null}}}}`}}, `{"a":{}}`, ""}, // RFC 7396
		"values, text":                 {[]step{{http.MethodPost, "/batch", `{"operations":[{"op":"patch_values","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","values":{"a":"null"}}]}`}}, null, nullText},
		"values, null": {[]step{
			{http.MethodPut, demoCluster, `{"patches":{"podinfo":{"a":null}}}`},
			{http.MethodPost, "/batch", `{"operations":[{"op":"patch_values","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","values":{"a":null}}]}`},
		}, catalog, ""},
		"values, below a value":    {[]step{{http.MethodPost, "/batch", `{"operations":[{"op":"patch_values","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","values":{"a":{"b":null}}}]}`}}, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
		"values, all of a manager": {[]step{{http.MethodPost, "/batch", `{"operations":[{"op":"apply_values","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","field_manager":"ci","values":{"a":"null"}}]}`}}, null, nullText},
		"put":                      {[]step{{http.MethodPost, "/batch", `{"operations":[{"op":"put","kind":"cluster","id":"demo-cluster-01","document":{"patches":{"podinfo":{"a":null}}}}]}`}}, null, nullText},
		"catalog, PUT":             {[]step{{http.MethodPut, podinfo, `{"patches":{"a":null}}`}}, null, nullText},
		"catalog, PATCH":           {[]step{{http.MethodPatch, podinfo, `{"patches":{"a":null}}`}}, removed, ""},
		"catalog, PATCH of text":   {[]step{{http.MethodPatch, podinfo, `{"patches":{"a":"null"}}`}}, null, nullText},
		"layer, text":              {[]step{{http.MethodPatch, layer, `{"patches":{"podinfo":{"a":"null"}}}`}}, null, nullText},
		"layer, values":            {[]step{{http.MethodPost, "/batch", ofLayer}}, null, nullText},
		"layer, PUT of null":       {[]step{{http.MethodPut, layer, `{"patches":{"podinfo":{"a":null}}}`}}, removed, ""}, // lower values are removed, the chart's default stays
		"cluster over the null of a layer": {[]step{
			{http.MethodPatch, layer, `{"patches":{"podinfo":{"a":"null"}}}`},
			{http.MethodPatch, demoCluster, `{"patches":{"podinfo":{"a":"own"}}}`},
		}, `{"a":"own"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.put(podinfo, `{"patches":{"a":"catalog"}}`).want(http.StatusOK)
			w.post("/layers", `{"id":"prod","priority":1,"all":true}`).want(http.StatusCreated)
			w.put(demoCluster, `{"patches":{}}`).want(http.StatusOK)
			for _, s := range test.steps {
				w.do(s.method, s.path, s.body).want(http.StatusOK)
			}
			for _, input := range w.get(demoPolls + "/platform-components").json()["inputs"].([]any) {
				in := input.(map[string]any)
				if in["id"] != "podinfo" {
					continue
				}
				values, err := json.Marshal(in["values"])
				require.NoError(t, err)
				require.JSONEq(t, test.values, string(values))
				text, _ := in["values_json"].(string)
				require.Equal(t, test.text, text)
			}
		})
	}
}

// A variable of a kustomize component is text.
func TestNoNullVariables(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(demoCluster, `{"patches":{}}`).want(http.StatusOK)
	w.put("/platform_components/podinfo", `{"type":"kustomize","oci_url":"oci://registry.example.com/podinfo","patches":{}}`).want(http.StatusOK)
	for path, body := range map[string]string{
		demoCluster:                    `{"patches":{"podinfo":{"A":null}}}`,
		"/platform_components/podinfo": `{"patches":{"A":null}}`,
	} {
		refused := w.put(path, body).want(http.StatusBadRequest)
		require.Contains(t, string(refused.body), "a substitution must not be null")
	}
}
