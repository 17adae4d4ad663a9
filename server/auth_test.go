package server_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// principal is one way to authenticate, and what it is good for.
type principal struct {
	header      string
	read, write bool
}

var principals = map[string]principal{
	"nobody":                {"", false, false},
	"a wrong token":         {"Bearer wrong", false, false},
	"the read token":        {"Bearer " + readToken, true, false},
	"the previous read":     {"Bearer " + readPrevious, true, false},
	"the write token":       {"Bearer " + writeToken, true, true},
	"the previous write":    {"Bearer " + writePrevious, true, true},
	"a lower-case scheme":   {"bearer " + writeToken, true, true},
	"basic":                 {"Basic " + base64.StdEncoding.EncodeToString([]byte("flux:"+readToken)), false, false},
	"no scheme":             {writeToken, false, false},
	"an empty token":        {"Bearer ", false, false},
	"two spaces":            {"Bearer  " + writeToken, false, false},
	"a token in lower case": {"Bearer " + strings.ToUpper(writeToken), false, false},
	"a prefix":              {"Bearer " + writeToken[:len(writeToken)-1], false, false},
	"more than the token":   {"Bearer " + writeToken + "x", false, false},
	"a list":                {"Bearer " + readToken + ", Bearer " + writeToken, false, false},
	"NUL":                   {"Bearer \\x00", false, false},
}

// target is one operation of the contract with a path that can be asked.
type target struct {
	method, path, body  string
	public, write, poll bool
}

func targets(t *testing.T) []target {
	t.Helper()
	doc, err := apiserver.GetSpec()
	require.NoError(t, err)
	paths := strings.NewReplacer("{cluster_dns}", "nobody.example.com", "{id}", "nobody", "{component_id}", "nobody",
		"{namespace_id}", "nobody", "{rolebinding_id}", "nobody", "{revision}", "77")
	var out []target
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			tg := target{method: method, path: paths.Replace(path), public: len(security) == 0, poll: op.Tags[0] == "flux"}
			tg.write = !tg.public && (has(security, "writeToken") || has(security, "adminToken"))
			require.Equal(t, method != "GET" && path != "/plan" || strings.HasPrefix(path, "/tokens"), tg.write,
				"%s %s: what changes the fleet, and all about tokens, needs the write token, and nothing else does", method, path)
			if op.RequestBody != nil {
				tg.body = `{"nonsense":true}` // refused after authentication
			}
			out = append(out, tg)
		}
	}
	return out
}

func has(security openapi3.SecurityRequirements, scheme string) bool {
	for _, r := range security {
		if _, ok := r[scheme]; ok {
			return true
		}
	}
	return false
}

// Every operation, every principal, both modes.
func TestAuthenticationTable(t *testing.T) {
	t.Parallel()
	all := targets(t)
	require.Greater(t, len(all), 30)
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := setupWith(t, options{mode: mode})
			w.unchanged(func() {
				for name, p := range principals {
					for _, tg := range all {
						got := w.do(tg.method, tg.path, tg.body, "Authorization", p.header)
						requireAccess(t, mode, name, p, tg, got)
					}
				}
			})
		})
	}
}

func requireAccess(t *testing.T, mode, name string, p principal, tg target, got *answer) {
	t.Helper()
	what := fmt.Sprintf("%s: %s %s answered %d %s", name, tg.method, tg.path, got.status, got.body)
	switch allowed := p.read && !tg.write || p.write; {
	case tg.public:
		require.Equal(t, 200, got.status, what)
	case mode == server.ModeReadOnly && tg.write && tg.method != "GET":
		require.Equal(t, 405, got.status, what)
		require.Contains(t, got.header, "Allow", what)
	case mode == server.ModeReadOnly && !tg.poll:
		require.Equal(t, 404, got.status, what)
	case !allowed:
		require.Equal(t, 401, got.status, what)
		require.Equal(t, `Bearer realm="flux-resourceset"`, got.header.Get("WWW-Authenticate"), what)
		require.Empty(t, got.header.Get("X-Fleet-Revision"), what)
	default:
		require.Contains(t, []int{200, 400, 404}, got.status, what)
	}
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

// Two Authorization headers are one identity at most: the first.
func TestTwoAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	req := w.request("DELETE", demoCluster, "")
	req.Header["Authorization"] = []string{"Bearer " + readToken, "Bearer " + writeToken}
	w.unchanged(func() { w.send(req).problem(401, "unauthorized") })
}

// Tokens are not where somebody could read them: logs of any level, errors, answers, metrics.
func TestTokensAreNeverShown(t *testing.T) {
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
