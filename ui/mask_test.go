package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// TestSecretsMaskedOnAllPages: values with names of secrets are masked on every page, at any depth; other values are shown.
func TestSecretsMaskedOnAllPages(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	patches := map[string]string{
		"db.password": `"leak-01"`, "tls.key": `"leak-02"`, "key": `"leak-03"`, "sshKey": `"leak-04"`, "passphrase": `"leak-05"`, "db.pass": `"leak-06"`, "pwd": `"leak-07"`,
		"admin": `{"password":"leak-08","user":"plain-1"}`, "list": `[{"token":"leak-09"}]`, "env": `[{"name":"DB_PASSWORD","value":"leak-10"},{"name":"MODE","value":"plain-2"}]`,
		"args": `["--password=leak-11","--verbose=plain-3"]`, "config": `"user: plain-4\npassword: leak-12\n"`, "secrets": `{"a":{"b":"leak-13"},"n":1414141}`, "license_key": `"leak-15"`,
		"keyboard": `"plain-5"`, "existingSecret": `"plain-6"`, "tokens.enabled": `true`, "monkeys": `"plain-7"`,
	}
	var fields []string
	for path, value := range patches {
		fields = append(fields, fmt.Sprintf("%q:%s", path, value))
	}
	for _, more := range []string{"", "-again"} {
		_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
			body := strings.ReplaceAll(strings.Join(fields, ","), `leak-01"`, `leak-01`+more+`"`)
			_, err := tx.Patch(fleet.KindCluster, "cluster-0002", []byte(`{"labels":{"password":"leak-20"},"patches":{"podinfo":{`+body+`}}}`))
			return err
		})
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	seen := ""
	for _, path := range []string{"/ui/changes/4", "/ui/changes/5", "/ui/changes/4/revert", "/ui/changes/5/revert", "/ui/clusters/cluster-0002", "/ui/clusters/cluster-0002/inputs/platform-components/podinfo"} {
		page := env.get(path)
		require.Equal(t, 200, page.status, path)
		require.Empty(t, regexp.MustCompile(`.{0,80}leak-.{0,20}`).FindAllString(page.body, -1), path)
		require.NotContains(t, page.body, "1414141", path)
		require.Regexp(t, "••••••|was changed by a later revision", page.body, path)
		seen += page.body
		if path != "/ui/clusters/cluster-0002" {
			require.Contains(t, page.body, "?reveal=true", path)
		}
		require.Contains(t, env.get(path+"?reveal=true").body, "leak-", path)
	}
	for i := range 7 {
		require.Contains(t, seen, fmt.Sprintf("plain-%d", i+1))
	}
}

// TestSecretsMaskedBesideNull: values with a null are in the input as text, too, in which names mask nothing.
func TestSecretsMaskedBesideNull(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0002", []byte(`{"patches":{"podinfo":{"gone":"null","dsn":"leak-1","jwt":{"a":"leak-2"}}}}`))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	page := env.get("/ui/compare?left=cluster-0002&right=cluster-0001").body
	require.Contains(t, page, "gone")
	require.NotContains(t, page, "leak-")
	require.Contains(t, env.get("/ui/compare?left=cluster-0002&right=cluster-0001&reveal=true").body, "leak-1")
}

// TestRevertPlanListsDocuments: a plan lists every changed document, also without an effect on clusters.
func TestRevertPlanListsDocuments(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	for _, edit := range []func(*fleet.Tx) error{
		func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"deletion_protection":true}`))
			return err
		},
		func(tx *fleet.Tx) error {
			_, err := tx.Create(fleet.KindCluster, []byte(`{"id":"empty","cluster_dns":"empty.example.com","environment":"dev"}`))
			return err
		},
	} {
		_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci"}, edit)
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	protection := env.get("/ui/changes/4/revert").body
	require.Contains(t, protection, "1 document would change")
	require.Contains(t, protection, "deletion_protection")
	require.Regexp(t, `(?s)<del>true</del>.*<ins>false</ins>`, protection)
	require.Regexp(t, `act a-delete">delete</span> cluster <a href="/ui/clusters/empty">empty</a>`, env.get("/ui/changes/5/revert").body)
}

// TestSlowSignInsBlockNobody: many stalled requests without a session do not delay other sign-ins.
func TestSlowSignInsBlockNobody(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	page := env.page("")
	for range 300 {
		stalled := blockedBody{release: make(chan struct{})}
		t.Cleanup(func() { close(stalled.release) })
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/ui/sign-in", stalled)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		go page.ServeHTTP(httptest.NewRecorder(), req)
	}
	form := url.Values{"token": {readToken}}
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/ui/sign-in", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	page.ServeHTTP(rec, req)
	require.Equal(t, http.StatusSeeOther, rec.Code, rec.Body)
}

// blockedBody is a request body that never arrives.
type blockedBody struct{ release chan struct{} }

func (s blockedBody) Read([]byte) (int, error) {
	<-s.release
	return 0, http.ErrBodyReadAfterClose
}
