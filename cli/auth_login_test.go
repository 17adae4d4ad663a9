package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

// TestLogin: the session of auth login is used for reads and changes until auth logout, and only on its server.
func TestLogin(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SignIn(testissuer.Claims{"sub": "00u1", "aud": "fleet"})
	var sent atomic.Pointer[string] // the credential of the last request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credential := r.Header.Get("Authorization")
		sent.Store(&credential)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/auth/issuers":
			_, _ = fmt.Fprintf(w, `[{"name":"corp","url":%q,"client_id":"fleet","scopes":["openid"]},{"name":"other","url":"https://other.example.com","client_id":"x","scopes":["openid"]}]`, issuer.URL())
		case "/auth/sessions":
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"token":"frss_secret","actor":"oidc:corp:ann (00u1)","expires_at":"2026-01-02T11:04:05Z"}`))
		default:
			_, _ = w.Write([]byte(`{"id":"c"}`))
		}
	}))
	t.Cleanup(api.Close)
	config := filepath.Join(t.TempDir(), "config.yaml")
	variables := map[string]string{"FLUX_API_URL": api.URL, "FLUX_RESOURCESET_CONFIG": config, "XDG_STATE_HOME": t.TempDir()}
	exec := func(code int, line string) result {
		t.Helper()
		got := run(t, cli.Env{}, variables, strings.Fields(line)...)
		require.Equal(t, code, got.code, "%s: %s", line, got.stderr)
		return got
	}
	require.Contains(t, exec(2, "auth login").stderr, "--issuer must be one of corp")
	got := exec(0, "auth login --issuer corp --device")
	require.Contains(t, got.stderr, "enter the code ABCD-EFGH")
	require.Contains(t, got.stderr, "Signed in as oidc:corp:ann (00u1)")
	require.Equal(t, 2, strings.Count(*sent.Load(), "."), "the ID token is exchanged")
	info, err := os.Stat(config)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	exec(0, "get cluster c")
	require.Equal(t, "Bearer frss_secret", *sent.Load())
	require.NotContains(t, exec(0, "config view").stdout, "frss_secret")
	require.Contains(t, exec(0, "get cluster c --api-url "+strings.Replace(api.URL, "127.0.0.1", "localhost", 1)).stderr, "are not sent to")
	require.Empty(t, *sent.Load())
	exec(0, "auth logout")
	exec(0, "get cluster c")
	require.Empty(t, *sent.Load())
}

// TestActionsToken: in a job of GitHub Actions the job's ID token is sent, unless there is another credential.
func TestActionsToken(t *testing.T) {
	t.Parallel()
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"value":"token-for-%s"}`, r.URL.Query().Get("audience"))
	}))
	t.Cleanup(github.Close)
	var requests []string
	api := recorder(t, &requests)
	variables := map[string]string{"FLUX_API_URL": api.URL + "/", "ACTIONS_ID_TOKEN_REQUEST_URL": github.URL, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"}
	require.Zero(t, run(t, cli.Env{}, variables, "cluster", "get", "c").code)
	require.Contains(t, requests[0], "Bearer token-for-"+api.URL+" ")
	variables["FLUX_API_TOKEN"] = "mine"
	require.Zero(t, run(t, cli.Env{}, variables, "cluster", "get", "c").code)
	require.Contains(t, requests[1], "Bearer mine ")
}
