package server_test

import (
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// newIssuer returns an issuer, and the configuration that accepts its tokens.
func newIssuer(t *testing.T, now func() time.Time) (*testissuer.Issuer, *server.Issuers) {
	t.Helper()
	issuer := testissuer.New(t)
	issuers, err := server.NewIssuers(t.Context(), server.IssuersConfig{
		Issuers: []server.Issuer{{Name: "corp", URL: issuer.URL(), ClientID: "fleet", Audiences: []string{"https://fleet.example.com"}, GroupsClaim: "groups", UserClaim: "email"}},
		Logger:  slog.New(slog.DiscardHandler), Now: now,
	})
	require.NoError(t, err)
	return issuer, issuers
}

// setupIssuer returns a world that accepts the tokens of an issuer.
func setupIssuer(t *testing.T, o options) (*world, *testissuer.Issuer) {
	t.Helper()
	now := &clock{now: start}
	issuer, issuers := newIssuer(t, now.Now)
	configure := o.configure
	o.configure = func(cfg *server.Config) {
		cfg.Issuers, cfg.Now = issuers, now.Now
		if configure != nil {
			configure(cfg)
		}
	}
	w := setupWith(t, o)
	w.clock = now
	return w, issuer
}

// idClaims returns the claims of a valid ID token, with changes.
func idClaims(changes testissuer.Claims) testissuer.Claims {
	claims := testissuer.Claims{"aud": "fleet", "sub": "00u1", "email": "ann@example.com", "exp": start.Add(time.Hour).Unix(), "iat": start.Unix()}
	maps.Copy(claims, changes)
	return claims
}

// TestIDTokenWithoutAccess: a valid ID token has no rights without an access document.
func TestIDTokenWithoutAccess(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	bearer := "Bearer " + issuer.Token(idClaims(nil))
	for _, try := range []struct{ method, path, body string }{
		{http.MethodGet, "/clusters", ""},
		{http.MethodGet, "/tokens", ""},
		{http.MethodPost, "/plan", `{"operations":[]}`},
		{http.MethodDelete, demoCluster, ""},
		{http.MethodPost, "/tokens", `{"name":"mine","role":"admin"}`},
		{http.MethodGet, "/api/v2/flux/clusters", ""},
	} {
		require.Contains(t, string(w.do(try.method, try.path, try.body, "Authorization", bearer).problem(http.StatusForbidden, "forbidden").body), "no access document", try.path)
	}
	refused := w.logs.lines(t, "request refused")
	require.Equal(t, "oidc:corp:ann@example.com (00u1)", refused[0]["actor"])
	require.Equal(t, 1, issuer.Fetches())
}

// TestIDTokenRefused: 401 has the reason, in the answer and in the log, and neither has the token.
func TestIDTokenRefused(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	for name, test := range map[string]struct{ token, detail, reason string }{
		"wrong audience":  {issuer.Token(idClaims(testissuer.Claims{"aud": "other"})), `its audience (aud) is "other"`, "unknown"},
		"clock differs":   {issuer.Token(idClaims(testissuer.Claims{"nbf": start.Add(5 * time.Minute).Unix()})), "it becomes valid in 4m59s by the clock of this server", "unknown"},
		"expired":         {issuer.Token(idClaims(testissuer.Claims{"exp": start.Add(-5 * time.Minute).Unix()})), "it expired 5m", "expired"},
		"not a JWT":       {"mistyped", "the bearer token is unknown", "unknown"},
		"unsigned":        {"eyJhbGciOiJub25lIn0.e30.", "not a JSON Web Token signed with", "unknown"},
		"a revoked token": {w.revokedSecret(), "the bearer token is unknown", "unknown"},
	} {
		failures := w.metric(`flux_resourceset_auth_failures_total{reason="` + test.reason + `"}`)
		answer := w.get("/clusters", "Authorization", "Bearer "+test.token).problem(http.StatusUnauthorized, "unauthorized")
		require.Contains(t, answer.json()["detail"], test.detail, name)
		require.NotContains(t, string(answer.body), test.token, name)
		require.Contains(t, answer.header.Get("Www-Authenticate"), `error="invalid_token"`, name)
		require.Equal(t, failures+1, w.metric(`flux_resourceset_auth_failures_total{reason="`+test.reason+`"}`), name)
		require.NotContains(t, w.logs.String(), test.token, name)
	}
	require.Contains(t, w.logs.String(), `"detail":"the ID token is refused: it is for another service`)
}

// revokedSecret is the secret of a managed token that was revoked.
func (w *world) revokedSecret() string {
	w.t.Helper()
	token := w.issue(`{"name":"revoked","role":"read"}`)
	w.delete("/tokens/" + token.id).want(http.StatusOK)
	return token.secret
}

func TestTwoTokensWithIssuers(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	for _, second := range []string{"Bearer " + writeToken, "Bearer " + issuer.Token(idClaims(nil)), "Basic eA=="} {
		req := w.request(http.MethodGet, "/clusters", "")
		req.Header.Add("Authorization", second)
		require.Contains(t, w.send(req).problem(http.StatusUnauthorized, "unauthorized").json()["detail"], "more than one Authorization header")
	}
}

// TestPollsIgnoreIDTokens: neither a poll nor a read-only server accepts an ID token, or asks the issuer because of one.
func TestPollsIgnoreIDTokens(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	issuer.AddKey("second", "EdDSA", nil)
	w.clock.advance(2 * time.Minute)
	bearer := "Bearer " + issuer.TokenOf("second", idClaims(nil))
	for _, list := range []string{"platform-components", "namespaces", "rolebindings", "unknown-type"} {
		w.get(demoPolls+"/"+list, "Authorization", bearer).problem(http.StatusUnauthorized, "unauthorized")
	}
	readOnly, other := setupIssuer(t, options{mode: server.ModeReadOnly})
	readOnly.get("/whoami", "Authorization", "Bearer "+other.Token(idClaims(nil))).problem(http.StatusUnauthorized, "unauthorized")
	readOnly.get("/api/v2/flux/clusters", "Authorization", "Bearer "+other.Token(idClaims(nil))).problem(http.StatusUnauthorized, "unauthorized")
	require.Equal(t, 1, issuer.Fetches())
	require.Equal(t, 1, other.Fetches())
}

// TestIDTokenGuesses: forged tokens lock an address out, as wrong tokens do; a token that was verified before still works.
func TestIDTokenGuesses(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	known := "Bearer " + issuer.Token(idClaims(nil))
	w.get("/clusters", "Authorization", known).want(http.StatusForbidden)
	forged := strings.TrimSuffix(known, known[len(known)-8:]) + "AAAAAAAA"
	counts := map[int]int{}
	for range 200 {
		counts[w.get("/clusters", "Authorization", forged).status]++
	}
	require.Positive(t, counts[http.StatusTooManyRequests])
	w.get("/clusters", "Authorization", "Bearer "+writeToken).want(http.StatusTooManyRequests)
	w.get("/clusters", "Authorization", known).want(http.StatusForbidden)
}

// TestIssuerUnavailable: while no keys are known the token may be valid, so the answer is 503.
func TestIssuerUnavailable(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	issuer.Stop()
	w.clock.advance(25 * time.Hour)
	token := issuer.Token(idClaims(testissuer.Claims{"exp": start.Add(48 * time.Hour).Unix()}))
	w.get("/clusters", "Authorization", "Bearer "+token).problem(http.StatusServiceUnavailable, "issuer_unavailable")
}

// TestNoIssuers: without issuers an ID token is a wrong token, and no metric names the credential.
func TestNoIssuers(t *testing.T) {
	t.Parallel()
	w, issuer := setup(t), testissuer.New(t)
	answer := w.get("/clusters", "Authorization", "Bearer "+issuer.Token(idClaims(nil))).problem(http.StatusUnauthorized, "unauthorized")
	require.Equal(t, "the bearer token is unknown: it is wrong, was revoked, or belongs to another server", answer.json()["detail"])
	answer = w.get("/clusters", "Authorization", "Basic Zmx1eDpzZWNyZXQ=").problem(http.StatusUnauthorized, "unauthorized")
	require.Contains(t, answer.json()["detail"], "basic authentication is not supported")
	for _, header := range []string{"Digest username=flux", "Token " + readToken, readToken, "Bearer", "basic"} {
		answer = w.get("/clusters", "Authorization", header).problem(http.StatusUnauthorized, "unauthorized")
		require.Equal(t, "the header Authorization has no bearer token: send Authorization: Bearer, a space and the token", answer.json()["detail"])
	}
	require.NotContains(t, string(w.get("/metrics").body), "id-token")
	require.Zero(t, issuer.Fetches())
	req := w.request(http.MethodGet, "/clusters", "")
	req.Header.Add("Authorization", "Bearer other")
	w.send(req).want(http.StatusOK)
}

// TestSession: an ID token of a person becomes a session, with the same identity on every server with the key, for 8 hours.
func TestSession(t *testing.T) {
	t.Parallel()
	keys := func(keys ...string) options {
		return options{configure: func(cfg *server.Config) { cfg.SessionKeys = keys }}
	}
	const key = "a-key-of-sessions-that-nobody-guesses"
	w, issuer := setupIssuer(t, keys(key))
	require.JSONEq(t, `[{"name":"corp","url":"`+issuer.URL()+`","client_id":"fleet","scopes":["openid","profile","email"]}]`, string(w.get("/auth/issuers", "Authorization", "").want(http.StatusOK).body))
	begun := w.do(http.MethodPost, "/auth/sessions", "", bearer(issuer.Token(idClaims(nil)))...).want(http.StatusCreated).json()
	require.Equal(t, "oidc:corp:ann@example.com (00u1)", begun["actor"])
	require.Equal(t, "2026-01-02T11:04:05Z", begun["expires_at"])
	token := begun["token"].(string)

	same, _ := setupIssuer(t, keys("another-key-of-sessions-after-a-rotation", key))
	for _, each := range []*world{w, same} {
		require.Contains(t, string(each.get("/clusters", bearer(token)...).problem(http.StatusForbidden, "forbidden").body), "no access document")
		require.Equal(t, "oidc:corp:ann@example.com (00u1)", each.logs.lines(t, "request refused")[0]["actor"])
		each.get(demoPolls+"/namespaces", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized")
		require.NotContains(t, each.logs.String(), token)
	}
	other, _ := setupIssuer(t, keys())
	require.Contains(t, other.get("/clusters", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized").json()["detail"], "the key of the server was replaced")
	setup(t).get("/clusters", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized")

	require.Contains(t, w.do(http.MethodPost, "/auth/sessions", "", bearer(token)...).problem(http.StatusForbidden, "forbidden").json()["detail"], "begins with the ID token of a person", "a session does not prolong itself")
	w.clock.advance(8 * time.Hour)
	require.Contains(t, w.get("/clusters", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized").json()["detail"], "the session has expired")
	require.InDelta(t, 1, w.metric(`flux_resourceset_auth_failures_total{reason="expired"}`), 0)
}

// TestSessionKeepsRights: a session has the rights of its ID token, also by a claim, and for a person in too many groups.
func TestSessionKeepsRights(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	w.create("/access", `{"id":"by-group","subjects":[{"issuer":"corp","groups":["team-web"]}],"may":["read"]}`)
	w.create("/access", `{"id":"by-claim","subjects":[{"issuer":"corp","claims":{"department":"platform"}}],"may":["read"]}`)
	for name, changes := range map[string]testissuer.Claims{
		"a claim":     {"department": "platform"},
		"many groups": {"groups": append(make([]string, 200), "team-web")},
	} {
		begun := w.do(http.MethodPost, "/auth/sessions", "", bearer(issuer.Token(idClaims(changes)))...).want(http.StatusCreated).json()
		require.Equal(t, http.StatusOK, w.get("/clusters", bearer(begun["token"].(string))...).status, name)
	}
}

// TestEndSessions: sessions and ID tokens of a person, or of all people of an issuer, end; later ones and workloads are accepted.
func TestEndSessions(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{configure: func(cfg *server.Config) { cfg.SessionKeys = []string{"a-key-of-sessions-that-nobody-guesses"} }})
	signIn := func(sub string) (idToken, session string) {
		now := w.clock.Now()
		idToken = issuer.Token(idClaims(testissuer.Claims{"sub": sub, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}))
		return idToken, w.do(http.MethodPost, "/auth/sessions", "", bearer(idToken)...).want(http.StatusCreated).json()["token"].(string)
	}
	annToken, ann := signIn("00u1")
	_, bob := signIn("00u2")
	ofWorkload := func(sub string) string {
		return issuer.Token(idClaims(testissuer.Claims{"sub": sub, "aud": "https://fleet.example.com"}))
	}
	workload := ofWorkload("robot")
	w.clock.advance(time.Minute)
	ahead := issuer.Token(idClaims(testissuer.Claims{"sub": "00u1", "iat": w.clock.Now().Add(time.Minute).Unix(), "exp": w.clock.Now().Add(time.Hour).Unix()}))
	w.get("/whoami", bearer(ahead)...).want(http.StatusOK)
	w.unchanged(func() {
		w.post("/access/sessions/end", `{"issuer":"other"}`).problem(http.StatusBadRequest, "validation_error")
		w.post("/access/sessions/end?dry_run=true", `{"issuer":"corp"}`).want(http.StatusOK)
	})
	ended := w.post("/access/sessions/end", `{"issuer":"corp","sub":"00u1"}`).want(http.StatusOK).json()
	require.Equal(t, "2026-01-02T03:05:05.678901Z", ended["not_before"])
	for _, token := range []string{ann, annToken, ahead, ofWorkload("00u1")} {
		require.Contains(t, w.get("/clusters", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized").json()["detail"], "an admin ended the sessions")
	}
	for _, token := range []string{annToken, ahead} {
		w.do(http.MethodPost, "/auth/sessions", "", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized")
	}
	w.get("/whoami", bearer(bob)...).want(http.StatusOK)
	w.get("/whoami", bearer(workload)...).want(http.StatusOK)
	w.clock.advance(time.Minute + time.Second)
	_, again := signIn("00u1")
	w.get("/whoami", bearer(again)...).want(http.StatusOK)

	w.clock.advance(time.Minute)
	w.post("/access/sessions/end", `{"issuer":"corp"}`).want(http.StatusOK)
	for _, token := range []string{again, bob} {
		w.get("/whoami", bearer(token)...).problem(http.StatusUnauthorized, "unauthorized")
	}
	w.get("/whoami", bearer(workload)...).want(http.StatusOK)
	last := w.post("/access/sessions/end", `{"issuer":"corp","sub":"00u2"}`).want(http.StatusOK).header.Get("X-Fleet-Revision")
	require.Equal(t, "end_sessions", at(w.get("/revisions/"+last).want(http.StatusOK).json(), "operations", 0, "op"))
}

// TestSessionDuringOutage: while the issuer does not answer, sessions go on and none begin.
func TestSessionDuringOutage(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	late := start.Add(25 * time.Hour)
	fresh := issuer.Token(idClaims(testissuer.Claims{"iat": late.Unix(), "exp": late.Add(time.Hour).Unix()}))
	w.clock.advance(20 * time.Hour) // the keys are 20 hours old
	begun := w.do(http.MethodPost, "/auth/sessions", "", bearer(issuer.Token(idClaims(testissuer.Claims{"iat": start.Add(20 * time.Hour).Unix(), "exp": start.Add(21 * time.Hour).Unix()})))...).want(http.StatusCreated).json()
	issuer.Stop()
	w.clock.advance(5 * time.Hour)
	w.do(http.MethodPost, "/auth/sessions", "", bearer(fresh)...).problem(http.StatusServiceUnavailable, "issuer_unavailable")
	w.get("/clusters", bearer(begun["token"].(string))...).want(http.StatusForbidden)
	w.get("/clusters", "Authorization", "Bearer "+writeToken).want(http.StatusOK)
}

// TestNoSession: sessions begin only with a recent ID token of a person.
func TestNoSession(t *testing.T) {
	t.Parallel()
	w, issuer := setupIssuer(t, options{})
	groups := make([]string, 65)
	for name, test := range map[string]struct{ token, detail string }{
		"a static token":   {writeToken, "begins with the ID token"},
		"a managed token":  {w.issue(`{"name":"admin","role":"admin"}`).secret, "begins with the ID token"},
		"an old sign-in":   {issuer.Token(idClaims(testissuer.Claims{"iat": start.Add(-9 * time.Hour).Unix()})), "more than 8 hours ago"},
		"a pipeline's":     {issuer.Token(idClaims(testissuer.Claims{"aud": "https://fleet.example.com"})), "begins with the ID token"},
		"another client's": {issuer.Token(idClaims(testissuer.Claims{"azp": "https://fleet.example.com"})), "begins with the ID token"},
		"too many groups":  {issuer.Token(idClaims(testissuer.Claims{"groups": groups})), "at most 64 groups"},
	} {
		require.Contains(t, w.do(http.MethodPost, "/auth/sessions", "", bearer(test.token)...).problem(http.StatusForbidden, "forbidden").json()["detail"], test.detail, name)
	}
	withoutTime := bearer(issuer.Token(idClaims(testissuer.Claims{"iat": "x"}))) // its end could not be decided
	require.Contains(t, w.get("/whoami", withoutTime...).problem(http.StatusUnauthorized, "unauthorized").json()["detail"], "iat is missing")
	w.do(http.MethodPost, "/auth/sessions", "", "Authorization", "").problem(http.StatusUnauthorized, "unauthorized")
	require.JSONEq(t, `[]`, string(setup(t).get("/auth/issuers").want(http.StatusOK).body))
}
