package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	explainAll = demoCluster + "/explain"
	explainOne = demoCluster + "/explain/platform-components/podinfo"
)

// A client that does not read its explanations does not delay others.
func TestExplanationsToStalledClients(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		full := make(chan struct{})
		defer close(full)
		for _, path := range []string{explainAll, explainOne} {
			for range 100 {
				require.Equal(t, http.StatusOK, w.stallReading(path, full), path)
			}
			w.get(path, "Authorization", "Bearer "+readToken).want(200)
		}
	})
}

// Explanations of one credential run one at a time, and a limited number waits. Another credential has its own turn, and a
// disconnected client frees its place.
func TestExplanationsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		working, proceed := make(chan struct{}, 100), make(chan struct{})
		w.faults.set(func(f *faultyStore) { f.summary = func() { working <- struct{}{}; <-proceed } })
		statuses := make(chan int, 10)
		ask := func(token string) { statuses <- w.get(explainAll, "Authorization", "Bearer "+token).status }
		for range 3 {
			go ask(readToken)
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		req := httptest.NewRequestWithContext(gone, http.MethodGet, explainOne, nil)
		req.Header.Set("Authorization", "Bearer "+readToken)
		w.stalled(req, nil)
		require.Len(t, working, 1)
		refused := w.get(explainOne, "Authorization", "Bearer "+readToken).problem(429, "too_many_requests")
		require.Contains(t, refused.json()["detail"], "too many explanations of this credential")
		require.Equal(t, "5", refused.header.Get("Retry-After"))
		w.get(demoCluster, "Authorization", "Bearer "+readToken).want(200)
		w.patch(demoCluster, `{"environment":"qa"}`).want(200)
		leave()
		synctest.Wait()
		go ask(readToken)
		go ask(writeToken)
		synctest.Wait()
		require.Len(t, working, 2)
		close(proceed)
		for range 5 {
			require.Equal(t, http.StatusOK, <-statuses)
		}
	})
}

// Each value is attributed to the revision that set it, with its actor and author, not to the last one of the document.
func TestExplanationsNameRevision(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(demoCluster+"/platform_components/podinfo", `{"component_version":"6.8.0"}`, "X-Change-Author", "ann@example.com").want(200)
	pinned := w.revision()
	w.patch(demoCluster, `{"labels":{"team":"x"}}`, "X-Change-Author", "bob@example.com").want(200)
	said := func() any {
		values := at(w.get(explainOne+"?pointer=/component_version").want(200).json(), "inputs").([]any)[0].(map[string]any)["values"].([]any)
		return values[0].(map[string]any)["set_by"]
	}
	require.EqualValues(t, pinned, at(said(), "revision"))
	require.Equal(t, "static-write", at(said(), "actor"))
	require.Equal(t, "ann@example.com", at(said(), "author"))
	require.NotEmpty(t, at(said(), "at"))

	// Without the log the revision is not known, and no other one is named.
	w.faults.set(func(f *faultyStore) { f.fail = store.ErrUnavailable })
	missing := w.get(explainOne + "?pointer=/component_version").want(200)
	require.Contains(t, missing.header.Get("Warning"), "the revisions that set the values are left out")
	require.NotContains(t, said(), "revision")
	require.NotContains(t, said(), "actor")
}
