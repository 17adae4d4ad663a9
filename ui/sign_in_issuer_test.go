package ui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

// issuers implements Issuers, like a server.
type issuers struct{ *server.Issuers }

func signIn(in ui.IssuerSignIn) server.IssuerSignIn {
	return server.IssuerSignIn{Issuer: in.Issuer, RedirectURL: in.RedirectURL, State: in.State, Nonce: in.Nonce, Verifier: in.Verifier}
}

func (i issuers) Names() []string { return i.CanSignIn() }

func (i issuers) URL(in ui.IssuerSignIn) (string, error) { return i.SignInURL(signIn(in)) }

func (i issuers) IDToken(ctx context.Context, in ui.IssuerSignIn, answer url.Values) (token, reason string, err error) {
	token, err = i.FinishSignIn(ctx, signIn(in), answer)
	if refused, ok := errors.AsType[*server.IDTokenError](err); ok {
		reason = refused.Reason
	}
	return token, reason, err
}

// setupIssuer returns a fleet with a page on which people sign in at two issuers. The API answers each ID token with a session that
// has the rights of the read token.
func setupIssuer(t *testing.T) (env *testEnv, corp, labs *testissuer.Issuer) {
	t.Helper()
	env, corp, labs = setupEmpty(t), testissuer.New(t), testissuer.New(t)
	for _, issuer := range []*testissuer.Issuer{corp, labs} {
		issuer.SignIn(testissuer.Claims{"sub": "00u1", "aud": "fleet", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	}
	verifier, err := server.NewIssuers(t.Context(), server.IssuersConfig{
		Issuers: []server.Issuer{{Name: "corp", URL: corp.URL(), ClientID: "fleet"}, {Name: "labs", URL: labs.URL(), ClientID: "fleet"}}, Logger: slog.New(slog.DiscardHandler), Now: env.now,
	})
	require.NoError(t, err)
	env.issuers = issuers{verifier}
	env.wrapAPI = func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/auth/sessions" || strings.Count(r.Header.Get("Authorization"), ".") != 2 {
				api.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"token":"` + readToken + `","actor":"oidc:corp:00u1 (00u1)","expires_at":"2099-01-02T11:04:05Z"}`))
		})
	}
	env.http.Close()
	env.http = httptest.NewServer(env.page(sessionKey))
	t.Cleanup(env.http.Close)
	return env, corp, labs
}

// start begins a sign-in, and returns the path to which the issuer sends the browser back.
func (env *testEnv) start(issuer, to string) string {
	env.t.Helper()
	began := env.get("/ui/sign-in/issuer?" + url.Values{"name": {issuer}, "to": {to}}.Encode())
	require.Equal(env.t, http.StatusSeeOther, began.status, began.body)
	cookie := began.header.Get("Set-Cookie")
	require.Contains(env.t, cookie, "HttpOnly; SameSite=Lax")
	require.NotContains(env.t, cookie, "00u1")
	req, err := http.NewRequestWithContext(env.t.Context(), http.MethodGet, began.header.Get("Location"), nil)
	require.NoError(env.t, err)
	rsp, err := env.newClient(env.t).Do(req)
	require.NoError(env.t, err)
	require.NoError(env.t, rsp.Body.Close())
	back, ok := strings.CutPrefix(rsp.Header.Get("Location"), env.http.URL)
	require.True(env.t, ok, rsp.Header.Get("Location"))
	return back
}

func TestSignInAtIssuer(t *testing.T) {
	t.Parallel()
	env, _, _ := setupIssuer(t)
	form := env.get("/ui/sign-in").body
	require.Contains(t, form, `href="/ui/sign-in/issuer?name=corp&amp;to=%2fui%2f">Sign in with corp</a>`)
	require.Contains(t, form, ">Sign in with labs</a>")
	back := env.start("corp", "/ui/clusters")
	signedIn := env.get(back)
	require.Equal(t, http.StatusOK, signedIn.status, signedIn.body)
	require.Contains(t, signedIn.body, `url=/ui/clusters`)
	require.Contains(t, strings.Join(signedIn.header.Values("Set-Cookie"), "\n"), "SameSite=Strict")
	for _, cookie := range signedIn.header.Values("Set-Cookie") { // a browser ignores one with Secure over plain HTTP, also its deletion
		require.NotContains(t, cookie, "Secure")
	}
	require.Equal(t, http.StatusOK, env.get("/ui/clusters").status)
	require.Equal(t, http.StatusBadRequest, env.get(back).status, "an answer counts once")
	require.NotContains(t, env.get(env.start("labs", "https://evil.example.com/")).body, "evil")

	require.Equal(t, http.StatusUnauthorized, env.get("/ui/clusters", "Authorization", "Bearer "+writeToken).status, "a session and another token")
	require.Equal(t, http.StatusOK, env.get("/ui/clusters", "Authorization", "Bearer "+readToken).status)
	require.Equal(t, http.StatusOK, env.get("/ui/clusters", "Authorization", "Basic eA==").status, "of a proxy")
}

// TestSignInRefused: no answer but that of the issuer to this browser begins a session.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	env, issuer, _ := setupIssuer(t)
	refused := func(status int, text, path string) {
		t.Helper()
		got := env.get(path)
		require.Equal(t, status, got.status, got.body)
		require.Contains(t, got.body, text)
		require.Equal(t, http.StatusSeeOther, env.get("/ui/clusters").status, "not signed in")
	}
	refused(http.StatusBadRequest, "was not started in this browser", "/ui/sign-in/callback?code=x&state=y")
	state := func() string {
		back, err := url.Parse(env.start("corp", "/ui/"))
		require.NoError(t, err)
		return back.Query().Get("state")
	}
	refused(http.StatusBadRequest, "was not started in this browser", "/ui/sign-in/callback?code=x&state="+state()+"x")
	refused(http.StatusForbidden, "from another issuer", "/ui/sign-in/callback?code=x&iss=https://evil.example.com&state="+state())
	refused(http.StatusForbidden, "refused the sign-in", "/ui/sign-in/callback?error=access_denied&state="+state())
	refused(http.StatusBadGateway, "no usable answer", "/ui/sign-in/callback?code=unknown&state="+state())
	other, err := url.Parse(env.start("labs", "/ui/"))
	require.NoError(t, err)
	refused(http.StatusBadGateway, "no usable answer", "/ui/sign-in/callback?code="+other.Query().Get("code")+"&state="+state())
	issuer.SignIn(testissuer.Claims{"sub": "00u1", "aud": "other", "exp": time.Now().Add(time.Hour).Unix()})
	refused(http.StatusForbidden, "it is for another service", env.start("corp", "/ui/"))
	issuer.SignIn(testissuer.Claims{"sub": "00u1", "aud": "fleet", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "nonce": "of another sign-in"})
	refused(http.StatusForbidden, "its nonce differs", env.start("corp", "/ui/"))
	slow := env.start("corp", "/ui/")
	env.advance(11 * time.Minute)
	refused(http.StatusBadRequest, "took more than 10 minutes", slow)
	require.Equal(t, http.StatusServiceUnavailable, env.get("/ui/sign-in/issuer?name=other").status)
	without := setupEmpty(t)
	require.Equal(t, http.StatusSeeOther, without.get("/ui/sign-in/issuer?name=corp").status, "as any page without a session")
	require.NotContains(t, without.get("/ui/sign-in").body, "Sign in with")
}
