package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each name, value, label, reason and author of the other team contains zebra. Documents that both teams use do not.
const teamRead = `{"selector":"team=web","kinds":["cluster","layer"]}`

// twoTeams has documents of the teams web and zebra, and documents that both use.
func twoTeams(t *testing.T) *world {
	t.Helper()
	w := setupWith(t, options{empty: true})
	add := func(path, body string) {
		t.Helper()
		headers := []string{"X-Change-Reason", "web reason", "X-Change-Author", "ann"}
		if strings.Contains(body, "zebra") {
			headers = []string{"X-Change-Reason", "zebra reason", "X-Change-Author", "zebra-author"}
		}
		w.do(http.MethodPost, path, body, headers...).want(201)
	}
	for _, c := range [][2]string{
		{"/resource_types", `{"id":"quotas","schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1}}}}`},
		{"/resource_types", `{"id":"zebratypes","schema":{"type":"object","additionalProperties":false,"properties":{"zebra":{"type":"string","default":"zebra"}}}}`},
		{"/resources/quotas", `{"id":"small","spec":{"cpu":2}}`},
		{"/resources/quotas", `{"id":"zebra-quota","spec":{"cpu":3}}`},
		{"/resources/zebratypes", `{"id":"zebra-resource","spec":{"zebra":"zebra-value"}}`},
		{"/platform_components", `{"id":"base","component_path":"base","oci_url":"oci://registry.example.com/base","component_version":"1.0.0"}`},
		{"/platform_components", `{"id":"web-app","component_path":"web","oci_url":"oci://registry.example.com/web","component_version":"1.0.0","depends_on":["base"]}`},
		{"/platform_components", `{"id":"zebra-app","component_path":"zebra","oci_url":"oci://registry.example.com/zebra","component_version":"1.0.0-zebra","depends_on":["base"]}`},
		{"/namespaces", `{"id":"web-ns"}`},
		{"/namespaces", `{"id":"zebra-ns","annotations":{"zebra":"zebra"}}`},
		{"/rolebindings", `{"id":"web-rb","role":"view","subjects":[{"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"}]}`},
		{"/rolebindings", `{"id":"zebra-rb","role":"zebra-role","subjects":[{"kind":"Group","name":"zebra","apiGroup":"rbac.authorization.k8s.io"}]}`},
		{"/layers", `{"id":"all","priority":1,"all":true,"platform_components":[{"id":"base","enabled":true}]}`},
		{"/layers", `{"id":"web","priority":10,"selector":"team=web","namespaces":[{"id":"web-ns"}],"rolebindings":[{"id":"web-rb"}],"resources":{"quotas":[{"id":"small"}]}}`},
		{"/layers", `{"id":"zebra-layer","priority":20,"selector":"team=zebra","platform_components":[{"id":"zebra-app"}],"namespaces":[{"id":"zebra-ns"}],"rolebindings":[{"id":"zebra-rb"}],"resources":{"quotas":[{"id":"zebra-quota"}],"zebratypes":[{"id":"zebra-resource"}]}}`},
		{"/clusters", `{"id":"web-01","cluster_name":"web-01","cluster_dns":"web-01.example.com","environment":"dev","labels":{"team":"web"},"platform_components":[{"id":"web-app","enabled":true}],"patches":{"web-app":{"replicas":"2"}}}`},
		{"/clusters", `{"id":"zebra-01","cluster_name":"zebra-name","cluster_dns":"zebra-01.example.com","environment":"qa","labels":{"team":"zebra","zebra-label":"zebra-value"},"patches":{"zebra-app":{"zebra":"zebra"}}}`},
		{"/clusters", `{"id":"zebra-old","cluster_name":"zebra-old","cluster_dns":"zebra-old.example.com","environment":"qa","labels":{"team":"zebra"}}`},
		{"/strategies", `{"id":"zebra-strategy","stages":[{"name":"zebra-wave","selector":"team=zebra"}]}`},
		{"/freezes", `{"id":"web-freeze","reason":"launch","selector":"team=web","from":"2030-01-01T00:00:00Z"}`},
		{"/freezes", `{"id":"zebra-freeze","reason":"zebra-reason","selector":"team=zebra","from":"2030-01-01T00:00:00Z"}`},
		{"/rollouts", `{"id":"web-rollout","operations":[{"op":"patch","kind":"platform_component","id":"web-app","patch":{"component_version":"2.0.0"}}],"stages":[{"name":"first","cluster_ids":["web-01"]}]}`},
		{"/rollouts", `{"id":"shared","description":"zebra first","operations":[{"op":"patch","kind":"platform_component","id":"base","patch":{"component_version":"2.0.0"}}],"stages":[{"name":"one","cluster_ids":["zebra-01"]},{"name":"two","selector":"team=zebra"}]}`},
		{"/rollouts", `{"id":"zebra-rollout","operations":[{"op":"patch","kind":"platform_component","id":"zebra-app","patch":{"component_version":"2.0.0"}}],"stages":[{"name":"zebra-stage","selector":"team=zebra"}]}`},
		{"/rollouts", `{"id":"zebra-both","operations":[{"op":"patch","kind":"platform_component","id":"base","patch":{"component_path":"base2"}},{"op":"patch","kind":"layer","id":"zebra-layer","patch":{"description":"zebra"}}]}`},
		{"/tokens", `{"name":"zebra-token","role":"scoped"}`},
		{"/access", `{"id":"zebra-access","subjects":[{"token":"zebra-token"}],"may":["read","write"],"on":{"selector":"team=zebra"}}`},
	} {
		add(c[0], c[1])
	}
	w.do(http.MethodDelete, "/clusters/zebra-old", "", "X-Change-Reason", "zebra").want(200)
	w.post("/rollouts/web-rollout/start", "").want(200)
	w.post("/rollouts/zebra-both/start", "").want(200)
	w.pin("zebra-01", `{"reason":"zebra-reason"}`)
	w.pin("web-01", `{"reason":"outage"}`)
	return w
}

// visibleIDs and hiddenIDs fill the parameters of a path with documents of the team and of the other one.
var (
	visibleIDs = map[string]string{"clusters": "web-01", "platform_components": "web-app", "namespaces": "web-ns", "rolebindings": "web-rb", "resource_types": "quotas", "layers": "web", "rollouts": "web-rollout", "strategies": "none", "policies": "none", "freezes": "web-freeze", "resources": "small", "{type}": "quotas", "{resource_id}": "small", "{component_id}": "web-app", "{namespace_id}": "web-ns", "{rolebinding_id}": "web-rb", "{list}": "platform-components", "{input_id}": "web-app"}
	hiddenIDs  = map[string]string{"clusters": "zebra-01", "platform_components": "zebra-app", "namespaces": "zebra-ns", "rolebindings": "zebra-rb", "resource_types": "zebratypes", "layers": "zebra-layer", "rollouts": "zebra-rollout", "strategies": "zebra-strategy", "policies": "zebra-policy", "freezes": "zebra-freeze", "resources": "zebra-resource", "{type}": "zebratypes", "{resource_id}": "zebra-resource", "{component_id}": "zebra-app", "{namespace_id}": "zebra-ns", "{rolebinding_id}": "zebra-rb", "{list}": "platform-components", "{input_id}": "zebra-app"}
)

func fillWith(path string, ids map[string]string) string {
	path = strings.NewReplacer("{id}", ids[strings.Split(path, "/")[1]], "{revision}", "3").Replace(path)
	for name, id := range ids {
		if strings.HasPrefix(name, "{") {
			path = strings.ReplaceAll(path, name, id)
		}
	}
	return path
}

// specReads returns the paths of all reads of the contract that the right to read permits.
func specReads(t *testing.T) (paths []string) {
	t.Helper()
	for path, methods := range specPaths(t) {
		if slices.Contains(methods, http.MethodGet) && slices.Equal(rightsFor(http.MethodGet, path), []string{"read"}) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// queries are parameters that reads accept; the contract refuses the others.
var queries = []string{"", "?view=effective", "?view=clusters", "?view=counts", "?view=served", "?deleted=true", "?component=base", "?component=zebra-app", "?changed_in=15", "?changed_in=17", "?revision=15", "?revision=18", "?limit=1", "?limit=1&offset=1", "?selector=team=zebra", "?cluster_dns=zebra-01.example.com", "?environment=qa", "?kind=cluster&id=zebra-01", "?kind=token", "?actor=static-write", "?pointer=/component_version", "?q=zebra", "?q=e", "?q=1"}

// noted returns everything that a caller learns from an answer.
func noted(a *answer) string {
	var text strings.Builder
	_ = a.header.Write(&text)
	return text.String() + string(a.body)
}

// TestTeamSeesOnlyItsDocuments calls every read of the contract with limits on the right to read, for documents of the team and of
// another one. No answer, header, error or log line has data of the other team, and requests for its documents have the answers of
// requests for documents that do not exist.
func TestTeamSeesOnlyItsDocuments(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	w.create("/policies", `{"id":"zebra-policy","description":"zebra only","rule":"change.reason != 'zebra'","action":"warn","match":{"selector":"team=zebra"}}`)
	as := bearer(w.issue(scopedBody).secret)
	reads := specReads(t)
	require.Greater(t, len(reads), 35)
	for _, path := range reads {
		w.get(fillWith(path, visibleIDs), as...).problem(403, "forbidden")
		w.get(fillWith(path, hiddenIDs), as...).problem(403, "forbidden")
	}
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	logged, found, answers := len(w.logs.String()), map[string]int{}, 0
	// same: the answers to a request for something of the other team and for something that does not exist are the same.
	same := func(method, path string) {
		t.Helper()
		a, b := w.do(method, path, "", as...), w.do(method, strings.ReplaceAll(path, "zebra", "quokka"), "", as...)
		answers += 2
		require.Equal(t, lasting(b), strings.ReplaceAll(lasting(a), "zebra", "quokka"), "%s %s", method, path)
	}
	for _, path := range reads {
		for _, query := range queries {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				visible, hidden := fillWith(path, visibleIDs)+query, fillWith(path, hiddenIDs)+query
				if strings.Contains(hidden, "zebra") {
					same(method, hidden)
				}
				if strings.Contains(visible, "zebra") {
					same(method, visible)
					continue
				}
				got := w.do(method, visible, "", as...)
				if answers++; got.status == 200 && method == http.MethodGet {
					found[path]++
				}
				require.NotContains(t, noted(got), "zebra", "%s %s", method, visible)
			}
		}
	}
	for _, path := range reads {
		if path != "/strategies/{id}" && path != "/policies/{id}" && path != "/status/history" { // the latter counts all clusters
			require.Positive(t, found[path], path)
		}
	}
	for line := range strings.Lines(w.logs.String()[logged:]) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		delete(fields, "path") // as requested
		require.NotContains(t, fmt.Sprint(fields), "zebra")
	}
	t.Logf("%d answers to %d operations, %v", answers, len(reads), slices.Sorted(maps.Keys(found)))
}

// lasting is an answer without what differs between any two requests.
func lasting(a *answer) string {
	header := a.header.Clone()
	for _, name := range []string{"Date", "X-Request-Id", "Content-Length", "X-Fleet-Age"} {
		header.Del(name)
	}
	var text strings.Builder
	_ = header.Write(&text)
	return fmt.Sprintln(a.status, text.String(), string(a.body))
}

// TestTeamSeesItsDocuments: what the team may read is correct.
func TestTeamSeesItsDocuments(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	for path, want := range map[string][]string{
		"/clusters": {"web-01"}, "/layers": {"all", "web"}, "/platform_components": {"base", "web-app"}, "/namespaces": {"web-ns"},
		"/rolebindings": {"web-rb"}, "/resource_types": {"quotas"}, "/resources/quotas": {"small"}, "/strategies": {}, "/policies": {},
		"/freezes": {"web-freeze"}, "/rollouts": {"shared", "web-rollout"},
	} {
		got := w.get(path, as...).want(200)
		require.Equal(t, want, got.ids(), path)
		require.Equal(t, fmt.Sprint(len(want)), got.header.Get("X-Total-Count"), path)
	}
	for _, path := range []string{"/clusters/web-01", "/clusters/web-01?view=effective", "/layers/web", "/platform_components/base", "/clusters/web-01/patches/web-app"} {
		require.Equal(t, string(w.get(path).want(200).body), string(w.get(path, as...).want(200).body), path)
	}
	require.Equal(t, w.get("/clusters/web-01/status").want(200).json()["inputs"], w.get("/clusters/web-01/status", as...).want(200).json()["inputs"])
	require.Equal(t, []any{"web-01"}, w.get("/layers/all?view=clusters", as...).want(200).json()["clusters"])
	require.EqualValues(t, 1, at(w.get("/layers?view=counts", as...).want(200).list()[0], "cluster_count"))
	require.InDelta(t, 1, at(w.get("/platform_components/base/usage", as...).want(200).json(), "clusters"), 0)
	require.InDelta(t, 1, at(w.get("/status", as...).want(200).json(), "total"), 0)
	require.InDelta(t, 1, at(w.get("/freezes/web-freeze", as...).want(200).json(), "clusters"), 0)
	shared := w.get("/rollouts/shared", as...).want(200).json()
	require.Empty(t, shared["description"])
	require.Equal(t, "one", at(shared, "stages", 0, "name"))
	require.Nil(t, at(shared, "stages", 0, "cluster_ids", 0))

	// A cluster that leaves the team disappears at once.
	w.patch("/clusters/web-01", `{"labels":{"team":"zebra"}}`).want(200)
	w.get("/clusters/web-01", as...).problem(404, "not_found")
	require.Empty(t, w.get("/clusters", as...).want(200).ids())

	// Access documents add up.
	w.create("/access", accessFor("more", `["read"]`, `{"components":["zebra-*"]}`))
	require.Equal(t, []string{"base", "zebra-app"}, w.get("/platform_components", as...).want(200).ids())
	w.create("/access", accessFor("everything", `["read"]`, ""))
	require.Equal(t, w.get("/clusters").ids(), w.get("/clusters", as...).want(200).ids())
}

// TestTeamHistory: of other changes the history has only their kinds and numbers, and nothing that describes the whole revision.
func TestTeamHistory(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	meta := []string{"X-Change-Reason", "zebra reason", "X-Change-Author", "zebra-author", "X-Request-Id", "zebra-request"}
	patch := func(id string) string {
		return `{"op":"patch","kind":"cluster","id":"` + id + `","patch":{"labels":{"note":"` + strings.Split(id, "-")[0] + `-value"}}}`
	}
	w.do("POST", "/batch", `{"operations":[`+patch("web-01")+`,`+patch("zebra-01")+`]}`, meta...).want(200)
	mixed := w.revision()
	w.do("PATCH", "/clusters/zebra-01", `{"labels":{"note":"zebra"}}`, append([]string{"Content-Type", mergePatchType}, meta...)...).want(200)
	hidden := w.revision()
	w.do("PATCH", "/clusters/web-01", `{"labels":{"note":"mine"}}`, "Content-Type", mergePatchType, "X-Change-Reason", "web reason", "X-Change-Author", "ann").want(200)
	own := w.revision()

	list := w.get("/revisions?limit=3", as...).want(200)
	require.NotContains(t, noted(list), "zebra")
	revisions := list.list()
	require.Equal(t, []any{"web reason", "ann", "static-write", nil}, []any{revisions[0]["reason"], revisions[0]["author"], revisions[0]["actor"], revisions[0]["hidden"]})
	one := []any{map[string]any{"kind": "cluster", "count": 1.0}}
	require.Equal(t, []any{"", "", "1 document that you may not read", one, 0.0}, []any{revisions[1]["reason"], revisions[1]["actor"], revisions[1]["summary"], revisions[1]["hidden"], revisions[1]["change_count"]})
	require.Equal(t, []any{"", "", "changed cluster/web-01; 1 document that you may not read", one, 1.0}, []any{revisions[2]["reason"], revisions[2]["actor"], revisions[2]["summary"], revisions[2]["hidden"], revisions[2]["change_count"]})

	detail := w.get(fmt.Sprint("/revisions/", mixed), as...).want(200)
	require.NotContains(t, noted(detail), "zebra")
	require.Equal(t, "1", detail.header.Get("X-Total-Count"))
	require.Equal(t, "web-value", at(detail.json(), "changes", 0, "after", "labels", "note"))
	require.Empty(t, at(w.get(fmt.Sprint("/revisions/", hidden), as...).want(200).json(), "changes"))
	require.Equal(t, string(w.get(fmt.Sprint("/revisions/", own)).body), string(w.get(fmt.Sprint("/revisions/", own), as...).want(200).body))

	// Watches need the right to read everything.
	w.get("/revisions?after=1&wait=0s", as...).problem(403, "forbidden")
	w.get("/revisions", append([]string{"Accept", "text/event-stream"}, as...)...).want(403)

	// All pages together have each revision once.
	seen := 0
	for next := "/revisions?limit=7"; next != ""; {
		page := w.get(next, as...).want(200)
		require.NotContains(t, noted(page), "zebra")
		seen += len(page.list())
		_, link, _ := strings.Cut(page.header.Get("Link"), "<")
		next, _, _ = strings.Cut(link, ">")
	}
	require.Equal(t, w.revision(), seen)

	for path, want := range map[string]int{
		"/clusters/web-01/history": 4, "/clusters/web-01/history?view=effective": 4, "/revisions?kind=cluster": 4, "/clusters/zebra-01/history": 0,
		"/clusters/zebra-old/history": 0, "/revisions?kind=token": 0, "/revisions?actor=zebra-actor": 0, "/revisions?kind=access&id=zebra-access": 0,
		"/layers/zebra-layer/history": 0, "/platform_components/zebra-app/history?limit=1": 0,
	} {
		got := w.get(path, as...).want(200)
		require.Len(t, got.list(), want, path)
		if want == 0 && strings.Contains(path, "history") {
			require.Empty(t, got.header.Get("Link"), path)
		}
	}
	require.Equal(t, "web-value", at(w.get(fmt.Sprint("/clusters/web-01?revision=", mixed), as...).want(200).json(), "labels", "note"))
	w.get(fmt.Sprint("/clusters/web-01/explain?revision=", mixed), as...).problem(403, "forbidden")

	// A cluster that joins the team has no history from before, and one that leaves it has none at all.
	w.patch("/clusters/zebra-01", `{"labels":{"team":"web","zebra-label":null,"note":"web"},"cluster_name":"web-02","patches":null}`).want(200)
	joined := w.revision()
	require.Empty(t, w.get("/clusters/zebra-01/history", as...).want(200).list())
	w.get(fmt.Sprint("/clusters/zebra-01?revision=", joined), as...).want(200)
	w.get(fmt.Sprint("/clusters/zebra-01?revision=", hidden), as...).problem(404, "not_found")
	require.NotContains(t, string(w.get(fmt.Sprint("/revisions/", joined), as...).want(200).body), "zebra-value")
	w.patch("/clusters/web-01", `{"labels":{"team":"data"}}`).want(200)
	require.Empty(t, w.get("/clusters/web-01/history", as...).want(200).list())
	w.get(fmt.Sprint("/clusters/web-01?revision=", mixed), as...).problem(404, "not_found")
	require.Empty(t, at(w.get(fmt.Sprint("/revisions/", own), as...).want(200).json(), "changes"))

	// The team still sees a layer that it deleted.
	w.delete("/layers/web").want(200)
	require.NotEmpty(t, w.get("/layers/web/history", as...).want(200).list())
}

// TestTeamHistoryNamesNoOtherClusters: an operation without an effect on the clusters of the other team leaves no change of them, but
// the operations of the revision name them.
func TestTeamHistoryNamesNoOtherClusters(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	w.pin("web-01", "null")
	web := func(value string) string {
		return `{"op":"patch","kind":"cluster","id":"web-01","patch":{"labels":{"note":"` + value + `"}}}`
	}
	for name, operations := range map[string]string{
		"a document":        web("a") + `,{"op":"patch","kind":"cluster","id":"zebra-01","patch":{"labels":{"team":"zebra"}}}`,
		"named clusters":    `{"op":"assign_namespace","cluster_ids":["web-01","zebra-01"],"namespace_id":"web-ns"},{"op":"unassign_namespace","cluster_ids":["zebra-01"],"namespace_id":"web-ns"}`,
		"a selector":        `{"op":"set_component","selector":"team in (web,zebra)","component_id":"web-app","component_version":"3.0.0"}`,
		"a number":          web("b") + `,{"op":"patch","kind":"layer","id":"zebra-layer","patch":{"priority":20}}`,
		"all":               `{"op":"set_component","all":true,"component_id":"web-app","component_version":"4.0.0"},{"op":"set_labels","selector":"zebra-label=zebra-value","labels":{"team":"zebra"}}`,
		"an invisible type": web("c") + `,{"op":"assign_resource","cluster_ids":["web-01"],"type":"zebratypes","resource_id":"zebra-resource"},{"op":"unassign_resource","cluster_ids":["web-01"],"type":"zebratypes","resource_id":"zebra-resource"}`,
	} {
		w.do("POST", "/batch", `{"operations":[`+operations+`]}`, "X-Change-Reason", "web reason").want(200)
		for _, path := range []string{fmt.Sprint("/revisions/", w.revision()), "/revisions?limit=1", "/clusters/web-01/history?limit=1"} {
			got := w.get(path, as...).want(200)
			require.NotContains(t, noted(got), "zebra", "%s: %s", name, path)
			require.Contains(t, string(got.body), `"reason":"web reason"`, "%s: %s", name, path)
			require.Contains(t, string(got.body), `"summary":"changed cluster/web-01"`, "%s: %s", name, path)
		}
	}
	w.do("POST", "/batch", `{"operations":[{"op":"set_component","selector":"team=web,environment=dev","component_id":"web-app","component_version":"5.0.0"},`+web("d")+`]}`).want(200)
	own := fmt.Sprint("/revisions/", w.revision())
	require.Equal(t, string(w.get(own).want(200).body), string(w.get(own, as...).want(200).body))
}

// TestTeamSeesTheStateOfItsClusters: a cluster still runs what was removed from it until its next poll, also if the team does not
// see the resource type of it any more.
func TestTeamSeesTheStateOfItsClusters(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	w.pin("web-01", "null")
	w.put("/clusters/web-01/resources/zebratypes/zebra-resource", `{}`).want(200)
	poll := func(lists ...string) {
		t.Helper()
		for _, list := range lists {
			w.poll("/api/v2/flux/clusters/web-01.example.com/" + list).want(200)
		}
		w.confirm("web-01.example.com")
	}
	others := []string{"namespaces", "rolebindings", "quotas"}
	poll(append(others, "zebratypes")...)
	w.delete("/clusters/web-01/resources/zebratypes/zebra-resource").want(200)
	removed := w.revision()
	poll(others...)
	for _, path := range []string{"/status?selector=team=web", fmt.Sprint("/status?selector=team=web&changed_in=", removed)} {
		got := w.get(path, as...).want(200)
		all := w.get(path).want(200).json()
		delete(all, "limits") // its own use of them
		mine := got.json()
		delete(mine, "limits")
		require.Equal(t, all, mine, path)
		require.Equal(t, "progressing", at(got.json(), "clusters", 0, "state"), path)
	}
	all, got := w.get("/clusters/web-01/status").want(200).json(), w.get("/clusters/web-01/status", as...).want(200)
	require.NotContains(t, noted(got), "zebra")
	for _, field := range []string{"state", "states", "counts", "inputs"} {
		require.Equal(t, all[field], got.json()[field], field)
	}
	require.Len(t, got.json()["lists"], len(others)+1)
}

// TestExplanationsHideRollouts: an explanation does not name a rollout that also changes documents that are not visible.
func TestExplanationsHideRollouts(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	w.pin("web-01", "null")
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, teamRead))
	const path = "/clusters/web-01/explain"
	require.Contains(t, string(w.get(path).want(200).body), "zebra-both")
	hidden := string(w.get(path, as...).want(200).body)
	require.NotContains(t, hidden, "zebra")
	require.Contains(t, hidden, `"rollout":"(hidden)"`)
}
