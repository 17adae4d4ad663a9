package signin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

func discover(t *testing.T, issuer *testissuer.Issuer) *Provider {
	t.Helper()
	p, err := Discover(t.Context(), Issuer{URL: issuer.URL(), ClientID: "fleet", Scopes: []string{"openid", "email"}})
	require.NoError(t, err)
	return p
}

// visit opens a URL as a browser does, and returns the text of the last page.
func visit(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	rsp, err := new(http.Client).Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, rsp.Body.Close()) }()
	text := make([]byte, 1000)
	n, _ := rsp.Body.Read(text)
	return string(text[:n])
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SignIn(testissuer.Claims{"sub": "00u1", "aud": "fleet"})
	token, err := discover(t, issuer).Browser(t.Context(), func(address string) {
		asked, err := url.Parse(address)
		require.NoError(t, err)
		redirect := asked.Query().Get("redirect_uri")
		require.Regexp(t, `^http://127\.0\.0\.1:\d+/callback$`, redirect)
		require.Contains(t, visit(t, redirect+"?code=stolen&state=guessed"), "not requested here")
		require.Contains(t, visit(t, address), "Signed in")
	})
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(token, "."))
}

// TestBrowserRefused: no answer but that of the issuer to this request is accepted.
func TestBrowserRefused(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SignIn(testissuer.Claims{"nonce": "of another sign-in"})
	_, err := discover(t, issuer).Browser(t.Context(), func(address string) { visit(t, address) })
	require.ErrorContains(t, err, "its nonce differs")
	for query, want := range map[string]string{
		"error=access_denied":                 `refused the sign-in: "access_denied"`,
		"code=x&iss=https://evil.example.com": "from another issuer",
		"":                                    "no code",
		"code=unknown":                        "invalid_grant",
	} {
		_, err := discover(t, issuer).Browser(t.Context(), func(address string) {
			asked, err := url.Parse(address)
			require.NoError(t, err)
			visit(t, asked.Query().Get("redirect_uri")+"?"+query+"&state="+asked.Query().Get("state"))
		})
		require.ErrorContains(t, err, want, query)
	}
}

func TestDevice(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SignIn(testissuer.Claims{"sub": "00u1"})
	shown := ""
	token, err := discover(t, issuer).Device(t.Context(), func(url, code string) { shown = url + " " + code })
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(token, "."))
	require.Equal(t, issuer.URL()+"/activate ABCD-EFGH", shown)
	issuer.SetMetadata("device_authorization_endpoint", "")
	_, err = discover(t, issuer).Device(t.Context(), nil)
	require.ErrorContains(t, err, "has no device grant")
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	_, err := Discover(t.Context(), Issuer{URL: "http://login.example.com"})
	require.ErrorContains(t, err, "not an https:// URL")
	issuer.SetMetadata("token_endpoint", "http://evil.example.com/token")
	_, err = Discover(t.Context(), Issuer{URL: issuer.URL()})
	require.ErrorContains(t, err, "not an https:// URL")
	issuer.SetMetadata("issuer", "https://evil.example.com")
	_, err = Discover(t.Context(), Issuer{URL: issuer.URL()})
	require.ErrorContains(t, err, "names another issuer")
}

func TestActions(t *testing.T) {
	t.Parallel()
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-job" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"value":"` + r.URL.Query().Get("api-version") + "." + r.URL.Query().Get("audience") + `."}`))
	}))
	t.Cleanup(github.Close)
	env := map[string]string{actionsURL: github.URL + "/?api-version=2", actionsToken: "of-the-job"}
	getenv := func(name string) string { return env[name] }
	token, err := Actions(t.Context(), getenv, "https://fleet.example.com")
	require.NoError(t, err)
	require.Equal(t, "2.https://fleet.example.com.", token)
	env[actionsToken] = "wrong"
	_, err = Actions(t.Context(), getenv, "x")
	require.ErrorContains(t, err, "403 Forbidden")
	env[actionsURL] = "http://evil.example.com"
	_, err = Actions(t.Context(), getenv, "x")
	require.ErrorContains(t, err, "not an https:// URL")
	delete(env, actionsToken)
	token, err = Actions(t.Context(), getenv, "x")
	require.NoError(t, err)
	require.Empty(t, token)
}
