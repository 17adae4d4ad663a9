package server_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPolicyRoutes runs a policy from its creation to its deletion.
func TestPolicyRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const body = `{"id":"prod-in-stages","rule":"effect.clusters.size() <= 20","action":"deny","match":{"environments":["prod"]}}`
	w.do("POST", "/policies?dry_run=true", body).want(200)
	for _, wrong := range []string{`{"id":"p","rule":"true"}`, `{"id":"p","rule":"","action":"deny"}`, `{"id":"p","rule":"true","action":"stop"}`, `{"id":"p","rule":"true","action":"deny","match":{"labels":"x"}}`} {
		w.do("POST", "/policies", wrong).problem(400, "validation_error")
	}
	w.create("/policies", body)
	w.do("POST", "/policies", body).problem(409, "conflict")
	got := w.get("/policies/prod-in-stages").want(200)
	require.Equal(t, false, got.json()["suspended"])
	w.get("/policies/prod-in-stages", "If-None-Match", got.header.Get("ETag")).want(304)
	w.patch("/policies/prod-in-stages", `{"suspended":true}`, "If-Match", `"other"`).problem(412, "stale")
	require.Equal(t, true, w.patch("/policies/prod-in-stages", `{"suspended":true,"match":null}`).want(200).json()["suspended"])
	require.Equal(t, "warn", w.put("/policies/prod-in-stages", `{"action":"warn"}`).want(200).json()["action"])
	require.Len(t, w.get("/policies").want(200).list(), 1)
	require.Len(t, w.get("/revisions?kind=policy").want(200).list(), 3)
	require.Equal(t, "policy", w.get("/search?q=prod-in").want(200).json()["results"].([]any)[0].(map[string]any)["kind"])
	w.delete("/policies/prod-in-stages").want(200)
	w.get("/policies/prod-in-stages").problem(404, "not_found")
}

// TestPolicyRoles: role write changes no policy, the right policy does, and a limited reader sees none.
func TestPolicyRoles(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const body = `{"id":"p","rule":"true","action":"deny"}`
	batch := `{"operations":[{"op":"put","kind":"policy","id":"p","document":{"rule":"true","action":"warn"}}]}`
	writer := bearer(w.issue(`{"name":"writer","role":"write"}`).secret)
	w.do("POST", "/policies", body, writer...).problem(403, "forbidden")
	w.do("POST", "/batch", batch, writer...).problem(403, "out_of_scope")

	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read","write","plan"]`, `{"selector":"team=sandbox","kinds":["cluster"]}`))
	w.create("/policies", body)
	require.Empty(t, w.get("/policies", as...).want(200).list())
	w.get("/policies/p", as...).problem(404, "not_found")
	w.do("POST", "/policies", `{"id":"q","rule":"true","action":"deny"}`, as...).problem(403, "forbidden")
	w.create("/access", accessFor("rules", `["read","policy"]`, ""))
	w.get("/policies/p", as...).want(200)
	w.do("POST", "/policies", `{"id":"q","rule":"true","action":"deny"}`, as...).want(201)
	w.do("POST", "/plan", batch, as...).want(200)
	w.do("POST", "/batch", batch, as...).want(200)
	w.delete("/policies/p", as...).want(200)
	w.do("POST", "/access/check", `{"right":"policy"}`, writer...).want(200)
	require.Equal(t, false, w.do("POST", "/access/check", `{"right":"policy"}`, writer...).want(200).json()["allowed"])
	require.Equal(t, true, w.do("POST", "/access/check", `{"right":"policy"}`, as...).want(200).json()["allowed"])
}

// TestOverridePolicy: each request that changes the fleet may override policies, with the right to do so and a reason. The history has it.
func TestOverridePolicy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"one","cluster_dns":"one.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`)
	team := bearer(w.issue(scopedBody).secret)
	writer := bearer(w.issue(`{"name":"writer","role":"write"}`).secret)
	w.create("/access", accessFor("team", `["read","plan","write"]`, ""))
	w.create("/rollouts", `{"id":"r","stages":[{"name":"one","cluster_ids":["one"]}],"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_path":"other"}}]}`)
	w.create("/namespaces", `{"id":"x"}`)
	w.create("/freezes", `{"id":"far","selector":"team=none","reason":"CHG-1"}`)
	w.create("/policies", `{"id":"never","description":"Wait.","rule":"false","action":"deny"}`)
	w.create("/policies", `{"id":"other","rule":"change.author != 'strict'","action":"deny"}`)
	reason := []string{"X-Change-Reason", "INC-1"}
	for _, request := range [][3]string{
		{"PATCH", "/clusters/one", `{"labels":{"a":"b"}}`},
		{"POST", "/batch", `{"operations":[{"op":"set_labels","cluster_ids":["one"],"labels":{"a":"c"}}]}`},
		{"POST", "/rollouts/r/start", ``},
		{"PUT", "/clusters/one/namespaces/x", `{}`},
	} {
		send := func(headers ...string) *answer {
			return w.do(request[0], request[1], request[2], append(headers, "X-Fleet-Override-Policy", "never")...)
		}
		w.do(request[0], request[1], request[2], reason...).problem(422, "policy")
		send().problem(400, "validation_error")
		send(append(reason, team...)...).problem(403, "out_of_scope")
		send(append(reason, writer...)...).problem(403, "out_of_scope")
		send(append(reason, "X-Change-Author", "strict")...).problem(422, "policy")
		require.Contains(t, send(reason...).want(200).header.Values("Warning"), `299 - "policy \"never\" is overridden: Wait."`)
		rev := w.get(fmt.Sprint("/revisions/", w.get("/revisions?limit=1").want(http.StatusOK).list()[0]["revision"])).want(200).json()
		require.Equal(t, []any{"override", "policy", "never"}, []any{at(rev, "operations", 0, "op"), at(rev, "operations", 0, "kind"), at(rev, "operations", 0, "id")})
		require.Contains(t, rev["summary"], "override policy/never")
	}
	for _, operation := range []string{"revert", "restore"} { // whose reason is optional otherwise
		latest := w.get("/revisions?limit=2").want(http.StatusOK).list()
		path := fmt.Sprint("/revisions/", latest[map[string]int{"revert": 0, "restore": 1}[operation]]["revision"], "/", operation)
		w.do("POST", path, "", "X-Fleet-Override-Policy", "never").problem(400, "validation_error")
		w.do("POST", path, "", append(reason, "X-Fleet-Override-Policy", "never")...).want(200)
	}
	for _, request := range [][4]string{ // kinds that clusters are not served
		{"POST", "/strategies", `{"id":"waves","stages":[{"name":"one","cluster_ids":["one"]}]}`, "201"},
		{"DELETE", "/strategies/waves", "", "200"},
		{"PATCH", "/freezes/far", `{"reason":"CHG-2"}`, "200"},
		{"DELETE", "/freezes/far", "", "200"},
		{"POST", "/access", accessFor("second", `["read"]`, ""), "201"},
		{"POST", "/sources", `{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`, "201"},
		{"DELETE", "/sources/platform", "", "200"},
		{"POST", "/tokens", `{"name":"ci","role":"read"}`, "201"},
		{"POST", "/rollouts", `{"id":"s","stages":[{"name":"one","cluster_ids":["one"]}],"operations":[{"op":"patch","kind":"namespace","id":"x","patch":{"labels":{"a":"b"}}}]}`, "201"},
	} {
		w.do(request[0], request[1], request[2], reason...).problem(422, "policy")
		got := w.do(request[0], request[1], request[2], append(reason, "X-Fleet-Override-Policy", "never")...)
		require.Equal(t, request[3], strconv.Itoa(got.status), "%s %s: %s", request[0], request[1], got.body)
	}
	w.patch("/access/team", `{"may":["read","plan","write","override_policy"]}`, append(reason, "X-Fleet-Override-Policy", "never")...).want(200)
	w.patch("/clusters/one", `{"labels":{"a":"d"}}`, append(append(reason, team...), "X-Fleet-Override-Policy", "never")...).want(200)
	for as, allowed := range map[string]bool{team[1]: true, writer[1]: false} {
		require.Equal(t, allowed, w.do("POST", "/access/check", `{"right":"override_policy"}`, "Authorization", as).want(200).json()["allowed"])
	}
}
