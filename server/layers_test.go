package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const euLayer = `{"id":"eu","priority":100,"selector":"region=eu","namespaces":[{"id":"team-sandbox"}],"overrides":{"podinfo":{"component_version":"6.9.9"}},"patches":{"podinfo":{"ui.message":"from the layer","replicaCount":null}}}`

func TestLayerRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/namespaces", `{"id":"more"}`)
	w.create("/namespaces", `{"id":"team-sandbox"}`)
	require.Empty(t, w.get("/layers").want(200).list())
	w.unchanged(func() { w.do("POST", "/layers?dry_run=true", euLayer).want(200) })
	made := w.do("POST", "/layers", euLayer).want(201)
	require.Equal(t, "/layers/eu", made.header.Get("Location"))
	require.Nil(t, at(made.json(), "patches", "podinfo", "replicaCount"))
	require.Contains(t, string(made.body), `"replicaCount":null`)
	require.Contains(t, made.header.Get("Warning"), `matches no cluster`)
	w.do("POST", "/layers", euLayer).problem(409, "conflict")
	require.Contains(t, string(w.do("POST", "/layers", `{"id":"other","priority":100,"all":true}`).problem(409, "conflict").body), `layer \"eu\" has it`)
	require.Equal(t, []string{"/selector"}, w.do("POST", "/layers", `{"id":"other","priority":1,"selector":""}`).problem(400, "validation_error").pointers())
	require.Contains(t, string(w.do("POST", "/layers", `{"id":"other","priority":1000001,"all":true}`).problem(400, "validation_error").body), "number must be at most 1000000")
	require.Equal(t, []string{"/priority"}, w.do("POST", "/layers", `{"id":"other","priority":"1","all":true}`).problem(400, "validation_error").pointers())
	for _, body := range []string{`{"priority":null}`, `{"priority":null,"all":null}`} {
		require.Equal(t, []string{"/priority"}, w.patch("/layers/eu", body).problem(400, "validation_error").pointers())
	}
	unranked := w.batch(`{"op":"patch","kind":"layer","id":"eu","patch":{"priority":null}}`, `{"op":"create","kind":"layer","document":{"id":"new","all":true}}`)
	require.Equal(t, []string{"/operations/1/document/priority"}, unranked.problem(400, "validation_error").pointers())
	got := w.get("/layers/eu").want(200)
	require.Equal(t, made.etag(), got.etag())
	w.get("/layers/eu", "If-None-Match", got.etag()).want(304)
	w.put("/layers/eu", `{"description":"x"}`, "If-Match", `"1-00000000"`).problem(412, "stale")
	w.put("/layers/eu", `{"description":"one"}`, "If-Match", got.etag()).want(200)
	w.patch("/layers/eu", `{"description":"two","namespaces":[{"id":"team-sandbox"},{"id":"more"}]}`).want(200)
	require.Equal(t, "one", w.get(fmt.Sprintf("/layers/eu?revision=%d", w.revision()-1)).want(200).json()["description"])
	require.Len(t, w.get("/layers/eu/history").want(200).list(), 3)
	require.Len(t, w.get("/revisions?kind=layer").want(200).list(), 3)
	require.Contains(t, string(w.do("DELETE", "/namespaces/more", "").problem(409, "in_use").body), "1 layer: eu")
	w.do("DELETE", "/namespaces/more?cascade=true", "").want(200)
	require.Len(t, w.get("/layers/eu").json()["namespaces"], 1)
	w.delete("/layers/eu").want(200)
	w.get("/layers/eu").problem(404, "not_found")
	w.do("POST", fmt.Sprintf("/revisions/%d/restore", w.revision()-1), `{"kind":"layer","id":"eu"}`).want(200)
	w.get("/layers/eu").want(200)

	// A layer does not set dependencies of a component.
	for says, pointer := range map[string]string{
		`"platform_components":[{"id":"podinfo","depends_on":["traefik"]}]`: "/platform_components/0/depends_on",
		`"overrides":{"podinfo":{"depends_on":["traefik"]}}`:                "/overrides/podinfo/depends_on",
	} {
		w.unchanged(func() {
			require.Equal(t, []string{pointer}, w.do("POST", "/layers", `{"id":"x","priority":7,"all":true,`+says+`}`).problem(400, "validation_error").pointers())
		})
	}
}

// TestListEffective: documents, and clusters with the entries of their layers, are filtered and paged alike.
func TestListEffective(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/namespaces", `{"id":"team-sandbox"}`)
	w.clusters(3, "qa")
	w.create("/layers", `{"id":"qa","priority":100,"selector":"environment=qa","namespaces":[{"id":"team-sandbox"}]}`)
	for _, own := range w.get("/clusters?environment=qa").want(200).list() {
		require.Equal(t, []any{map[string]any{"id": "podinfo"}}, own["namespaces"])
		require.NotContains(t, own, "layers")
	}
	has := w.get("/clusters?environment=qa&view=effective&limit=2").want(200)
	require.Equal(t, "3", has.header.Get("X-Total-Count"))
	require.Contains(t, has.header.Get("Link"), "view=effective")
	require.Len(t, has.list(), 2)
	for _, c := range has.list() {
		require.Equal(t, []any{map[string]any{"id": "team-sandbox"}, map[string]any{"id": "podinfo"}}, c["namespaces"])
		require.Equal(t, []any{"qa"}, c["layers"])
		require.Equal(t, w.get(fmt.Sprintf("/clusters/%s?view=effective", c["id"])).want(200).json(), c)
	}
	w.get("/clusters?view=all").problem(400, "validation_error")
}

// TestPollsWithLayers: entries of a layer are served, planned and removed again; values can be set on them.
func TestPollsWithLayers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/namespaces", `{"id":"from-layer"}`)
	w.create("/layers", `{"id":"eu","priority":100,"selector":"region=eu","namespaces":[{"id":"from-layer"}],"overrides":{"podinfo":{"component_version":"6.9.9"}}}`)
	w.create("/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"region":"eu"}}`)
	poll := func(list string) []any {
		return w.poll("/api/v2/flux/clusters/new.example.com/" + list).want(200).json()["inputs"].([]any)
	}
	require.Len(t, poll("namespaces"), 1)
	require.Empty(t, w.get("/clusters/new").json()["namespaces"], "the document is what was written")
	etag := w.poll("/api/v2/flux/clusters/new.example.com/namespaces").etag()
	require.Empty(t, poll("platform-components"))
	plan := w.plan(`{"op":"patch","kind":"layer","id":"eu","patch":{"platform_components":[{"id":"podinfo","enabled":true}]}}`)
	require.EqualValues(t, 1, at(plan, "totals", "clusters"))
	w.patch("/layers/eu", `{"platform_components":[{"id":"podinfo"}]}`).want(200)
	require.Equal(t, etag, w.poll("/api/v2/flux/clusters/new.example.com/namespaces").etag())
	require.Equal(t, "6.9.9", at(poll("platform-components")[0], "component_version"))
	require.Empty(t, w.get("/clusters/new/patches/podinfo").want(200).json()["values"])
	w.do(http.MethodPatch, "/clusters/new/patches/podinfo", `{"replicaCount":5}`, "Content-Type", "application/merge-patch+json").want(200)
	require.EqualValues(t, 5, at(poll("platform-components")[0], "values", "replicaCount"))
	w.put("/clusters/new", `{"excludes":{"namespaces":["from-layer"]}}`).want(200)
	require.Empty(t, poll("namespaces"))
	require.Equal(t, []string{"/excludes/platform_components"}, w.do("PUT", "/clusters/new", `{"excludes":{"platform_components":["podinfo"]}}`).problem(400, "validation_error").pointers())
	warned := w.delete("/clusters/new/namespaces/from-layer").want(200).header.Get("Warning")
	require.Empty(t, warned, "it is not there")
	require.Contains(t, w.delete("/clusters/new/platform_components/podinfo").want(200).header.Get("Warning"), `stays where it comes from layer`)
	require.Len(t, poll("platform-components"), 1)
}

func TestLayerEntriesAndViews(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/layers", `{"id":"eu","priority":100,"selector":"region=eu"}`)
	w.create("/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"region":"eu"}}`)
	made := w.do("PUT", "/layers/eu/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	require.NotContains(t, string(made.body), "enabled", "the layer does not say it")
	w.do("PUT", "/layers/eu/platform_components/podinfo", `{"oci_tag":"x"}`, "If-Match", `"1-00000000"`).problem(412, "stale")
	w.unchanged(func() { w.do("PUT", "/layers/eu/namespaces/podinfo?dry_run=true", "").want(200) })
	w.do("PUT", "/layers/eu/namespaces/podinfo", "").want(200)
	w.do("PUT", "/layers/eu/rolebindings/dev-readers", "").want(200)
	w.do("PUT", "/layers/eu/rolebindings/nobody", "").problem(404, "not_found")
	w.do("PUT", "/layers/nobody/rolebindings/dev-readers", "").problem(404, "not_found")
	w.do("PUT", "/layers/eu/resources/nothing/x", "").problem(404, "not_found")
	require.Equal(t, []string{"/id"}, w.do("PUT", "/layers/eu/platform_components/podinfo", `{"id":"x"}`).problem(400, "validation_error").pointers())

	view := w.get("/clusters/new?view=effective").want(200)
	require.NotEqual(t, w.get("/clusters/new").etag(), view.etag())
	w.get("/clusters/new?view=effective", "If-None-Match", view.etag()).want(304)
	w.patch("/clusters/new", `{"labels":{"region":"eu"}}`, "If-Match", view.etag()).problem(412, "stale")
	require.Equal(t, []any{"eu"}, view.json()["layers"])
	require.Equal(t, "6.9.9", at(view.json(), "platform_components", 0, "component_version"))
	require.Empty(t, w.get("/clusters/new").json()["platform_components"])
	require.NotContains(t, string(w.get("/clusters/new").body), `"layers"`)
	require.Equal(t, []any{"new"}, w.get("/layers/eu?view=clusters").want(200).json()["clusters"])
	for _, layer := range w.get("/layers?view=counts").want(200).list() {
		require.EqualValues(t, len(w.get("/layers/" + at(layer, "id").(string) + "?view=clusters").json()["clusters"].([]any)), at(layer, "cluster_count"))
	}
	require.NotContains(t, string(w.get("/layers").body), "cluster_count")
	require.NotContains(t, string(w.get("/layers/eu").body), `"clusters"`)
	w.get("/clusters/new?view=all").problem(400, "validation_error")
	w.get("/clusters/new?view=effective&revision=1").problem(400, "validation_error")
	w.get("/clusters/nobody?view=effective").problem(404, "not_found")

	w.do("DELETE", "/layers/eu/namespaces/podinfo", "").want(200)
	require.Empty(t, w.get("/layers/eu").json()["namespaces"])
	w.do("DELETE", "/layers/eu/namespaces/podinfo", "").want(200)
	plan := w.plan(`{"op":"unassign_component","layers":["eu"],"component_id":"podinfo"}`)
	require.EqualValues(t, 1, at(plan, "totals", "removals"))
	w.batch(`{"op":"unassign_component","layers":["eu"],"component_id":"podinfo"}`).want(200)
	require.Empty(t, w.get("/layers/eu").json()["platform_components"])
}

func TestExplainRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/layers", `{"id":"all","priority":100,"all":true,"patches":{"podinfo":{"replicaCount":7}}}`)
	w.do(http.MethodPatch, "/clusters/demo-cluster-01/patches/podinfo", `{"replicaCount":9}`, "Content-Type", "application/merge-patch+json").want(200)
	got := w.get("/clusters/demo-cluster-01/explain/platform-components/podinfo?pointer=/values/replicaCount").want(200).json()
	require.Equal(t, []any{"all"}, got["layers"])
	value := at(got, "inputs", 0, "values", 0)
	require.EqualValues(t, 9, at(value, "value"))
	require.Equal(t, "cluster", at(value, "set_by", "kind"))
	require.NotEmpty(t, at(value, "set_by", "actor"))
	require.EqualValues(t, w.revision(), at(value, "set_by", "revision"))
	require.Equal(t, "all", at(value, "instead_of", 0, "id"))
	require.EqualValues(t, 7, at(value, "instead_of", 0, "value"))
	require.NotEmpty(t, at(w.get("/clusters/demo-cluster-01/explain").want(200).json(), "inputs", 5))
	w.create("/layers", `{"id":"bare","priority":101,"selector":"id!=demo-cluster-01","patches":{"podinfo":{"replicaCount":null}}}`)
	w.create("/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`)
	gone := w.get("/clusters/new/explain/platform-components/podinfo?pointer=/values/replicaCount").want(200)
	require.Contains(t, string(gone.body), `"value":null`)
	require.Equal(t, "bare", at(gone.json(), "inputs", 0, "values", 0, "set_by", "id"))
	require.Equal(t, "all", at(gone.json(), "inputs", 0, "values", 0, "instead_of", 0, "id"))
	w.get("/clusters/nobody/explain").problem(404, "not_found")
	w.get("/clusters/demo-cluster-01/explain/nothing/podinfo").problem(404, "not_found")
	w.get("/clusters/demo-cluster-01/explain/namespaces/nobody").problem(404, "not_found")
	require.Empty(t, w.get("/clusters/demo-cluster-01/explain?pointer=/nowhere").want(200).json()["inputs"])
}
