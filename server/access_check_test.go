package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// check sends a check, and requires that it commits nothing.
func (w *world) check(subject, question string, headers ...string) map[string]any {
	w.t.Helper()
	var out map[string]any
	w.unchanged(func() {
		out = w.post("/access/check", `{"subject":`+subject+`,`+question+`}`, headers...).want(200).json()
	})
	return out
}

// result returns the parts of a result that say whether it is permitted, and why.
func result(of any) []any {
	m := of.(map[string]any)
	return []any{m["allowed"], m["permitted_by"], m["code"], m["missing_right"]}
}

const (
	patchDemo  = `{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"y"}}`
	patchOther = `{"op":"patch","kind":"cluster","id":"other","patch":{"cluster_name":"y"}}`
	newVersion = `{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"9.9.9"}}`
)

func operationsOf(ops ...string) string { return `"operations":[` + strings.Join(ops, ",") + `]` }

// teams has two clusters of two teams.
func teams(t *testing.T) *world {
	t.Helper()
	w := setup(t)
	w.patch(demoCluster, `{"labels":{"team":"web"}}`).want(200)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev","labels":{"team":"data"}}`)
	return w
}

// TestAccessCheck: the answer to a check is the answer that the subject would receive.
func TestAccessCheck(t *testing.T) {
	t.Parallel()
	w := teams(t)
	as := bearer(w.issue(scopedBody).secret)
	const ci = `{"token":"ci-web"}`
	require.Equal(t, []any{false, []any{}, "forbidden", "read"}, result(w.check(ci, operationsOf(patchDemo))))
	w.create("/access", accessFor("readers", `["read"]`, ""))
	require.Equal(t, []any{false, []any{}, "forbidden", "write"}, result(w.check(ci, operationsOf(patchDemo))))
	w.create("/access", accessFor("team-web", `["write"]`, `{"selector":"team=web","kinds":["cluster","layer"]}`))
	w.create("/access", accessFor("versions", `["push_version"]`, `{"components":["podinfo"]}`))

	got := w.check(ci, operationsOf(patchDemo, patchOther, newVersion))
	require.Equal(t, []any{false, []any{}, "out_of_scope", ""}, result(got), "%v", got)
	require.Equal(t, []any{"cluster", "other"}, []any{at(got, "errors", 0, "kind"), at(got, "errors", 0, "id")})
	require.Equal(t, []any{true, []any{"team-web"}, "", ""}, result(at(got, "operations", 0)))
	require.Equal(t, []any{false, []any{}, "out_of_scope", ""}, result(at(got, "operations", 1)))
	require.Equal(t, []any{true, []any{"versions"}, "", ""}, result(at(got, "operations", 2)))
	require.NotContains(t, fmt.Sprint(got), "yours")
	require.Equal(t, []any{"read", "write", "push_version"}, got["may"])
	require.Equal(t, "scoped", got["role"])

	// Two access documents that each permit one operation do not permit both.
	got = w.check(ci, operationsOf(patchDemo, newVersion))
	require.Equal(t, []any{false, []any{}, "out_of_scope", ""}, result(got))
	require.Contains(t, got["reason"], "not combined")
	got = w.check(ci, operationsOf(`{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_path":"elsewhere"}}`))
	require.Equal(t, []any{false, []any{}, "out_of_scope", "write"}, result(got))

	// An operation is checked after the permitted ones before it: a refused label does not bring a cluster into scope.
	move := `{"op":"set_labels","cluster_ids":["other"],"labels":{"team":"web"}}`
	got = w.check(ci, operationsOf(move, patchOther))
	require.Equal(t, []any{false, []any{}, "out_of_scope", ""}, result(at(got, "operations", 1)))
	got = w.check(ci, operationsOf(`{"op":"create","kind":"cluster","document":{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"team":"web"}}}`,
		`{"op":"patch","kind":"cluster","id":"new","patch":{"cluster_name":"y"}}`))
	require.Equal(t, []any{true, true, true}, []any{got["allowed"], at(got, "operations", 0, "allowed"), at(got, "operations", 1, "allowed")})

	// The subject receives the same answers.
	for _, op := range []string{patchDemo, patchOther, newVersion, move} {
		got := w.do(http.MethodPost, "/batch?dry_run=true", `{"operations":[`+op+`]}`, as...)
		require.Equal(t, w.check(ci, operationsOf(op))["allowed"], got.status == 200, "%s", got.body)
	}
}

// TestAccessCheckSubjects: another issuer, roles, missing and expired tokens, many groups.
func TestAccessCheckSubjects(t *testing.T) {
	t.Parallel()
	w := teams(t)
	w.create("/access", `{"id":"corp","subjects":[{"issuer":"corp","groups":["team-web"]},{"issuer":"github","claims":{"repository_id":"4711","ref":"refs/heads/*"}},{"issuer":"k8s","claims":{"sub":"system:serviceaccount:flux:ci"}}],"may":["read","write"]}`)
	for subject, allowed := range map[string]bool{
		`{"issuer":"corp","groups":["others","team-web"]}`:                              true,
		`{"issuer":"corp","groups":["team-webx"]}`:                                      false,
		`{"issuer":"other","groups":["team-web"]}`:                                      false,
		`{"issuer":"github","groups":["team-web"]}`:                                     false,
		`{"issuer":"github","claims":{"repository_id":"4711","ref":"refs/heads/main"}}`: true,
		`{"issuer":"github","claims":{"repository_id":"4711","ref":"refs/tags/v1"}}`:    false,
		`{"issuer":"github","claims":{"repository_id":"4711"}}`:                         false,
		`{"issuer":"k8s","sub":"system:serviceaccount:flux:ci"}`:                        true,
		`{"issuer":"k8s","claims":{"sub":"system:serviceaccount:flux:ci"}}`:             false, // the claim sub is the field sub
		`{"issuer":"corp"}`: false,
	} {
		got := w.check(subject, operationsOf(patchDemo))
		require.Equal(t, allowed, got["allowed"], subject)
		require.Contains(t, fmt.Sprint(got["warnings"]), "is not in OIDC_ISSUERS", subject)
	}
	for _, role := range []string{"read", "write", "admin"} {
		w.issue(`{"name":"` + role + `","role":"` + role + `","expires_at":"2027-01-01T00:00:00Z"}`)
		got := w.check(`{"token":"`+role+`"}`, operationsOf(patchDemo))
		require.Equal(t, []any{role != "read", role, []any{}}, []any{got["allowed"], got["role"], got["access"]})
		require.Equal(t, role == "admin", w.check(`{"token":"`+role+`"}`, `"right":"admin"`)["allowed"])
		require.Equal(t, true, w.check(`{"token":"`+role+`"}`, `"right":"read"`)["allowed"])
	}
	w.issue(`{"name":"poll","role":"poll","cluster_id":"other"}`)
	require.Equal(t, []any{false, []any{}, "forbidden", "read"}, result(w.check(`{"token":"poll"}`, `"right":"read"`)))
	require.Contains(t, fmt.Sprint(w.check(`{"token":"gone"}`, `"right":"read"`)["warnings"]), `there is no token "gone"`)
	w.clock.advance(800 * 24 * time.Hour)
	require.Contains(t, fmt.Sprint(w.check(`{"token":"write"}`, `"right":"read"`)["warnings"]), "has expired")

	groups := func(n int) string {
		return `{"issuer":"corp","groups":["g` + strings.Repeat(`","g`, n-2) + `","team-web"]}`
	}
	require.Equal(t, true, w.check(groups(1000), operationsOf(patchDemo))["allowed"])
	w.unchanged(func() {
		w.post("/access/check", `{"subject":`+groups(10_000)+`,`+operationsOf(patchDemo)+`}`).problem(400, "validation_error")
	})
}

// TestAccessCheckRefused: requests that are refused, and without a word about the fleet to those who may not check.
func TestAccessCheckRefused(t *testing.T) {
	t.Parallel()
	w := specWorld(t)
	w.issue(`{"name":"ci","role":"scoped"}`)
	as := map[string][]string{"read": bearer(readToken), "write": bearer(w.issue(`{"name":"writer","role":"write"}`).secret), "scoped": bearer(w.issue(scopedBody).secret)}
	w.create("/access", accessFor("all-but-admin", `["read","plan","write","revert","push_version","approve","override_freeze"]`, ""))
	w.unchanged(func() {
		for name, headers := range as {
			for _, subject := range []string{`{"token":"hidden-token"}`, `{"token":"ci-web"}`, `{"issuer":"hidden-issuer","groups":["hidden-group"]}`, `{"token":"no-such"}`} {
				got := w.post("/access/check", `{"subject":`+subject+`,`+operationsOf(patchDemo)+`}`, headers...)
				require.Contains(t, []int{401, 403}, got.status, name)
				require.NotContains(t, string(got.body), "hidden", name)
				require.NotContains(t, string(got.body), "demo-cluster", name)
			}
		}
		for _, body := range []string{
			`{}`, `{"subject":{}}`, `{"subject":{"token":"ci"}}`, `{"subject":{"token":"ci","issuer":"corp"},"right":"read"}`,
			`{"subject":{"token":"ci","groups":["a"]},"right":"read"}`, `{"subject":{"token":"ci"},"right":"read",` + operationsOf(patchDemo) + `}`,
			`{"subject":{"token":"ci"},"kind":"cluster",` + operationsOf(patchDemo) + `}`, `{"subject":{"token":"ci"},"right":"write","id":"x"}`,
			`{"subject":{"token":"ci"},"right":"everything"}`, `{"subject":{"token":"ci"},"right":"write","kind":"token","id":"x"}`,
			`{"subject":{"token":"ci"},"plan_hash":"abc",` + operationsOf(patchDemo) + `}`,
			`{"subject":{"token":"ci"},"operations":[]}`, `{"subject":{"token":"ci"},` + operationsOf(`{"op":"create","kind":"access","document":{}}`) + `}`,
			`{"subject":{"token":"ci"},` + operationsOf(slices.Repeat([]string{patchDemo}, 1001)...) + `}`,
			`{"subject":{"token":"ci"},` + operationsOf(`{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"colour":1}}`) + `}`,
		} {
			w.post("/access/check", body).problem(400, "validation_error")
		}
	})
	require.NotContains(t, string(w.post("/access/check", `{"subject":{"token":"`+writeToken+`"},"right":"read"}`).body), writeToken)
}

// TestAccessCheckManyOperations: 1,000 operations in one check, with missing documents among them.
func TestAccessCheckManyOperations(t *testing.T) {
	t.Parallel()
	w := teams(t)
	w.issue(scopedBody)
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.create("/access", accessFor("team-web", `["write"]`, `{"selector":"team=web"}`))
	ops := slices.Repeat([]string{patchDemo, patchOther, `{"op":"patch","kind":"cluster","id":"gone","patch":{"cluster_name":"y"}}`, `{"op":"restore","revision":1}`}, 250)
	got := w.check(`{"token":"ci-web"}`, operationsOf(ops...))
	require.Len(t, got["operations"], 1000)
	require.Equal(t, []any{false, []any{}, "not_found", ""}, result(got))
	require.Equal(t, []any{true, []any{"team-web"}, "", ""}, result(at(got, "operations", 996)))
	require.Equal(t, []any{false, []any{}, "out_of_scope", ""}, result(at(got, "operations", 997)))
	require.Equal(t, []any{false, []any{}, "not_found", ""}, result(at(got, "operations", 998)))
}

// TestAccessCheckRight asks for rights without operations.
func TestAccessCheckRight(t *testing.T) {
	t.Parallel()
	w := teams(t)
	w.issue(scopedBody)
	w.put(demoCluster+"/platform_components/podinfo", "").want(200)
	w.create("/namespaces", `{"id":"shared"}`)
	w.put("/clusters/other/namespaces/shared", "").want(200)
	w.create("/layers", `{"id":"web-eu","priority":10,"selector":"team=web,region=eu"}`)
	w.create("/layers", `{"id":"eu","priority":11,"selector":"region=eu"}`)
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.create("/access", accessFor("team-web", `["write"]`, `{"selector":"team=web","kinds":["cluster","layer","platform_component","namespace"]}`))
	w.create("/access", accessFor("layers", `["push_version"]`, `{"components":["web-*"]}`))
	for question, want := range map[string][]any{
		`"right":"read"`:                                                     {true, []any{"readers"}, "", ""},
		`"right":"write"`:                                                    {true, []any{"team-web"}, "", ""},
		`"right":"admin"`:                                                    {false, []any{}, "forbidden", "admin"},
		`"right":"write","kind":"cluster"`:                                   {true, []any{"team-web"}, "", ""},
		`"right":"write","kind":"freeze"`:                                    {false, []any{}, "out_of_scope", ""},
		`"right":"write","kind":"cluster","id":"demo-cluster-01"`:            {true, []any{"team-web"}, "", ""},
		`"right":"write","kind":"cluster","id":"other"`:                      {false, []any{}, "out_of_scope", ""},
		`"right":"write","kind":"cluster","id":"gone"`:                       {false, []any{}, "not_found", ""},
		`"right":"write","kind":"layer","id":"web-eu"`:                       {true, []any{"team-web"}, "", ""},
		`"right":"write","kind":"layer","id":"eu"`:                           {false, []any{}, "out_of_scope", ""},
		`"right":"write","kind":"platform_component","id":"podinfo"`:         {true, []any{"team-web"}, "", ""},
		`"right":"write","kind":"namespace","id":"shared"`:                   {false, []any{}, "out_of_scope", ""},
		`"right":"push_version","kind":"platform_component","id":"web-shop"`: {false, []any{}, "not_found", ""},
		`"right":"push_version","kind":"platform_component","id":"podinfo"`:  {false, []any{}, "out_of_scope", ""},
		`"right":"read","kind":"cluster","id":"other"`:                       {true, []any{"readers"}, "", ""},
		`"right":"write","kind":"resource/things","id":"x"`:                  {false, []any{}, "not_found", ""},
	} {
		got := w.check(`{"token":"ci-web"}`, question)
		require.Equal(t, want, result(got), "%s: %v", question, got)
	}
	got := w.check(`{"token":"ci-web"}`, `"right":"write","kind":"namespace","id":"shared"`)
	require.Equal(t, "other", at(got, "errors", 0, "id"))
}

// TestTokenOfSelectedName: a new token whose name access documents select already has their rights, so the answer names them.
func TestTokenOfSelectedName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.create("/access", accessFor("team-web", `["write"]`, `{"selector":"team=web"}`))
	for _, query := range []string{"?dry_run=true", ""} {
		got := w.post("/tokens"+query, scopedBody)
		require.Less(t, got.status, 300)
		require.Contains(t, got.header.Get("Warning"), "readers, team-web")
	}
	require.Empty(t, w.post("/tokens", `{"name":"ci-data","role":"scoped","expires_at":"2027-01-01T00:00:00Z"}`).want(201).header.Get("Warning"))
}

// TestOwnCheckOfHistory: a caller whose right to read has limits learns nothing of the history: restores and reverts are refused, as by
// a change, whatever they would reach.
func TestOwnCheckOfHistory(t *testing.T) {
	t.Parallel()
	w := hiddenWorld(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read","plan","write"]`, `{"selector":"team=web","kinds":["cluster","layer"]}`))
	before := w.revision()
	w.patch("/clusters/zebra", `{"labels":{"team":"zebra","zebra":"1"}}`).want(http.StatusOK)
	for _, operation := range []string{
		fmt.Sprintf(`{"op":"restore","revision":%d}`, before), fmt.Sprintf(`{"op":"revert","revision":%d}`, before+1),
		fmt.Sprintf(`{"op":"restore","revision":%d,"kind":"cluster","id":"zebra"}`, before), fmt.Sprintf(`{"op":"restore","revision":%d,"kind":"cluster","id":"no-such"}`, before),
	} {
		body := `{"operations":[` + operation + `]}`
		got := w.do(http.MethodPost, "/access/check", body, as...).want(http.StatusOK)
		require.Equal(t, []any{false, "forbidden"}, []any{got.json()["allowed"], got.json()["code"]}, operation)
		require.NotContains(t, string(got.body), "zebra", operation)
		w.do(http.MethodPost, "/batch", body, as...).problem(http.StatusForbidden, "forbidden")
	}
}
