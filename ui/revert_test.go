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

var planHash = regexp.MustCompile(`name="plan_hash" value="([^"]+)"`)

// withChanges has the page offer changes.
func (w *world) withChanges() {
	w.t.Helper()
	w.http.Close()
	w.http = httptest.NewServer(w.page("", true))
	w.t.Cleanup(w.http.Close)
}

func (w *world) hash(path string) string {
	w.t.Helper()
	found := planHash.FindStringSubmatch(w.get(path).body)
	require.Len(w.t, found, 2)
	return found[1]
}

// A revision is reverted by the plan that was looked at, by who may, with a reason, once.
func TestRevert(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	w.withChanges()
	const path = "/ui/changes/3/revert"
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	require.NotContains(t, w.get(path).body, "plan_hash", "what a token may not do is not offered")
	require.Equal(t, http.StatusForbidden, w.send(w.client, http.MethodPost, path, url.Values{"reason": {"x"}, "plan_hash": {"x"}}).status)

	require.Equal(t, http.StatusSeeOther, w.signIn(writeToken).status)
	hash := w.hash(path)
	for name, form := range map[string]url.Values{"no reason": {"plan_hash": {hash}}, "no plan": {"reason": {"x"}}, "blank": {"plan_hash": {hash}, "reason": {"  "}}} {
		rsp := w.send(w.client, http.MethodPost, path, form)
		require.Equal(t, http.StatusBadRequest, rsp.status, name)
		require.Contains(t, rsp.body, `role="alert"`, name)
	}
	rsp := w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {"0" + hash[1:]}, "reason": {"x"}})
	require.Equal(t, http.StatusPreconditionFailed, rsp.status, rsp.body)
	require.Contains(t, rsp.body, "nothing was done")
	require.EqualValues(t, 3, w.replica.State().Revision(), "nothing was")

	foreign := w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {hash}, "reason": {"x"}}, "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, foreign.status)
	require.EqualValues(t, 3, w.replica.State().Revision())

	done := w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {hash}, "reason": {"the trial is over"}})
	require.Equal(t, "/ui/changes/4", done.header.Get("Location"), done.body)
	change := w.get("/ui/changes/4").body
	require.Contains(t, change, "the trial is over")
	require.Contains(t, change, "static-write")
	again := w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {hash}, "reason": {"me too"}})
	require.Equal(t, http.StatusPreconditionFailed, again.status)
	require.Contains(t, again.body, "Nothing of it is left")
	require.EqualValues(t, 4, w.replica.State().Revision())
}

// A token that is revoked between the plan and the revert reverts nothing.
func TestRevertAfterRevocation(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	w.withChanges()
	require.Equal(t, http.StatusSeeOther, w.signIn(w.issue("editor", "write")).status)
	hash := w.hash("/ui/changes/3/revert")
	w.revoke("editor")
	before := w.replica.State().Revision()
	rsp := w.send(w.client, http.MethodPost, "/ui/changes/3/revert", url.Values{"plan_hash": {hash}, "reason": {"x"}})
	require.Contains(t, rsp.header.Get("Location"), "/ui/sign-in")
	require.Equal(t, before, w.replica.State().Revision())
}

// A revert that the API acknowledges after the page's time is up was made, and is not said to have failed.
func TestRevertThatTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]string{
			"/whoami": `{"actor":"x","credential":"token","role":"write","cluster_dns":[],"may":["read","write"],"mode":"crud"}`,
			"/plan":   `{"base_revision":6,"plan_hash":"h","changes":[],"groups":[],"ownership":[],"results":[],"warnings":[],"totals":{}}`,
			"/batch":  `{"revision":7,"changes":[],"results":[],"plan_hash":"h","warnings":[]}`,
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

// What was changed again since is named, and nothing is reverted.
func TestRevertConflict(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	w.withChanges()
	_, err := w.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"patches":{"grafana":{"replicas":5}}}`))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, w.signIn(writeToken).status)
	page := w.get("/ui/changes/3/revert")
	require.Equal(t, 200, page.status)
	require.Contains(t, page.body, "replicas")
	require.Contains(t, page.body, "--theirs")
	require.NotContains(t, page.body, "plan_hash")
}

// Where something goes from a protected environment, its name is typed.
func TestRevertProtected(t *testing.T) {
	t.Parallel()
	w := setup(t, 8)
	w.withChanges()
	_, err := w.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		if _, err := tx.Create(fleet.KindComponent, []byte(`{"id":"loki","component_path":"loki","oci_url":"https://charts.example.com"}`)); err != nil {
			return err
		}
		_, err := tx.Assign("cluster-0003", fleet.KindComponent, "loki", nil)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, w.signIn(writeToken).status)
	const path = "/ui/changes/4/revert"
	require.Contains(t, w.get(path).body, "Something goes from <b>prod</b>")
	hash := w.hash(path)
	for _, typed := range []string{"", "pro", "qa"} {
		require.Equal(t, http.StatusBadRequest, w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {hash}, "reason": {"x"}, "confirm": {typed}}).status, typed)
	}
	require.EqualValues(t, 4, w.replica.State().Revision())
	require.Equal(t, "/ui/changes/5", w.send(w.client, http.MethodPost, path, url.Values{"plan_hash": {hash}, "reason": {"x"}, "confirm": {"prod"}}).header.Get("Location"))
}

// Without the switch nothing is offered, whoever asks.
func TestNoChanges(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, w.signIn(writeToken).status)
	require.NotContains(t, w.get("/ui/changes/3/revert").body, "plan_hash")
	require.Equal(t, http.StatusMethodNotAllowed, w.send(w.client, http.MethodPost, "/ui/changes/3/revert", url.Values{"plan_hash": {"x"}, "reason": {"x"}}).status)
}
