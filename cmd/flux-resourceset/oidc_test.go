package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

// TestIssuersSetting: a process identifies the holder of an ID token; a wrong setting stops the start, with all problems at once.
func TestIssuersSetting(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	run := func(issuers string) *program {
		return start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "OIDC_ISSUERS="+issuers)
	}
	p := run(`[{name: corp, url: "` + issuer.URL() + `", client_id: fleet}]`)
	token := issuer.Token(testissuer.Claims{"aud": "fleet", "sub": "00u1", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	require.Equal(t, 403, p.send("GET", "/clusters", "", "Authorization", "Bearer "+token).status)
	require.Eventually(t, func() bool { return strings.Contains(p.Log(), "oidc:corp:00u1 (00u1)") }, waitFor, tick)
	require.NotContains(t, p.Log(), token)

	for setting, want := range map[string]string{
		`[{name: A, url: "http://a"}]`: "OIDC_ISSUERS: issuer \"A\": name must|OIDC_ISSUERS: issuer \"A\": url \"http://a\" must start with https://|needs client_id or audiences",
		`{`:                            "OIDC_ISSUERS: must be a list",
	} {
		p := run(setting)
		require.Equal(t, 2, p.exit(), setting)
		for each := range strings.SplitSeq(want, "|") {
			require.Contains(t, p.Log(), each)
		}
	}
	issuer.SetMetadata("issuer", "https://evil.example.com")
	mismatch := run(`[{name: corp, url: "` + issuer.URL() + `", client_id: fleet}]`)
	require.Equal(t, 1, mismatch.exit())
	require.Contains(t, mismatch.Log(), "the issuer in the discovery document differs")
}

// TestPageSignIn: a person signs in on the page of a process; without an access document the page shows the reason.
func TestPageSignIn(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SignIn(testissuer.Claims{"aud": "fleet", "sub": "00u1", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", `OIDC_ISSUERS=[{name: corp, url: "`+issuer.URL()+`", client_id: fleet}]`)
	began := p.page("/ui/sign-in/issuer?name=corp", nil)
	require.Equal(t, http.StatusSeeOther, began.StatusCode)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, began.Header.Get("Location"), nil)
	require.NoError(t, err)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	back, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, back.Body.Close())
	path, ok := strings.CutPrefix(back.Header.Get("Location"), p.Base)
	require.True(t, ok)
	require.Equal(t, http.StatusForbidden, p.page(path, began.Cookies()[0]).StatusCode)
}

// TestIssuerDownAtStart: a process that starts while the issuer is down verifies tokens with the keys in STATE_DIR, and accepts
// sessions from before a rotation of SESSION_KEY until the old key is removed.
func TestIssuerDownAtStart(t *testing.T) {
	t.Parallel()
	issuer, dir := testissuer.New(t), t.TempDir()
	run := func(settings ...string) *program {
		return start(t, append(settings, "API_MODE=crud", "DATABASE_URL=sqlite://"+filepath.Join(dir, "fleet.db"), "SEED_FILE="+demoSeed, "STATE_DIR="+filepath.Join(dir, "state"),
			`OIDC_ISSUERS=[{name: corp, url: "`+issuer.URL()+`", client_id: fleet}]`)...)
	}
	signedIn := func(person string) string {
		return "Bearer " + issuer.Token(testissuer.Claims{"aud": "fleet", "sub": person, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	}
	const oldKey, newKey = "SESSION_KEY=" + pageKey, "SESSION_KEY=another-key-that-nobody-guesses-00"
	first := run(oldKey)
	begun := first.send(http.MethodPost, "/auth/sessions", "", "Authorization", signedIn("00u1"))
	require.Equal(t, http.StatusCreated, begun.status, begun.body)
	var session struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(begun.body), &session))
	first.Kill()
	issuer.Stop()

	rotated := run(newKey, "SESSION_KEY_PREVIOUS="+pageKey)
	require.Equal(t, http.StatusCreated, rotated.send(http.MethodPost, "/auth/sessions", "", "Authorization", signedIn("00u2")).status)
	require.Contains(t, rotated.Log(), "the keys of an issuer could not be fetched")
	require.Equal(t, http.StatusForbidden, rotated.send(http.MethodGet, "/clusters", "", "Authorization", "Bearer "+session.Token).status)
	rotated.Kill()
	require.Equal(t, http.StatusUnauthorized, run(newKey).send(http.MethodGet, "/clusters", "", "Authorization", "Bearer "+session.Token).status)
}
