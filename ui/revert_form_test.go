package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

var planHashField = regexp.MustCompile(`name="plan_hash" value="([^"]+)"`)

// enableChanges makes the page offer changes.
func (env *testEnv) enableChanges() {
	env.t.Helper()
	env.http.Close()
	env.http = httptest.NewServer(env.page("", true))
	env.t.Cleanup(env.http.Close)
}

func (env *testEnv) planHash(path string) string {
	env.t.Helper()
	found := planHashField.FindStringSubmatch(env.get(path).body)
	require.Len(env.t, found, 2)
	return found[1]
}

// TestLateRevertAcknowledgment: a revert that the API acknowledges after the timeout of the page is reported as done.
func TestLateRevertAcknowledgment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]string{
			"/whoami":  `{"actor":"x","credential":"token","role":"write","cluster_dns":[],"may":["read","write"],"mode":"crud"}`,
			"/plan":    `{"base_revision":6,"plan_hash":"h","changes":[],"groups":[],"ownership":[],"results":[],"warnings":[],"totals":{}}`,
			"/freezes": `[]`,
			"/batch":   `{"revision":7,"changes":[],"results":[],"plan_hash":"h","warnings":[]}`,
		}
		page, err := ui.New(ui.Config{Changes: true, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/batch" {
				time.Sleep(time.Minute) // of the bubble's time
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answers[r.URL.Path])
		})})
		require.NoError(t, err)
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, local(http.MethodPost, "http://127.0.0.1/ui/sign-in", url.Values{"token": {"x"}}.Encode()))
		req := local(http.MethodPost, "http://127.0.0.1/ui/changes/3/revert", url.Values{"plan_hash": {"h"}, "reason": {"x"}}.Encode())
		req.AddCookie(rec.Result().Cookies()[0])
		rec = httptest.NewRecorder()
		page.ServeHTTP(rec, req)
		require.Equal(t, "/ui/changes/7", rec.Header().Get("Location"), rec.Body)
	})
}

// TestRevertConflict: the plan names the values that later revisions changed, and offers no form.
func TestRevertConflict(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.enableChanges()
	_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"patches":{"grafana":{"replicas":5}}}`))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	page := env.get("/ui/changes/3/revert")
	require.Equal(t, 200, page.status)
	require.Contains(t, page.body, "replicas")
	require.Contains(t, page.body, "--theirs")
	require.NotContains(t, page.body, "plan_hash")
}
