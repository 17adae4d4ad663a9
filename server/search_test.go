package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// search returns the results of a search as "kind id", the best first.
func (w *world) search(text string, headers ...string) (found []string) {
	w.t.Helper()
	for _, one := range at(w.get("/search?"+url.Values{"q": {text}}.Encode(), headers...).want(200).json(), "results").([]any) {
		result := at(one, "kind").(string) + " " + at(one, "id").(string)
		if exact, _ := one.(map[string]any)["exact"].(bool); exact {
			result += "!"
		}
		found = append(found, result)
	}
	return found
}

// TestSearch: everything with a name, number, reason, author or message is found, in any case, equal names first.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(12, "qa")
	w.patch("/clusters/qa-03", `{"labels":{"tier":"Gold"}}`).want(200)
	w.create("/layers", `{"id":"gold","priority":10,"selector":"tier=Gold","description":"for our best customers"}`)
	w.post("/freezes", `{"id":"year-end","reason":"CHG-900 closing","selector":"environment=prod"}`).want(201)
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"7.7.7","cluster_ids":["qa-01"]}`).want(200)
	w.post("/namespaces", `{"id":"sandbox"}`, "X-Change-Reason", "for the Audit", "X-Change-Author", "Ann@example.com").want(201)
	revision := fmt.Sprint(w.revision())
	w.fail("qa-05", "qa-05.example.com", "podinfo", "Helm upgrade failed: pod is NOT ready")

	require.Equal(t, []string{"layer gold!", "label tier=Gold!"}, w.search("GOLD")[:2])
	require.Equal(t, "layer gold", w.search("best customers")[0])
	require.Equal(t, "freeze year-end", w.search("chg-900")[0])
	require.Equal(t, "version podinfo", w.search("7.7.7")[0])
	w.patch("/layers/gold", `{"overrides":{"traefik":{"component_version":"35.9.8"}}}`).want(200)
	require.Equal(t, []string{"version traefik"}, w.search("35.9.8"), "where the component is")
	require.Equal(t, "revision "+revision, w.search("audit")[0])
	require.Equal(t, "revision "+revision, w.search("ann@")[0])
	require.Equal(t, "revision "+revision+"!", w.search(revision)[0])
	require.Equal(t, "cluster qa-05!", w.search("QA-05.example.com")[0])
	require.Equal(t, []string{"cluster qa-05"}, w.search("not ready"))
	require.Equal(t, "cluster qa-09", w.search("qa-")[9])
	require.NotContains(t, w.search("qa-"), "cluster qa-10", "at most ten of a kind")
	require.Equal(t, true, w.get("/search?q=qa-0&limit=9").want(200).json()["more"])
	require.Empty(t, w.search("nothing like it"))
	require.Empty(t, w.search(" "))
	w.get("/search?q=").problem(400, "validation_error")
	w.get("/search").problem(400, "validation_error")

	w.poll("/api/v2/flux/clusters/qa-05.example.com/platform-components").want(200)
	w.confirm("qa-05.example.com")
	require.Empty(t, w.search("not ready"), "the failure is over")
}

// TestSearchFindsOlderRevisionsByNumber: also those that the search of texts does not reach.
func TestSearchFindsOlderRevisionsByNumber(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 503 {
		w.put("/namespaces/podinfo", fmt.Sprintf(`{"labels":{"n":"%d"}}`, n)).want(200)
	}
	require.Contains(t, w.search("2"), "revision 2!")
	require.Empty(t, w.search("99999"))
}

// TestSearchEndsWithItsClient: the texts of failures are not searched for a client that has gone, since each keystroke aborts the search
// before.
func TestSearchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	w.fail("qa-00", "qa-00.example.com", "podinfo", "pod is not ready")
	require.NotEmpty(t, w.search("not ready"), "the revisions are read")
	gone, leave := context.WithCancel(t.Context())
	leave()
	req := httptest.NewRequestWithContext(gone, http.MethodGet, "/search?q=not+ready", nil)
	req.Header.Set("Authorization", "Bearer "+readToken)
	rec := httptest.NewRecorder()
	w.http.Config.Handler.ServeHTTP(rec, req)
	require.Empty(t, rec.Body.String())
}

// TestSearchIsLimited: a search finds only what its sender may read.
func TestSearchIsLimited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	w.patch("/clusters/qa-01", `{"labels":{"team":"web"}}`).want(200)
	w.patch("/clusters/qa-00", `{"labels":{"team":"database"},"platform_components":[{"id":"podinfo","component_version":"9.8.7"}]}`).want(200)
	reader := bearer(w.issue(`{"name":"secret-tool","role":"read"}`).secret)
	w.create("/access", accessFor("team", `["read"]`, `{"selector":"team=web"}`))
	as := bearer(w.issue(scopedBody).secret)
	require.Equal(t, []string{"cluster qa-01"}, w.search("qa-0", as...)[:1])
	require.NotContains(t, w.search("qa-0", as...), "cluster qa-00")
	require.Contains(t, w.search("qa-0"), "cluster qa-00")
	require.Empty(t, w.search("demo-cluster", as...))
	for text, found := range map[string]string{"team=database": "label team=database!", "9.8.7": "version podinfo"} {
		require.Contains(t, w.search(text), found)
		require.NotContains(t, w.search(text, as...), found, "of a cluster that others have searched")
	}
	require.Empty(t, w.search("secret-tool", as...))
	require.NotContains(t, fmt.Sprint(w.search("secret-tool", reader...)), "token ", "only administrators may read tokens")
	require.Contains(t, fmt.Sprint(w.search("secret-tool")), "token ")
}

// TestRightsThatEndDuringASearch: what a search finds for its sender is never kept for others, also if an access document expires between
// the check of the sender's rights and the search.
func TestRightsThatEndDuringASearch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	w.patch("/clusters/qa-01", `{"labels":{"team":"web"}}`).want(200)
	w.patch("/clusters/qa-00", `{"labels":{"team":"database"}}`).want(200)
	w.create("/access", accessFor("web", `["read"]`, `{"selector":"team=web"}`))
	w.create("/access", accessFor("database", `["read"]`, `{"selector":"team=database"}`))
	as := bearer(w.issue(scopedBody).secret)
	const both = "label team=database!"
	for calls := range 20 {
		ends := `{"expires_at":"` + w.clock.Now().Add(time.Minute).Format(time.RFC3339) + `"}`
		w.patch("/access/database", ends).want(200)
		w.clock.advanceAfter(calls, 2*time.Minute)
		w.get("/search?q=team%3Ddatabase", as...)
		w.clock.advanceAfter(0, 0)
		w.clock.advance(2 * time.Minute)
		require.NotContains(t, w.search("team=database", as...), both, "after %d calls", calls)
		require.Contains(t, w.search("team=database"), both)
	}
}
