package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const setHead = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: own}\nspec:\n  inputsFrom: [{name: namespaces}]\n"

// setOf is a ResourceSet that renders namespaces with a template.
func setOf(template string) string {
	return setHead + "  resourcesTemplate: |\n    " + strings.ReplaceAll(template, "\n", "\n    ") + "\n"
}

func (w *world) render(cluster, sets string, headers ...string) *answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"cluster": cluster, "resource_sets": sets})
	require.NoError(w.t, err)
	return w.post("/render", string(body), headers...)
}

// TestRender: the objects of a cluster by the shipped ResourceSets, the templates of resource types, and sets of the request.
func TestRender(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/resource_types", `{"id":"notes","schema":{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","default":"x"}}},"template":"{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>, namespace: default}, data: {v: << inputs.text | quote >>}}"}`)
	w.create("/resources/notes", `{"id":"one","spec":{"text":"1e3"}}`)
	w.do("PUT", "/clusters/demo-cluster-01/resources/notes/one", `{}`).want(200)
	var made map[string]any
	w.unchanged(func() {
		made = w.render("demo-cluster-01", "", "Authorization", "Bearer "+readToken).want(200).json()
	})
	names := []any{}
	for _, set := range made["resource_sets"].([]any) {
		names = append(names, at(set, "name"))
		require.Empty(t, at(set, "error"))
	}
	require.Equal(t, []any{"platform-components", "namespaces", "rolebindings", "notes"}, names)
	require.Equal(t, "1e3", at(made, "resource_sets", 3, "objects", 0, "data", "v"))
	require.Equal(t, "notes", at(made, "resource_sets", 3, "objects", 0, "metadata", "labels", "resourceset.fluxcd.controlplane.io/name"))
	dns := at(w.get("/clusters/demo-cluster-01").want(200).json(), "cluster_dns").(string)
	require.Equal(t, made, w.render(strings.ToUpper(dns), "").want(200).json())
	// An id may have dots, and be the DNS name of another cluster.
	w.create("/clusters", `{"id":"`+dns+`","cluster_name":"dotted","cluster_dns":"dotted.example.com","environment":"dev"}`)
	require.NotEqual(t, made, w.render(dns, "").want(200).json())
	require.Equal(t, made, w.render("demo-cluster-01", "").want(200).json())
	only := w.post("/render", `{"cluster":"demo-cluster-01","type":"notes"}`).want(200).json()
	require.Equal(t, []any{at(made, "resource_sets", 3)}, only["resource_sets"])

	own := w.render("demo-cluster-01", setOf("{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}}")+"---\n"+strings.ReplaceAll(setOf("<< inputs.missing >>"), "own", "bad")).want(200).json()
	require.NotEmpty(t, at(own, "resource_sets", 0, "objects"))
	require.Empty(t, at(own, "resource_sets", 1, "objects"))
	require.Contains(t, at(own, "resource_sets", 1, "error"), `ResourceSet "bad": input "`)

	w.render("nobody", "").problem(404, "not_found")
	w.render("no.body", "").problem(404, "not_found")
	for sets, want := range map[string]string{"a: b: c": "mapping", "kind: ConfigMap\napiVersion: v1\n": "there is no ResourceSet in it", setHead + "  inputStrategy: {name: Permute}\n": "Permute"} {
		require.Contains(t, string(w.render("demo-cluster-01", sets).problem(400, "validation_error").body), want)
	}
}

// TestRenderHostileTemplates: a template that does not end, or that makes its output or its aliases grow, fails, and many of them reach
// the limits of a request.
func TestRenderHostileTemplates(t *testing.T) {
	t.Parallel()
	w := setup(t)
	aliases := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		aliases += fmt.Sprintf("%c: &%c [*%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c, *%[3]c]\n", 'b'+i, 'b'+i, 'a'+i)
	}
	for name, c := range map[string]struct{ set, want string }{
		"endless":           {setOf("<< range 1000000000 >>x<< end >>"), "more work than is allowed"},
		"recursion":         {setOf(`<< define "x" >><< template "x" >><< end >><< template "x" >>`), "more work than is allowed"},
		"growing":           {setOf(`<< $x := "a" >><< range 60 >><< $x = print $x $x >><< end >>`), "more work than is allowed"},
		"aliases":           {setOf("apiVersion: v1\nkind: ConfigMap\n" + aliases), "with its aliases resolved"},
		"many with aliases": {setOf(strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\na: &a "+strings.Repeat("x", 1000)+"\nb: ["+strings.Repeat("*a, ", 3000)+"]\n", 3)), "with its aliases resolved"},
		"deep":              {setOf("apiVersion: v1\nkind: ConfigMap\na: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), "own"},
	} {
		got := w.render("demo-cluster-01", c.set).want(200).json()
		require.Contains(t, at(got, "resource_sets", 0, "error"), c.want, name)
		require.Empty(t, at(got, "resource_sets", 0, "objects"), name)
	}
	require.Contains(t, string(w.render("demo-cluster-01", setHead+"  commonMetadata: {annotations: {a: &a x}}\n"+aliases).problem(400, "validation_error").body), "with its aliases resolved")
	var inputs strings.Builder
	for i := range 100 {
		fmt.Fprintf(&inputs, "{id: x%d}, ", i)
	}
	many := strings.Replace(setOf("{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}, data: {v: << repeat 900000 \"x\" >>}}"), "inputsFrom: [{name: namespaces}]", "inputs: ["+inputs.String()+"]", 1)
	require.Contains(t, string(w.render("demo-cluster-01", many).problem(422, "limit_exceeded").body), "its objects are too large")
	w.post("/render", `{"cluster":"demo-cluster-01","resource_sets":"`+strings.Repeat("x", 1<<20+1)+`"}`).problem(400, "validation_error")
}

// TestRenderAsTeam: rendering needs the right to plan, and shows only what the principal may read.
func TestRenderAsTeam(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	w.render("web-01", "", as...).problem(403, "forbidden")
	w.create("/access", accessFor("planner", `["plan"]`, teamRead))
	got := w.render("web-01", "", as...).want(200)
	require.Contains(t, string(got.body), "platform-web-app")
	require.NotContains(t, noted(got), "zebra")
	for _, hidden := range []string{"zebra-01", "zebra-01.example.com"} {
		w.render(hidden, "", as...).problem(404, "not_found")
	}
	unread := setOf("x")
	require.Equal(t,
		strings.ReplaceAll(lasting(w.render("web-01", strings.Replace(unread, "namespaces", "quokkatypes", 1), as...)), "quokka", "zebra"),
		lasting(w.render("web-01", strings.Replace(unread, "namespaces", "zebratypes", 1), as...)))
	w.patch("/clusters/web-01", `{"pinned":null}`).want(200)
	op := `"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"3"}}}}]`
	plan := w.post("/plan", `{`+op+`,"rendered":{}}`, as...).want(200)
	require.NotContains(t, noted(plan), "zebra")
	require.Equal(t, "web-01", at(plan.json(), "rendered", "clusters", 0, "cluster"))
	require.NotEmpty(t, at(plan.json(), "rendered", "clusters", 0, "objects"))
}

// TestPlanRendered: the objects of the affected inputs before and after a change, of a number of clusters.
func TestPlanRendered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(5, "dev")
	w.create("/namespaces", `{"id":"extra","labels":{"a":"1"}}`)
	assign := `{"op":"assign_namespace","namespace_id":"extra","all":true}`
	planned := func(op, rendered string) map[string]any {
		t.Helper()
		plan := w.post("/plan", `{"operations":[`+op+`],"rendered":`+rendered+`}`).want(200).json()
		require.Equal(t, w.plan(op)["plan_hash"], plan["plan_hash"])
		return at(plan, "rendered").(map[string]any)
	}
	require.NotContains(t, w.plan(assign), "rendered")
	got := planned(assign, `{"clusters":2}`)
	require.Len(t, got["clusters"], 2)
	require.InDelta(t, 4, got["left"], 0)
	require.Equal(t, "create", at(got, "clusters", 0, "objects", 0, "action"))
	require.Equal(t, "extra", at(got, "clusters", 0, "objects", 0, "after", "metadata", "name"))
	require.Nil(t, at(got, "clusters", 0, "objects", 0, "before"))
	w.batch(assign).want(200)

	relabel := `{"op":"patch","kind":"namespace","id":"extra","patch":{"labels":{"a":"2"}}}`
	got = planned(relabel, `{}`)
	require.Len(t, got["clusters"], 6)
	change := at(got, "clusters", 0, "objects", 0)
	require.Equal(t, "update", at(change, "action"))
	require.Equal(t, "1", at(change, "before", "metadata", "labels", "a"))
	require.Equal(t, "2", at(change, "after", "metadata", "labels", "a"))
	require.Equal(t, at(change, "before", "metadata", "annotations"), at(change, "after", "metadata", "annotations"), "the receipt")
	got = planned(`{"op":"delete","kind":"namespace","id":"extra","cascade":true}`, `{}`)
	require.Equal(t, "delete", at(got, "clusters", 0, "objects", 0, "action"))

	set, err := json.Marshal(setOf("<< inputs.missing >>"))
	require.NoError(t, err)
	got = planned(relabel, `{"resource_sets":`+string(set)+`,"clusters":1}`)
	require.Contains(t, at(got, "clusters", 0, "error"), `input "extra"`)
	require.Empty(t, at(got, "clusters", 0, "objects"))
	set, err = json.Marshal(strings.Replace(setOf("x"), "namespaces", "rolebindings", 1))
	require.NoError(t, err)
	require.Equal(t, []any{"namespaces"}, planned(relabel, `{"resource_sets":`+string(set)+`}`)["unread"])
	w.post("/plan", `{"operations":[`+relabel+`],"rendered":{"resource_sets":"kind: X"}}`).problem(400, "validation_error")

	// A new type renders with its own template, a deleted one with that of before.
	create := `{"op":"create","kind":"resource_type","document":{"id":"notes","schema":{"type":"object","additionalProperties":false,"properties":{}},"template":"{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>, namespace: default}}"}},` +
		`{"op":"create","kind":"resource","type":"notes","document":{"id":"one","spec":{}}},{"op":"assign_resource","type":"notes","resource_id":"one","cluster_ids":["demo-cluster-01"]}`
	got = planned(create, `{}`)
	require.Equal(t, "create", at(got, "clusters", 0, "objects", 0, "action"))
	require.Equal(t, "one", at(got, "clusters", 0, "objects", 0, "name"))
	require.Empty(t, got["unread"])
	w.batch(create).want(200)
	got = planned(`{"op":"unassign_resource","type":"notes","resource_id":"one","all":true},{"op":"delete","kind":"resource","type":"notes","id":"one"},{"op":"delete","kind":"resource_type","id":"notes"}`, `{}`)
	require.Equal(t, "delete", at(got, "clusters", 0, "objects", 0, "action"))
}
