package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

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

// TestAuditOTLP: events are log records with the fields of the lines, and traces go to their own path.
func TestAuditOTLP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var records []*logs.LogRecord
	var service, raw string
	o := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collectorlogs.ExportLogsServiceRequest
		if r.URL.Path != "/v1/logs" || err != nil || proto.Unmarshal(body, &got) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		raw += string(body)
		for _, resource := range got.ResourceLogs {
			service += fmt.Sprint(resource.Resource)
			for _, scope := range resource.ScopeLogs {
				records = append(records, scope.LogRecords...)
			}
		}
	}))
	defer o.Close()
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT="+o.URL)
	require.Equal(t, http.StatusUnauthorized, p.send("GET", "/clusters", "", "Authorization", "Bearer wrong-token-of-nobody").status)
	require.Equal(t, http.StatusCreated, p.send("POST", "/tokens", `{"name":"ci","role":"read"}`).status)
	require.NoError(t, p.Stop(), p.Log()) // events that wait are sent at the end

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, records, 2)
	var got []map[string]string
	for _, r := range records {
		fields := map[string]string{"event": r.EventName, "body": r.Body.GetStringValue(), "severity": r.SeverityNumber.String()}
		for _, a := range r.Attributes {
			fields[a.Key] = cmp.Or(a.Value.GetStringValue(), fmt.Sprint(a.Value.GetIntValue()))
			for _, item := range a.Value.GetArrayValue().GetValues() {
				fields[a.Key] = item.GetStringValue()
			}
		}
		require.NotZero(t, r.TimeUnixNano)
		require.NotEmpty(t, fields["request_id"])
		require.Contains(t, fields["remote"], "127.0.0.1:")
		delete(fields, "request_id")
		delete(fields, "remote")
		got = append(got, fields)
	}
	require.Equal(t, map[string]string{
		"event": "fleet.audit.refused", "body": "fleet.audit.refused", "severity": "SEVERITY_NUMBER_WARN", "decision": "refused", "method": "GET", "operation": "ListClusters",
		"route": "/clusters", "path": "/clusters", "status": "401", "error": "unauthorized", "reason": "unknown",
	}, got[0])
	require.Contains(t, got[1]["documents"], "token/")
	delete(got[1], "documents")
	require.Equal(t, map[string]string{
		"event": "fleet.audit.token_issued", "body": "fleet.audit.token_issued", "severity": "SEVERITY_NUMBER_INFO", "decision": "allowed", "actor.name": "static-write",
		"actor.credential": "static-write", "method": "POST", "operation": "CreateToken", "route": "/tokens", "path": "/tokens", "status": "201", "revision": "2", "kinds": "token", "objects": "1",
	}, got[1])
	require.Contains(t, service, "flux-resourceset")
	require.NotContains(t, raw, "wrong-token")

	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT=otlp")
	require.NotZero(t, p.exit())
	require.Contains(t, p.Log(), "AUDIT_OUTPUT is otlp: set OTEL_EXPORTER_OTLP_ENDPOINT too")
}

// TestAuditCollectorAway: a collector that does not answer, or refuses, delays no request, and lost events are counted.
func TestAuditCollectorAway(t *testing.T) {
	t.Parallel()
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	require.Equal(t, http.StatusUnauthorized, p.send("GET", "/clusters", "", "Authorization", "Bearer wrong").status)
	require.Eventually(t, func() bool {
		return strings.Contains(p.send("GET", "/metrics", "").body, `flux_resourceset_audit_events_total{result="failed"} 1`)
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, p.Log(), "audit events cannot be written")
	require.NoError(t, p.Stop(), p.Log())

	began, release := make(chan struct{}, 1), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/logs" {
			select {
			case began <- struct{}{}:
			default:
			}
			<-release
		}
	}))
	defer silent.Close()
	defer close(release)
	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true", "AUDIT_OUTPUT=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT="+silent.URL)
	for range 10 {
		require.Equal(t, http.StatusUnauthorized, p.send("GET", "/clusters", "", "Authorization", "Bearer wrong").status)
		require.Equal(t, http.StatusOK, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"ui.message":"changed"}}}`).status)
	}
	<-began
	require.Contains(t, p.send("GET", "/metrics", "").body, `flux_resourceset_audit_events_total{result="written"} 0`)
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
