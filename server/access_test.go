package server_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
)

const scopedBody = `{"name":"ci-web","role":"scoped","expires_at":"2027-01-01T00:00:00Z"}`

// accessFor returns an access document for the token of scopedBody.
func accessFor(id, may, on string) string {
	if on != "" {
		on = `,"on":` + on
	}
	return `{"id":"` + id + `","subjects":[{"token":"ci-web"}],"may":` + may + on + `}`
}

// TestAccessRoutes runs an access document from its creation to its deletion.
func TestAccessRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Empty(t, w.get("/access").want(200).list())
	team := `{"id":"team-web","subjects":[{"issuer":"corp","groups":["team-web"]}],"may":["plan","write"],"on":{"selector":"team=web"}}`
	w.unchanged(func() { w.post("/access?dry_run=true", team).want(200) })
	made := w.post("/access", team).want(201)
	require.Equal(t, "/access/team-web", made.header.Get("Location"))
	require.Equal(t, map[string]any{"selector": "team=web"}, made.json()["on"])
	w.post("/access", team).problem(409, "conflict")
	require.Equal(t, made.etag(), w.get("/access/team-web").want(200).etag())
	require.Len(t, w.get("/access").want(200).list(), 1)
	w.patch("/access/team-web", `{"on":{"selector":null,"kinds":["cluster"]}}`).want(200)
	require.Equal(t, map[string]any{"kinds": []any{"cluster"}}, w.get("/access/team-web").want(200).json()["on"])
	w.patch("/access/team-web", `{"on":{"kinds":["token"]}}`).problem(400, "validation_error")
	w.patch("/access/team-web", `{"on":null}`).want(200)
	require.NotContains(t, w.get("/access/team-web").want(200).json(), "on")
	require.Len(t, w.get("/revisions?kind=access&id=team-web").want(200).list(), 3)
	w.delete("/access/team-web").want(200)
	w.get("/access/team-web").problem(404, "not_found")
	w.batch(`{"op":"create","kind":"access","document":{}}`).problem(400, "validation_error")
}

// TestScopedToken: a token of role scoped has exactly the rights of its access documents, at the revision that each change is
// based on.
func TestScopedToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(scopedBody)
	as := bearer(token.secret)
	other := w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev","labels":{"team":"data"}}`)
	require.Equal(t, 201, other.status)
	w.patch(demoCluster, `{"labels":{"team":"web"}}`).want(200)

	w.get("/clusters", as...).problem(403, "forbidden")
	w.get("/whoami", as...).want(200)
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.get("/clusters", as...).want(200)
	w.get("/tokens", as...).problem(403, "forbidden")
	w.get("/access", as...).problem(403, "forbidden")
	w.patch(demoCluster, `{"cluster_name":"x"}`, as...).problem(403, "forbidden")
	w.get("/api/v2/flux/clusters/"+demoDNS+"/namespaces", as...).want(403)
	w.get("/api/v2/flux/clusters", as...).problem(403, "forbidden")

	w.create("/access", accessFor("team-web", `["plan","write"]`, `{"selector":"team=web","kinds":["cluster","layer"]}`))
	w.patch(demoCluster, `{"cluster_name":"x"}`, as...).want(200)
	who := w.get("/whoami", as...).want(200).json()
	require.Equal(t, []any{"scoped", []any{"read", "plan", "write"}}, []any{who["role"], who["may"]})
	require.Equal(t, []any{
		map[string]any{"id": "readers", "may": []any{"read"}},
		map[string]any{"id": "team-web", "may": []any{"plan", "write"}, "on": map[string]any{"selector": "team=web", "kinds": []any{"cluster", "layer"}}},
	}, who["access"])
	w.unchanged(func() {
		for _, refused := range []*answer{
			w.patch("/clusters/other", `{"cluster_name":"x"}`, as...),
			w.patch("/clusters/other?dry_run=true", `{"cluster_name":"x"}`, as...),
			w.do("POST", "/batch", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"y"}},{"op":"patch","kind":"cluster","id":"other","patch":{"cluster_name":"y"}}]}`, as...),
			w.do("POST", "/plan", `{"operations":[{"op":"patch","kind":"cluster","id":"other","patch":{"cluster_name":"y"}}]}`, as...),
		} {
			require.Equal(t, []any{"cluster", "other"}, []any{at(refused.problem(403, "out_of_scope").json(), "errors", 0, "kind"), at(refused.json(), "errors", 0, "id")})
		}
		w.do("POST", "/plan", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"y"}}]}`, as...).want(200)
		w.post("/access", accessFor("more", `["admin"]`, ""), as...).problem(403, "forbidden")
		w.post("/tokens", scopedBody, as...).problem(403, "forbidden")
	})
	require.Equal(t, "token:ci-web ("+token.id+")", at(w.get("/revisions?limit=1").list()[0], "actor"))

	// The rights end during a request: nothing is committed.
	late := w.slowly(func() { w.delete("/access/team-web").want(200) }, "PATCH", demoCluster, `{"cluster_name":"late"}`, append([]string{"Content-Type", "application/merge-patch+json"}, as...)...)
	late.problem(403, "forbidden")
	w.patch("/access/readers", `{"expires_at":"`+w.clock.Now().Add(time.Minute).Format(time.RFC3339)+`"}`).want(200)
	w.get("/clusters", as...).want(200)
	w.clock.advance(2 * time.Minute)
	w.get("/clusters", as...).problem(403, "forbidden")
}

// rightsFor derives the rights of which one permits an operation, from its method and path. The table of the server is
// compared with it, so a new operation fails this test until it is listed.
func rightsFor(method, path string) []string {
	admin := strings.HasPrefix(path, "/tokens") || strings.HasPrefix(path, "/access") || strings.HasPrefix(path, "/webhooks") || strings.HasPrefix(path, "/sources") || path == "/backup"
	switch {
	case strings.HasPrefix(path, "/api/v2/"), strings.HasPrefix(path, "/auth/"), slices.Contains([]string{"/health", "/ready", "/version", "/metrics", "/openapi.yaml", "/openapi.json", "/whoami", "/access/check"}, path):
		return nil
	case admin:
		return []string{"admin"}
	case method == http.MethodGet, path == "/policies/test", path == "/approvals/{id}":
		return []string{"read"}
	case path == "/approvals":
		return []string{"approve"}
	case strings.HasPrefix(path, "/policies"):
		return []string{"admin", "policy"}
	case path == "/plan", path == "/render":
		return []string{"plan", "policy", "push_version", "revert", "write"}
	}
	rights := []string{"plan", "write"}
	if announces(path) {
		return []string{"push_version", "write"}
	}
	if strings.HasPrefix(path, "/rollouts/{id}/") {
		rights = append(rights, "approve")
	}
	if method != http.MethodDelete && (path == "/platform_components/{id}" || strings.HasPrefix(path, "/rollouts")) || path == "/batch" {
		rights = append(rights, "push_version")
	}
	if strings.HasSuffix(path, "/revert") || path == "/batch" {
		rights = append(rights, "revert")
	}
	if path == "/batch" {
		rights = append(rights, "policy")
	}
	slices.Sort(rights)
	return rights
}

// announces reports whether the operations of a path announce versions, and change no document.
func announces(path string) bool {
	return strings.HasSuffix(path, "/versions") || strings.HasSuffix(path, "/versions/refresh")
}

// TestRightsOfOperations: every operation requires the rights that its method and path suggest, and a token with other rights
// is refused, regardless of the request.
func TestRightsOfOperations(t *testing.T) {
	t.Parallel()
	ops, err := openapi.Load(true)
	require.NoError(t, err)
	colon := strings.NewReplacer("{", ":", "}", "")
	listed := 0
	for path, methods := range specPaths(t) {
		for _, method := range methods {
			op := ops.Find(method, colon.Replace(path))
			require.NotNil(t, op, path)
			got := slices.Sorted(slices.Values(op.Rights))
			require.Equal(t, rightsFor(method, path), got, "%s %s", method, path)
			listed += min(len(got), 1)
		}
	}
	require.Greater(t, listed, 90)

	w := setup(t)
	as := bearer(w.issue(scopedBody).secret)
	all := []string{"read", "plan", "write", "revert", "push_version", "approve", "override_freeze", "admin"}
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.create("/access", accessFor("one", `["read"]`, ""))
	fill := strings.NewReplacer("{id}", "nobody", "{component_id}", "nobody", "{namespace_id}", "nobody", "{rolebinding_id}", "nobody", "{type}", "things", "{resource_id}", "nobody", "{revision}", "77", "{action}", "start", "{layer_id}", "nobody")
	asked := 0
	for _, right := range all {
		w.patch("/access/one", `{"may":["`+right+`"]}`).want(200)
		w.unchanged(func() {
			for path, methods := range specPaths(t) {
				if strings.HasPrefix(path, "/api/v2/") || path == "/auth/sessions" {
					continue
				}
				for _, method := range methods {
					body := ""
					if method != http.MethodGet && method != http.MethodDelete {
						body = `{"nonsense":true}`
					}
					needs := rightsFor(method, path)
					got := w.do(method, fill.Replace(path), body, as...)
					asked++
					if needs == nil || slices.Contains(needs, right) || slices.Contains(needs, "read") {
						require.NotEqual(t, 403, got.status, "%s: %s %s: %s", right, method, path, got.body)
					} else {
						got.problem(403, "forbidden")
					}
				}
			}
		})
	}
	t.Logf("%d requests", asked)
}

// contract is the embedded OpenAPI document, parsed once. It must not be changed.
var contract = sync.OnceValues(apiserver.GetSpec)

// specPaths returns the methods of each path of the contract.
func specPaths(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	out := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		out[path] = slices.Collect(maps.Keys(item.Operations()))
	}
	return out
}

// TestScopedRolloutPauses: the runner has no more rights than the principal of the rollout.
func TestScopedRolloutPauses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		narrow string
		want   string
	}{
		"the rights stay":  {`{"description":"x"}`, "running2"},
		"fewer rights":     {`{"may":["plan"]}`, "paused1"},
		"another scope":    {`{"on":{"selector":"id=wave-1","kinds":["rollout","platform_component"]}}`, "paused1"},
		"no longer":        {`{"expires_at":"2026-01-02T03:05:00Z"}`, "paused1"},
		"another identity": {`{"subjects":[{"token":"other"}]}`, "paused1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, runners := autoRollout(t, 1, "")
			as := bearer(w.issue(scopedBody).secret)
			w.create("/access", accessFor("readers", `["read"]`, ""))
			w.create("/access", accessFor("ci", `["write"]`, ""))
			w.do("POST", autoPath+"/start", "", as...).want(200)
			w.confirmAll()
			runners[0].AdvanceRollouts(t.Context())
			w.patch("/access/ci", test.narrow).want(200)
			w.clock.advance(30 * time.Minute)
			w.confirmAll()
			runners[0].AdvanceRollouts(t.Context())
			require.Equal(t, test.want, w.rolloutState())
		})
	}
}

// TestRolloutOfIdentity: a rollout of a person continues after the end of the session, with the current rights of the person. The
// groups of the person are in no answer.
func TestRolloutOfIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string // of the access document; empty: it is deleted
		want   string
	}{
		"the rights stay": {`{"description":"x"}`, "running2"},
		"no longer":       {`{"expires_at":"2026-01-02T03:05:00Z"}`, "paused1"},
		"another group":   {`{"subjects":[{"issuer":"corp","groups":["others"]}]}`, "paused1"},
		"another issuer":  {`{"subjects":[{"issuer":"other","groups":["team-web"]}]}`, "paused1"},
		"another scope":   {`{"on":{"selector":"id=wave-1","kinds":["rollout","platform_component"]}}`, "paused1"},
		"deleted":         {"", "paused1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, issuers := newIssuer(t, func() time.Time { return start })
			w, runners := autoRollout(t, 1, "", func(cfg *server.Config) { cfg.Issuers = issuers })
			w.create("/access", `{"id":"people","subjects":[{"issuer":"corp","groups":["team-web"]}],"may":["read"]}`)
			w.create("/access", `{"id":"team-web","subjects":[{"issuer":"corp","groups":["team-web"]}],"may":["write"]}`)
			as := bearer(issuer.Token(idClaims(testissuer.Claims{"groups": []string{"team-web", "private"}})))
			w.do("POST", autoPath+"/start", "", as...).want(200)
			require.Equal(t, "oidc:corp:ann@example.com (00u1)", w.get(autoPath).json()["principal"])
			for _, path := range []string{autoPath, "/rollouts", "/revisions/" + w.get(autoPath).header.Get("X-Fleet-Revision")} {
				require.NotContains(t, string(w.get(path).want(200).body), "team-web", path)
				require.NotContains(t, string(w.get(path).want(200).body), "private", path)
			}
			w.clock.advance(9 * time.Hour)
			w.confirmAll()
			if test.change != "" {
				w.patch("/access/team-web", test.change).want(200)
			} else {
				w.delete("/access/team-web").want(200)
			}
			runners[0].AdvanceRollouts(t.Context())
			require.Equal(t, test.want, w.rolloutState())
		})
	}
}
