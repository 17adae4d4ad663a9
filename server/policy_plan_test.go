package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestPoliciesOfAPlan: a team sees the policies that its own plan fails, and no other one; an admin sees all. Both are refused.
func TestPoliciesOfAPlan(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	web := bearer(w.issue(scopedBody).secret)
	w.do(http.MethodPatch, "/clusters/web-01", `{"pinned":null}`).want(200)
	w.create("/access", accessFor("team", `["read","plan","write"]`, teamRead))
	for _, body := range []string{
		`{"id":"fails","rule":"effect.clusters.size() == 0","message":"'changes ' + effect.clusters[0].id","action":"deny"}`,
		`{"id":"holds","rule":"effect.clusters.all(c, c.id != 'zebra-01')","action":"deny"}`,
		`{"id":"warns","description":"Ask first.","rule":"false","action":"warn"}`,
	} {
		w.post("/policies", body).want(201)
	}
	const change = `{"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"3"}}}}]}`
	for _, as := range [][]string{web, nil} {
		got := w.do(http.MethodPost, "/plan", change, as...).want(200)
		var plan api.Plan
		require.NoError(t, json.Unmarshal(got.body, &plan))
		var ids []string
		for _, p := range plan.Policies {
			ids = append(ids, p.ID)
		}
		want := []string{"fails", "warns"}
		if as == nil {
			want = []string{"fails", "holds", "warns"}
		} else {
			require.NotContains(t, noted(got), "zebra")
		}
		require.Equal(t, want, ids)
		require.Contains(t, plan.Warnings, `the change would be refused: policy "fails": changes web-01`)
		require.Contains(t, plan.Warnings, `policy "warns": Ask first.`)
		w.do(http.MethodPost, "/batch", change, as...).problem(422, "policy")
	}
}

// TestPoliciesOfOthersAreHidden: a limited writer learns the id and the message of the policies that its own change fails, and nothing else of
// policies: not their rules, matches and descriptions, nor those that others failed or overrode.
func TestPoliciesOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	web := bearer(w.issue(scopedBody).secret)
	w.patch("/clusters/web-01", `{"pinned":null}`).want(200)
	w.create("/access", accessFor("team", `["read","plan","write"]`, teamRead))
	for _, body := range []string{
		`{"id":"fails","description":"zebra","rule":"effect.clusters.size() == 0 || 'zebra' == ''","message":"'changes ' + string(effect.count)","match":{"selector":"team in (web,zebra)"},"action":"deny"}`,
		`{"id":"zebra-holds","rule":"effect.clusters.all(c, c.id != 'zebra-01')","action":"deny"}`,
		`{"id":"zebra-match","rule":"false","match":{"selector":"team=zebra"},"action":"deny"}`,
		`{"id":"zebra-suspended","rule":"false","suspended":true,"action":"deny"}`,
	} {
		w.post("/policies", body).want(201)
	}
	const change = `[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"3"}}}}]`
	override := []string{"X-Change-Reason", "INC-1", "X-Fleet-Override-Policy", "fails"}
	for _, override := range [][]string{nil, override} {
		for _, request := range [][3]string{
			{http.MethodPost, "/plan", `{"operations":` + change + `}`},
			{http.MethodPost, "/batch", `{"operations":` + change + `}`},
			{http.MethodPost, "/batch?dry_run=true", `{"operations":` + change + `}`},
			{http.MethodPatch, "/clusters/web-01", `{"patches":{"web-app":{"replicas":"3"}}}`},
			{http.MethodPost, "/access/check", `{"operations":` + change + `}`},
			{http.MethodPost, "/policies/test", `{"policy":{"id":"x","rule":"true","action":"deny"},"last":1}`},
			{http.MethodPost, "/rollouts", `{"id":"mine","stages":[{"name":"one","cluster_ids":["web-01"]}],"operations":` + change + `}`},
		} {
			headers := append(slices.Clone(web), override...)
			if request[0] == http.MethodPatch {
				headers = append(headers, "Content-Type", mergePatchType)
			}
			got := w.do(request[0], request[1], request[2], headers...)
			require.NotContains(t, noted(got), "zebra", "%s %s", request[0], request[1])
		}
	}
	refused := w.do(http.MethodPost, "/batch", `{"operations":`+change+`}`, web...)
	refused.problem(422, "policy")
	require.Contains(t, string(refused.body), `policy \"fails\": changes 1`)
	require.Contains(t, string(refused.body), `"errors":[{"pointer":"","detail":"changes 1","kind":"policy","id":"fails"}]`)
	w.patch("/policies/fails", `{"action":"warn"}`, "X-Change-Reason", "INC-1", "X-Fleet-Override-Policy", "zebra-match").want(200)
	warned := w.do(http.MethodPost, "/batch", `{"operations":`+change+`}`, web...)
	require.Equal(t, []any{`policy "fails": changes 1`}, warned.want(200).json()["warnings"])
	w.patch("/policies/fails", `{"action":"deny"}`, "X-Change-Reason", "INC-1").want(200)

	// an administrator overrides policies, in a change that the team may read
	w.do(http.MethodPost, "/batch", `{"operations":[{"op":"patch","kind":"namespace","id":"web-ns","patch":{"labels":{"x":"1"}}},{"op":"patch","kind":"namespace","id":"zebra-ns","patch":{"labels":{"x":"1"}}}]}`,
		"X-Change-Reason", "INC-1", "X-Fleet-Override-Policy", "fails,zebra-match,zebra-holds").want(200)
	for _, path := range []string{"/revisions", "/revisions?kind=policy", fmt.Sprint("/revisions/", w.get("/revisions?limit=1").want(200).list()[0]["revision"]), "/export", "/status", "/search?q=fails", "/clusters/web-01/history"} {
		got := w.get(path, web...)
		require.NotContains(t, noted(got), "zebra", path)
		require.NotContains(t, noted(got), "fails", path)
	}
}
