package server_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// access is the permission that an operation requires.
type access string

const (
	public     access = "public"
	pollOwn    access = "polls of the cluster itself"
	pollOther  access = "polls of another cluster"
	pollNobody access = "polls of a cluster that is not there"
	list       access = "the list of clusters"
	session    access = "sessions"
	self       access = "who the caller is"
	read       access = "reads"
	change     access = "changes"
	tokens     access = "reads of tokens"
	manage     access = "changes of tokens"
)

// ok stands for the operation's own answer; the requests of this test change no document.
const ok = 0

var (
	nobodyMay = map[access]int{session: 401, self: 401, pollOwn: 401, pollOther: 401, pollNobody: 401, list: 401, read: 401, change: 401, tokens: 401, manage: 401}
	ownMay    = map[access]int{session: 403, self: 200, pollOwn: 200, pollOther: 403, pollNobody: 403, list: 403, read: 403, change: 403, tokens: 403, manage: 403}
	otherMay  = map[access]int{session: 403, self: 200, pollOwn: 403, pollOther: 200, pollNobody: 403, list: 403, read: 403, change: 403, tokens: 403, manage: 403}
	noneMay   = map[access]int{session: 403, self: 200, pollOwn: 403, pollOther: 403, pollNobody: 403, list: 403, read: 403, change: 403, tokens: 403, manage: 403}
	staticMay = map[access]int{session: 403, self: 200, pollOwn: 200, pollOther: 200, pollNobody: 404, list: 200, read: ok, change: 401, tokens: 401, manage: 401}
	readMay   = map[access]int{session: 403, self: 200, pollOwn: 200, pollOther: 200, pollNobody: 404, list: 200, read: ok, change: 403, tokens: 403, manage: 403}
	writeMay  = map[access]int{session: 403, self: 200, pollOwn: 200, pollOther: 200, pollNobody: 404, list: 200, read: ok, change: ok, tokens: 403, manage: 403}
	adminMay  = map[access]int{session: 403, self: 200, pollOwn: 200, pollOther: 200, pollNobody: 404, list: 200, read: ok, change: ok, tokens: ok, manage: ok}
)

// principal is a credential with its permissions.
type principal struct {
	header      string
	certificate string // the client certificate; see certified
	mayCall     map[access]int
}

// managed are the tokens of the table's worlds; secrets are in the order of their creation.
var managed = []string{
	pollBody,
	`{"name":"poll-other","role":"poll","cluster_id":"other"}`,
	`{"name":"reader","role":"read"}`,
	`{"name":"writer","role":"write","expires_at":"2027-01-01T00:00:00Z"}`,
	`{"name":"admin","role":"admin","expires_at":"2027-01-01T00:00:00Z"}`,
	`{"name":"expired","role":"admin","expires_at":"2026-01-02T03:04:06Z"}`,
	`{"name":"revoked","role":"admin"}`,
	`{"name":"rotated","role":"admin"}`,
	`{"name":"scoped","role":"scoped"}`,
}

func principals(secrets []string) map[string]principal {
	return map[string]principal{
		"nobody":                {mayCall: nobodyMay},
		"a wrong token":         {header: "Bearer wrong", mayCall: nobodyMay},
		"the read token":        {header: "Bearer " + readToken, mayCall: staticMay},
		"the previous read":     {header: "Bearer " + readPrevious, mayCall: staticMay},
		"the write token":       {header: "Bearer " + writeToken, mayCall: adminMay},
		"the previous write":    {header: "Bearer " + writePrevious, mayCall: adminMay},
		"a lower-case scheme":   {header: "bearer " + writeToken, mayCall: adminMay},
		"basic":                 {header: "Basic " + base64.StdEncoding.EncodeToString([]byte("flux:"+readToken)), mayCall: nobodyMay},
		"no scheme":             {header: writeToken, mayCall: nobodyMay},
		"an empty token":        {header: "Bearer ", mayCall: nobodyMay},
		"two spaces":            {header: "Bearer  " + writeToken, mayCall: nobodyMay},
		"a token in lower case": {header: "Bearer " + strings.ToUpper(writeToken), mayCall: nobodyMay},
		"a prefix":              {header: "Bearer " + writeToken[:len(writeToken)-1], mayCall: nobodyMay},
		"more than the token":   {header: "Bearer " + writeToken + "x", mayCall: nobodyMay},
		"a list":                {header: "Bearer " + readToken + ", Bearer " + writeToken, mayCall: nobodyMay},
		"NUL":                   {header: "Bearer \\x00", mayCall: nobodyMay},

		"the cluster's poll token":        {header: "Bearer " + secrets[0], mayCall: ownMay},
		"another's poll token":            {header: "Bearer " + secrets[1], mayCall: otherMay},
		"a token of role read":            {header: "Bearer " + secrets[2], mayCall: readMay},
		"a token of role write":           {header: "Bearer " + secrets[3], mayCall: writeMay},
		"a token of role admin":           {header: "Bearer " + secrets[4], mayCall: adminMay},
		"an expired token":                {header: "Bearer " + secrets[5], mayCall: nobodyMay},
		"a revoked token":                 {header: "Bearer " + secrets[6], mayCall: nobodyMay},
		"a secret from before a rotation": {header: "Bearer " + secrets[7], mayCall: nobodyMay},
		"a token of role scoped":          {header: "Bearer " + secrets[8], mayCall: noneMay},
		"a secret that never was":         {header: "Bearer " + fleet.FormatSecret([32]byte{1}), mayCall: nobodyMay},
		"the digest of a secret":          {header: fmt.Sprintf("Bearer %x", sha256.Sum256([]byte(secrets[4]))), mayCall: nobodyMay},

		"the cluster's certificate":       {certificate: demoDNS, mayCall: ownMay},
		"another's certificate":           {certificate: "other.example.com", mayCall: otherMay},
		"a certificate of no cluster":     {certificate: "ops.example.com", mayCall: noneMay},
		"a wildcard certificate":          {certificate: "*.k8s.example.com", mayCall: noneMay},
		"a certificate without a name":    {certificate: "-", mayCall: nobodyMay},
		"a certificate and a wrong token": {certificate: demoDNS, header: "Bearer wrong", mayCall: nobodyMay},
		"a certificate and a read token":  {certificate: demoDNS, header: "Bearer " + secrets[2], mayCall: readMay},
	}
}

// target is one request to an operation of the contract.
type target struct {
	method, path, body string
	access             access
}

// schemes are the alternatives that the contract lists for each access.
var schemes = map[access][]string{
	public: {}, session: {"idToken"}, pollOwn: {"pollToken", "readToken"}, self: {"pollToken", "readToken"}, list: {"readToken"}, read: {"readToken"}, change: {"writeToken"},
	tokens: {"adminToken"}, manage: {"adminToken"},
}

// accessOf derives the permission from method and path; the test compares it with the OpenAPI document.
func accessOf(method, path string) access {
	reads := method == http.MethodGet
	switch {
	case slices.Contains([]string{"/health", "/ready", "/version", "/metrics", "/openapi.yaml", "/openapi.json", "/auth/issuers"}, path):
		return public
	case path == "/auth/sessions":
		return session
	case path == "/whoami":
		return self
	case path == "/api/v2/flux/clusters":
		return list
	case strings.HasPrefix(path, "/api/v2/flux/clusters/"):
		return pollOwn
	case (strings.HasPrefix(path, "/tokens") || strings.HasPrefix(path, "/access") || strings.HasPrefix(path, "/webhooks") || strings.HasPrefix(path, "/sources") || path == "/backup") && reads:
		return tokens
	case strings.HasPrefix(path, "/tokens"), strings.HasPrefix(path, "/access") && path != "/access/check", strings.HasPrefix(path, "/webhooks"), strings.HasPrefix(path, "/sources"), strings.HasPrefix(path, "/policies") && path != "/policies/test" && !reads:
		return manage
	case reads, path == "/plan", path == "/render", path == "/access/check", path == "/policies/test":
		return read
	}
	return change
}

// targets are all operations of the contract, GET also as HEAD, the polls for each cluster there is to ask for.
func targets(t *testing.T) []target {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	fill := strings.NewReplacer("{id}", "nobody", "{component_id}", "nobody", "{namespace_id}", "nobody", "{rolebinding_id}", "nobody", "{type}", "things", "{resource_id}", "nobody", "{revision}", "77", "receipts/{list}/{input_id}", "receipts/namespaces/nobody?input=0123456789abcdef")
	var out []target
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			tg := target{method: method, path: fill.Replace(path), access: accessOf(method, path)}
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			got := []string{}
			for _, alternative := range security {
				require.Len(t, alternative, 1)
				got = append(got, slices.Collect(maps.Keys(alternative))...)
			}
			require.Equal(t, schemes[tg.access], got, "%s %s", method, path)
			if op.RequestBody != nil {
				tg.body = `{"nonsense":true}` // refused after authentication
				if tg.access == pollOwn {
					tg.body = event(`{}`, "x")
				}
			}
			asked := []target{tg}
			if tg.access == pollOwn {
				asked = nil
				for dns, a := range map[string]access{demoDNS: pollOwn, strings.ToUpper(demoDNS) + ".": pollOwn, "other.example.com": pollOther, "nobody.example.com": pollNobody} {
					asked = append(asked, target{method: method, body: tg.body, path: strings.ReplaceAll(tg.path, "{cluster_dns}", dns), access: a})
				}
			}
			for _, tg := range asked {
				out = append(out, tg)
				if method == http.MethodGet {
					tg.method = http.MethodHead
					out = append(out, tg)
				}
			}
		}
	}
	return out
}

// Every operation, every principal, both modes.
func TestAuthorizationTable(t *testing.T) {
	t.Parallel()
	all := targets(t)
	require.Greater(t, len(all), 80)
	crud := setup(t)
	crud.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	crud.create("/resource_types", `{"id":"things","schema":{"type":"object","additionalProperties":false,"properties":{}}}`)
	var secrets []string
	for _, body := range managed {
		token := crud.issue(body)
		secrets = append(secrets, token.secret)
		switch {
		case strings.Contains(body, "revoked"):
			crud.delete("/tokens/" + token.id).want(200)
		case strings.Contains(body, "rotated"):
			crud.do("POST", "/tokens/"+token.id+"/rotate", `{"overlap":"0s"}`).want(200)
		}
	}
	snap, err := crud.store.Load(t.Context())
	require.NoError(t, err)
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := certified(t, options{mode: mode, records: snap.Records}, demoDNS, "other.example.com", "ops.example.com", "*.k8s.example.com", "-")
			asked := 0
			w.unchanged(func() {
				for name, p := range principals(secrets) {
					for _, tg := range all {
						w.clock.advance(time.Second) // to avoid throttling
						requireAccess(t, mode, name, p, tg, w.do(tg.method, tg.path, tg.body, "Authorization", p.header, certificateHeader, p.certificate))
						asked++
					}
				}
			})
			t.Logf("%d requests by %d principals to %d targets", asked, len(principals(secrets)), len(all))
		})
	}
}

func requireAccess(t *testing.T, mode, name string, p principal, tg target, got *answer) {
	t.Helper()
	what := fmt.Sprintf("%s: %s %s (%s) answered %d %s", name, tg.method, tg.path, tg.access, got.status, got.body)
	want := p.mayCall[tg.access]
	switch {
	case tg.access == public:
		if want = 200; tg.path == "/metrics" && p.header != "" && p.mayCall[list] == 401 {
			want = 401 // a credential is only looked at where there is one
		}
	case mode == server.ModeReadOnly && (tg.access == change || tg.access == manage):
		want = 405
	case mode == server.ModeCRUD && tg.path == "/access/check" && name == "a token of role scoped":
		want = ok // every identity may ask about its own rights
	case mode == server.ModeReadOnly && (tg.access == read || tg.access == tokens):
		want = 404
	}
	if want == 200 && strings.HasSuffix(tg.path, "/events") {
		want = 202
	}
	switch want {
	case ok:
		require.Contains(t, []int{200, 400, 404}, got.status, what)
		return
	case 405:
		require.Contains(t, got.header, "Allow", what)
	case 401:
		require.Contains(t, []string{`Bearer realm="flux-resourceset"`, `Bearer realm="flux-resourceset", error="invalid_token"`}, got.header.Get("WWW-Authenticate"), what)
		require.Empty(t, got.header.Get("X-Fleet-Revision"), what)
	case 403:
		require.Empty(t, got.header.Get("WWW-Authenticate"), what)
		require.Empty(t, got.header.Get("X-Fleet-Revision"), what)
	}
	require.Equal(t, want, got.status, what)
}

// certificateHeader selects the certificate of the client in a certified world; it is not sent.
const certificateHeader = "X-Test-Certificate"

// certified is a world behind TLS with client certificates for these DNS names. "-" is one without a name.
func certified(t *testing.T, o options, names ...string) *world {
	t.Helper()
	clients := newAuthority(t, "clients")
	o.serve = func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients.pool()}
		srv.StartTLS()
		return srv
	}
	w := setupWith(t, o)
	plain := w.http.Client().Transport.(*http.Transport)
	by := presenter{"": plain}
	for i, name := range names {
		sans := []string{name}
		if name == "-" {
			sans = nil
		}
		with := plain.Clone()
		with.TLSClientConfig.Certificates = []tls.Certificate{clients.client(int64(i+10), sans...)}
		t.Cleanup(with.CloseIdleConnections)
		by[name] = with
	}
	w.client.Transport = &contractTransport{t: t, next: by, audit: w.audit}
	return w
}

// presenter sends a request over a connection with the certificate that a header names.
type presenter map[string]http.RoundTripper

// RoundTrip implements http.RoundTripper.
func (p presenter) RoundTrip(req *http.Request) (*http.Response, error) {
	name := req.Header.Get(certificateHeader)
	req.Header.Del(certificateHeader)
	return p[name].RoundTrip(req)
}

// With one token only, as the reference allows, it does everything; an empty one never matches.
func TestTokenFallback(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(c *server.Config) { c.Tokens = server.Tokens{Read: readToken, Write: readToken} }})
	w.patch(demoCluster, `{"environment":"qa"}`, "Authorization", "Bearer "+readToken).want(200)
	require.Equal(t, "static-write", w.get("/revisions/2", "Authorization", "Bearer "+readToken).json()["actor"])

	w = setupWith(t, options{configure: func(c *server.Config) { c.Tokens = server.Tokens{Read: readToken} }})
	w.unchanged(func() {
		for _, header := range []string{"Bearer ", "Bearer", "Bearer " + readToken, "Bearer  "} {
			w.patch(demoCluster, `{"environment":"qa"}`, "Authorization", header).problem(401, "unauthorized")
		}
	})
}

// The read token, sent with a change, is named as the reason: one token for both is how the reference's documentation has it.
func TestReadTokenRejectedForChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		refused := w.patch(demoCluster, `{"environment":"qa"}`, "Authorization", "Bearer "+readToken).problem(401, "unauthorized")
		require.Contains(t, refused.json()["detail"], "this is the read token, and changes require the write token: CRUD_AUTH_TOKEN")
		missing := w.patch(demoCluster, `{"environment":"qa"}`, "Authorization", "").problem(401, "unauthorized")
		require.Contains(t, missing.json()["detail"], "the write token is required")
	})
}

// Two Authorization headers are one identity at most: the first.
func TestTwoAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	req := w.request("DELETE", demoCluster, "")
	req.Header["Authorization"] = []string{"Bearer " + readToken, "Bearer " + writeToken}
	w.unchanged(func() { w.send(req).problem(401, "unauthorized") })
}

// Tokens appear in no log of any level, error, answer or metric.
func TestTokensNeverShown(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{level: -8})
	w.faults.set(func(f *faultyStore) { f.panics = true })
	var seen strings.Builder
	for _, token := range []string{readToken, readPrevious, writeToken, writePrevious, "guessed-token-5150"} {
		for _, path := range []string{"/clusters", "/nowhere", demoPolls + "/namespaces", "/revisions", "/metrics", "/ready", "/version", "/clusters/nobody"} {
			for _, method := range []string{http.MethodGet, http.MethodPut, "TRACE"} {
				got := w.do(method, path, "", "Authorization", "Bearer "+token, "X-Request-Id", "r")
				fmt.Fprintf(&seen, "%v %s\n", got.header, got.body)
			}
		}
	}
	logs := w.logs.String()
	require.Contains(t, logs, "static-write")
	for _, secret := range []string{readToken, readPrevious, writeToken, writePrevious, "guessed-token-5150", base64.StdEncoding.EncodeToString([]byte(writeToken))} {
		require.NotContains(t, logs, secret)
		require.NotContains(t, seen.String(), secret)
	}
	require.NotContains(t, seen.String(), "the secret of", "a panic's text is not for callers")
}

// A flood of unknown managed tokens is answered 429 and hardly logged, and does not affect valid credentials, because a
// managed token cannot be guessed. For other wrong tokens see TestGuessesLockAddressOut.
func TestFailuresThrottled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	good := w.issue(pollBody)
	guess := bearer(fleet.FormatSecret([32]byte{1}))
	statuses := map[int]int{}
	for range 300 {
		got := w.get(demoPolls+"/namespaces", guess...)
		statuses[got.status]++
		if got.status == 429 {
			require.Equal(t, "1", got.problem(429, "too_many_requests").header.Get("Retry-After"))
			require.NotContains(t, got.header, "X-Fleet-Revision")
		}
		w.get(demoPolls+"/namespaces", bearer(good.secret)...).want(200)
		w.get(demoPolls+"/namespaces", bearer(readToken)...).want(200)
		w.get("/api/v2/flux/clusters/nobody.example.com/namespaces", bearer(good.secret)...).want(403)
		w.delete("/clusters/nobody", bearer(readToken)...).want(401) // authenticated, so the answer names the missing permission
	}
	require.Equal(t, map[int]int{401: 60, 429: 240}, statuses)
	lines := w.logs.lines(t, "request refused")
	require.Len(t, lines, 50, "the log's own limit")
	require.NotContains(t, w.logs.String(), "frs_")
	metrics := string(w.get("/metrics").body)
	for _, want := range []string{`{reason="unknown"} 60`, `{reason="throttled"} 240`, `{reason="forbidden"} 600`, `{reason="expired"} 0`} {
		require.Contains(t, metrics, "flux_resourceset_auth_failures_total"+want)
	}

	w.clock.advance(2 * time.Second)
	require.Equal(t, []int{401, 401, 429}, []int{
		w.get("/clusters", guess...).status, w.get("/clusters", "Authorization", "").status, w.get("/clusters", "Authorization", "Basic x").status,
	})
	lines = w.logs.lines(t, "request refused")[50:]
	require.Len(t, lines, 2)
	require.EqualValues(t, 850, lines[0]["not_logged_before"])
	require.Equal(t, []any{"unknown", "missing"}, []any{lines[0]["reason"], lines[1]["reason"]})
	require.Equal(t, "/clusters", lines[0]["route"])
}

// The log names the holder of an expired token, and the actor of a forbidden request.
func TestFailuresLogged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(`{"name":"ci","role":"read","expires_at":"2026-01-02T03:04:06Z"}`)
	w.delete(demoCluster, bearer(token.secret)...).problem(403, "forbidden")
	w.clock.advance(time.Second)
	w.get(demoCluster, bearer(token.secret)...).problem(401, "unauthorized")
	lines := w.logs.lines(t, "request refused")
	require.Len(t, lines, 2)
	for i, reason := range []string{"forbidden", "expired"} {
		require.Equal(t, reason, lines[i]["reason"])
		require.Equal(t, "token:ci ("+token.id+")", lines[i]["actor"])
		require.NotEmpty(t, lines[i]["request_id"])
	}
}
