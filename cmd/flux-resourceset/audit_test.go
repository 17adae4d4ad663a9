package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// TestAuditOutput: a process writes events to a file, until its end; sign-ins and sign-outs of the page are among them, and no secret is.
func TestAuditOutput(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT="+file, `OIDC_ISSUERS=[{name: corp, url: "`+issuer.URL()+`", client_id: fleet}]`)
	reader := p.signIn(readToken)
	require.Equal(t, http.StatusForbidden, p.page("/ui/webhooks", reader).StatusCode)
	session := p.signIn(writeToken)
	require.Equal(t, http.StatusSeeOther, p.post("/ui/sign-out", session, url.Values{}).StatusCode)
	require.Equal(t, http.StatusUnauthorized, p.post("/ui/sign-in", nil, url.Values{"token": {"wrong-token-of-nobody"}}).StatusCode)
	created := p.send("POST", "/tokens", `{"name":"poll-demo","role":"poll","cluster_id":"demo-cluster-01"}`)
	require.Equal(t, http.StatusCreated, created.status, created.body)
	var poller struct{ ID, Token string }
	require.NoError(t, json.Unmarshal([]byte(created.body), &poller))
	require.Equal(t, http.StatusForbidden, p.post("/ui/sign-in", nil, url.Values{"token": {poller.Token}}).StatusCode)
	began := p.page("/ui/sign-in/issuer?name=corp", nil)
	at, err := url.Parse(began.Header.Get("Location"))
	require.NoError(t, err)
	denied := url.Values{"state": {at.Query().Get("state")}, "error": {"access_denied"}}
	require.GreaterOrEqual(t, p.page("/ui/sign-in/callback?"+denied.Encode(), began.Cookies()[0]).StatusCode, 400)
	signedIn := issuer.Token(testissuer.Claims{"aud": "fleet", "sub": "00u1", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	require.Equal(t, http.StatusCreated, p.send("POST", "/auth/sessions", "", "Authorization", "Bearer "+signedIn).status)
	require.Equal(t, http.StatusOK, p.send("POST", "/access/sessions/end", `{"issuer":"corp","sub":"00u1"}`).status)
	require.Contains(t, p.send("GET", "/metrics", "").body, `flux_resourceset_audit_events_total{result="dropped"} 0`)
	require.NoError(t, p.Stop(), p.Log())

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		var e struct {
			Type  string
			Actor struct{ Name, Issuer, Credential string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		got = append(got, strings.TrimPrefix(e.Type, "fleet.audit.")+" "+e.Actor.Name+" "+e.Actor.Issuer+" "+e.Actor.Credential)
	}
	require.Equal(t, []string{
		"sign_in static-read  static-read", "refused static-read  static-read",
		"sign_in static-write  static-write", "signed_out static-write  static-write", "sign_in_failed   ",
		"token_issued static-write  static-write", "sign_in_failed token:poll-demo (" + poller.ID + ")  token", "sign_in_failed  corp ",
		"sign_in oidc:corp:00u1 (00u1) corp id-token", "sessions_ended static-write  static-write",
	}, got)
	for _, secret := range []string{writeToken, poller.Token, "wrong-token", signedIn, session.Value} {
		require.NotContains(t, string(text), secret)
	}

	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT=/dev/null/nothing")
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.Log(), "AUDIT_OUTPUT: the audit log cannot be opened")
}

// TestStandardOutputClosed: a process continues when the reader of its audit log ends.
func TestStandardOutputClosed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	server, err := testrig.StartServer(testrig.Program{Path: "/bin/bash", Args: []string{"-c", `exec "$0" > >(true)`, self}, Env: []string{
		runAsProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AUTH_TOKEN=" + readToken, "CRUD_AUTH_TOKEN=" + writeToken, "SEED_ACCEPT=true",
		"API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE=" + demoSeed, "AUDIT_OUTPUT=stdout",
	}})
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	p := &program{t, server}
	for range 3 {
		require.Equal(t, http.StatusUnauthorized, p.send("GET", "/clusters", "", "Authorization", "Bearer wrong").status)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(p.send("GET", "/metrics", "").body, `flux_resourceset_audit_events_total{result="failed"} 3`)
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.Stop(), p.Log())
}
