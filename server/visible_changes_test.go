package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// teamWrite are the rights of a team that reads and changes only its own clusters and layers.
const teamWrite = `["read","plan","write","approve"]`

// teamWorld has two teams, without the pin of the cluster of the team web, and returns the credential of the team web.
func teamWorld(t *testing.T) (*world, []string) {
	t.Helper()
	w := twoTeams(t)
	w.pin("web-01", "null")
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", teamWrite, `{"selector":"team=web","kinds":["cluster","layer","freeze"]}`))
	return w, as
}

// TestTeamPinsItsClusters: a principal whose right to read has limits pins, changes documents of pinned clusters, and plans and makes
// the end, like one that reads everything.
func TestTeamPinsItsClusters(t *testing.T) {
	t.Parallel()
	w, as := teamWorld(t)
	w.post("/rollouts/zebra-both/abort", "").want(200) // the team may not read what it serves its cluster
	before := w.polls()
	patch := append([]string{"Content-Type", mergePatchType}, as...)
	plan := func(body string) map[string]any {
		t.Helper()
		ops := `{"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":` + body + `}]}`
		mine, whole := w.do("POST", "/plan", ops, as...).want(200).json(), w.post("/plan", ops).want(200).json()
		require.Equal(t, whole, mine)
		return mine
	}
	plan(`{"pinned":{"reason":"launch"}}`)
	w.do("PATCH", "/clusters/web-01", `{"pinned":{"reason":"launch"}}`, patch...).want(200)
	require.Equal(t, before, w.polls())
	later := plan(`{"cluster_name":"renamed"}`)
	require.Equal(t, []any{"web-01"}, later["pending"])
	require.Empty(t, later["groups"])
	w.do("PATCH", "/clusters/web-01?dry_run=true", `{"cluster_name":"renamed"}`, patch...).want(200)
	w.do("PATCH", "/clusters/web-01", `{"cluster_name":"renamed"}`, patch...).want(200)
	w.do("PATCH", "/layers/web", `{"namespaces":[]}`, patch...).want(200)
	w.do("PUT", "/clusters/web-01/platform_components/base", `{"enabled":false}`, as...).want(200)
	w.do("DELETE", "/clusters/web-01", "", as...).problem(409, "pinned")
	require.Equal(t, before, w.polls())
	require.Equal(t, string(w.get("/clusters/web-01").want(200).body), string(w.get("/clusters/web-01", as...).want(200).body))
	require.Equal(t, true, w.get("/clusters/web-01/explain", as...).want(200).json()["pinned"])
	require.NotContains(t, string(w.get("/clusters/web-01/history", as...).want(200).body), `"hidden"`, "a pin is a change that the team may read")
	end := plan(`{"pinned":null}`)
	require.Equal(t, []any{"web-01"}, at(end, "groups", 0, "clusters"))
	require.NotZero(t, at(end, "totals", "removals"))
	w.do("POST", "/batch", `{"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"pinned":null}}],"plan_hash":"`+end["plan_hash"].(string)+`"}`, as...).want(200)
	require.NotEqual(t, before, w.polls())
	w.do("PATCH", "/clusters/zebra-01", `{"pinned":null}`, patch...).problem(404, "not_found")
}

// TestTeamChangesItsDocuments: a principal whose right to read has limits changes and plans what it may read.
func TestTeamChangesItsDocuments(t *testing.T) {
	t.Parallel()
	w, as := teamWorld(t)
	patch := append([]string{"Content-Type", mergePatchType}, as...)
	w.do("PATCH", "/clusters/web-01", `{"patches":{"web-app":{"replicas":"3"}}}`, patch...).want(200)
	require.Equal(t, "3", at(w.get("/clusters/web-01").json(), "patches", "web-app", "replicas"))

	ops := `"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"4"}}}}]`
	plan, whole := w.do("POST", "/plan", `{`+ops+`}`, as...).want(200).json(), w.post("/plan", `{`+ops+`}`).want(200).json()
	require.Equal(t, whole["plan_hash"], plan["plan_hash"])
	require.Equal(t, whole["groups"], plan["groups"])
	w.do("POST", "/batch", `{`+ops+`,"plan_hash":"`+plan["plan_hash"].(string)+`"}`, as...).want(200)

	w.do("POST", "/layers", `{"id":"web-more","priority":11,"selector":"team=web","namespaces":[{"id":"web-ns"}]}`, as...).want(201)
	w.do("DELETE", "/layers/web-more", "", as...).want(200)
	w.do("POST", "/freezes", `{"id":"mine","reason":"launch","selector":"team=web","from":"2999-01-01T00:00:00Z"}`, as...).want(201)
	w.do("DELETE", "/freezes/mine", "", as...).want(200)

	// Without the right to read a cluster, no right to change it suffices.
	w.create("/access", accessFor("wide", `["write","plan"]`, ""))
	w.unchanged(func() {
		w.do("PATCH", "/clusters/zebra-01", `{"labels":{"note":"x"}}`, patch...).problem(404, "not_found")
		for _, dryRun := range []string{"", "?dry_run=true"} {
			got := w.do("PATCH", "/layers/all"+dryRun, `{"patches":{"base":{"x":"1"}}}`, patch...)
			got.problem(403, "out_of_scope")
			require.Contains(t, string(got.body), "its selector does not contain the limits")
			require.NotContains(t, noted(got), "zebra")
		}
		// The cluster would be invisible afterwards.
		require.NotContains(t, noted(w.do("PATCH", "/clusters/web-01", `{"labels":{"team":"zebra"}}`, patch...).problem(403, "out_of_scope")), "zebra")
		// Reverts and restores compare with documents of the whole history.
		w.do("POST", "/revisions/17/revert", "", as...).problem(403, "forbidden")
		w.do("POST", "/revisions/17/restore", "", as...).problem(403, "forbidden")
		w.do("POST", "/batch", `{"operations":[{"op":"revert","revision":17}]}`, as...).problem(403, "forbidden")
		w.do("POST", "/rollouts", `{"id":"back","operations":[{"op":"revert","revision":17}]}`, as...).problem(403, "forbidden")
	})
}

// TestTeamConflictsShowNothing: an error that documents of another team cause has only their kinds and numbers.
func TestTeamConflictsShowNothing(t *testing.T) {
	t.Parallel()
	w, as := teamWorld(t)
	w.create("/access", accessFor("wide", `["write","plan","approve"]`, ""))
	patch := append([]string{"Content-Type", mergePatchType}, as...)
	logged := len(w.logs.String())
	w.unchanged(func() {
		for i, c := range []struct{ method, path, body string }{
			{"POST", "/clusters", `{"id":"ZEBRA-01","cluster_dns":"web-02.example.com","environment":"dev","labels":{"team":"web"}}`},
			{"POST", "/clusters", `{"id":"web-02","cluster_dns":"ZEBRA-01.example.com","environment":"dev","labels":{"team":"web"}}`},
			{"POST", "/clusters", `{"id":"web-02","cluster_dns":"ZEBRA-old.example.com","environment":"dev","labels":{"team":"web"}}`},
			{"POST", "/layers", `{"id":"web-02","priority":20,"selector":"team=web"}`},
			{"POST", "/layers", `{"id":"web-02","priority":21,"selector":"environment in (dev,qa)","namespaces":[{"id":"web-ns"}]}`},
			{"PATCH", "/layers/all", `{"patches":{"base":{"x":"1"}}}`},
			{"DELETE", "/platform_components/base?cascade=true", ""},
			{"DELETE", "/platform_components/base", ""},
			{"DELETE", "/resource_types/quotas?cascade=true", ""},
			{"PATCH", "/resource_types/quotas", `{"schema":{"type":"object","properties":{"cpu":{"type":"string"}}}}`},
			{"POST", "/batch", `{"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"labels":{"x":"y"}}},{"op":"delete","kind":"cluster","id":"ZEBRA-01"}]}`},
			{"POST", "/batch", `{"operations":[{"op":"set_component","component":"base","selector":"environment=qa","component_version":"4"}]}`},
			{"POST", "/plan", `{"operations":[{"op":"patch","kind":"layer","id":"all","patch":{"patches":{"base":{"x":"1"}}}}]}`},
			{"POST", "/plan", `{"rollout":"shared"}`},
			{"POST", "/rollouts", `{"id":"more","operations":[{"op":"patch","kind":"platform_component","id":"base","patch":{"component_version":"5"}}]}`},
			{"POST", "/rollouts/shared/start", ""},
			{"POST", "/rollouts/ZEBRA-rollout/start", ""},
			{"POST", "/freezes", `{"id":"ZEBRA-freeze","reason":"x","selector":"team=web"}`},
			{"PUT", "/clusters/web-01/platform_components/ZEBRA-app", ""},
			{"PUT", "/clusters/web-01/resources/ZEBRAtypes/ZEBRA-resource", ""},
		} {
			headers := as
			if c.method == "PATCH" {
				headers = patch
			}
			got := w.do(c.method, strings.ReplaceAll(c.path, "ZEBRA", "zebra"), strings.ReplaceAll(c.body, "ZEBRA", "zebra"), headers...)
			require.GreaterOrEqual(t, got.status, 400, "%d %s %s: %s", i, c.method, c.path, got.body)
			require.NotContains(t, strings.ReplaceAll(requested(noted(got), c.path+c.body), "instance", ""), "zebra", "%d %s %s", i, c.method, c.path)
		}
	})
	for line := range strings.Lines(w.logs.String()[logged:]) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		delete(fields, "path") // as requested
		require.NotContains(t, requested(fmt.Sprint(fields), "ZEBRA-01 ZEBRA-rollout ZEBRA-app ZEBRAtypes ZEBRA-resource ZEBRA-freeze"), "zebra")
	}
}

// requested removes from a text the names that the request has itself, in upper case.
func requested(text, request string) string {
	for _, name := range strings.FieldsFunc(request, func(r rune) bool { return !strings.ContainsRune("ZEBRA-0123456789abcdefghijklmnopqrstuvwxyz.", r) }) {
		if strings.Contains(name, "ZEBRA") {
			text = strings.ReplaceAll(text, strings.ReplaceAll(name, "ZEBRA", "zebra"), "")
		}
	}
	return text
}

// TestTeamWritesShowNothing sends each write of the contract for documents of another team, and for ones that do not exist: the answers
// are the same.
func TestTeamWritesShowNothing(t *testing.T) {
	t.Parallel()
	w, as := teamWorld(t)
	w.create("/access", accessFor("wide", `["write","plan","approve","push_version"]`, ""))
	writes := specWrites(t)
	require.Greater(t, len(writes), 55)
	for _, r := range writes {
		path, headers := "", as
		for spec, methods := range specPaths(t) {
			for _, method := range methods {
				if method == r.method && fillPath(spec) == r.path {
					path = fillWith(strings.ReplaceAll(spec, "{action}", "start"), hiddenIDs)
				}
			}
		}
		if path == "" || !strings.Contains(path, "zebra") {
			continue // it names no document of the other team: see TestTeamConflictsShowNothing
		}
		if r.method == http.MethodPatch {
			headers = append([]string{"Content-Type", mergePatchType}, as...)
		}
		w.unchanged(func() {
			for _, query := range []string{"", "?dry_run=true"} {
				a, b := w.do(r.method, path+query, r.body, headers...), w.do(r.method, strings.ReplaceAll(path, "zebra", "quokka")+query, r.body, headers...)
				require.GreaterOrEqual(t, a.status, 400, "%s %s: %s", r.method, path, a.body)
				require.Equal(t, lasting(b), strings.ReplaceAll(lasting(a), "zebra", "quokka"), "%s %s", r.method, path)
			}
		})
	}
}
