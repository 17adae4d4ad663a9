package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

// withoutStatic are settings of a process without static tokens.
var withoutStatic = []string{"AUTH_TOKEN=", "CRUD_AUTH_TOKEN="}

// TestFirstToken: without static tokens a process refuses to start until the store has a token. The command makes the first one while
// no process runs, and others meanwhile; it prints the secret and nothing else.
func TestFirstToken(t *testing.T) {
	t.Parallel()
	for backend, open := range backends() {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			url, _ := open(t)
			create := func(args ...string) string {
				t.Helper()
				code, stdout, stderr := invoke(t, append([]string{"token", "create", "--database-url", url}, args...)...)
				require.Zero(t, code, stderr)
				secret := strings.TrimSuffix(stdout, "\n")
				require.True(t, fleet.LooksLikeSecret(secret), "nothing else is printed: %d bytes", len(stdout))
				require.NotContains(t, stderr, secret)
				return "Bearer " + secret
			}
			settings := append([]string{"API_MODE=crud", "DATABASE_URL=" + url, "SEED_FILE=" + demoSeed}, withoutStatic...)
			refused := start(t, settings...)
			require.Equal(t, 1, refused.exit())
			require.Contains(t, refused.Log(), "flux-resourceset token create --name NAME --role admin")

			admin := create("--name", "admin", "--role", "admin", "--expires-in", "90d")
			crud := start(t, settings...)
			auth := func(token string) []string { return []string{"Authorization", token} }
			require.Equal(t, 200, crud.send("GET", "/tokens", "", auth(admin)...).status, crud.Log())
			require.Equal(t, 201, crud.send("POST", "/namespaces", `{"id":"made"}`, auth(admin)...).status)
			log := crud.send("GET", "/revisions?kind=token", "", auth(admin)...).body
			require.Contains(t, log, `"system:token"`)
			require.NotContains(t, log, strings.TrimPrefix(admin, "Bearer "))
			for _, wrong := range [][]string{{"Authorization", "Bearer "}, {"Authorization", "Bearer"}, {"Authorization", ""}} {
				require.Equal(t, 401, crud.send("GET", "/clusters", "", wrong...).status)
			}

			// While the process runs.
			reader := create("--name", "reader", "--role", "read")
			require.Eventually(t, func() bool { return crud.send("GET", "/clusters", "", auth(reader)...).status == 200 }, waitFor, tick)
			require.Equal(t, 403, crud.send("POST", "/namespaces", `{"id":"no"}`, auth(reader)...).status)
			code, stdout, stderr := invoke(t, "token", "create", "--database-url", url, "--name", "admin", "--role", "admin")
			require.Equal(t, 1, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, `a token named "admin" already`)

			// Polls of a read-only process without static tokens.
			made := crud.send("POST", "/tokens", `{"name":"poll","role":"poll","cluster_id":"demo-cluster-01"}`, auth(admin)...)
			require.Equal(t, 201, made.status)
			_, after, _ := strings.Cut(made.body, `"token":"`)
			poll, _, _ := strings.Cut(after, `"`)
			polls := start(t, append([]string{"DATABASE_URL=" + url}, withoutStatic...)...)
			require.Eventually(t, func() bool {
				return polls.send("GET", demoPolls+"namespaces", "", auth("Bearer "+poll)...).status == 200
			}, waitFor, tick)
			require.Equal(t, 401, polls.send("GET", demoPolls+"namespaces", "").status)
		})
	}
}

func TestTokenCreateRefuses(t *testing.T) {
	t.Parallel()
	url, _ := backends()["sqlite"](t)
	for want, args := range map[string][]string{
		"--name and --role are required": {},
		"of role poll is for one":        {"--name", "a", "--role", "poll"},
		"--expires-in is":                {"--name", "a", "--role", "admin", "--expires-in", "soon"},
	} {
		code, stdout, stderr := invoke(t, append([]string{"token", "create", "--database-url", url}, args...)...)
		require.Equal(t, 2, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
	for _, args := range [][]string{{"--name", "a", "--role", "root"}, {"--name", "A b", "--role", "admin"}} {
		code, stdout, stderr := invoke(t, append([]string{"token", "create", "--database-url", url}, args...)...)
		require.Equal(t, 1, code, stderr)
		require.Empty(t, stdout)
	}
	code, _, stderr := invoke(t, "token", "create", "--database-url", "sqlite::memory:", "--name", "a", "--role", "admin")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "memory")
}

// TestReadTokenWrites: without CRUD_AUTH_TOKEN the read token may write, as in the reference, only while the store has no managed
// token that may, and without issuers. The log says so.
func TestReadTokenWrites(t *testing.T) {
	t.Parallel()
	const warning = "the read token (AUTH_TOKEN) can change the fleet"
	url, _ := backends()["sqlite"](t)
	settings := []string{"API_MODE=crud", "DATABASE_URL=" + url, "SEED_FILE=" + demoSeed, "CRUD_AUTH_TOKEN="}
	read := []string{"Authorization", "Bearer " + readToken}
	p := start(t, settings...)
	require.Contains(t, p.Log(), warning)
	require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"a"}`, read...).status)
	require.Equal(t, 201, p.send("POST", "/tokens", `{"name":"read","role":"read"}`, read...).status)
	require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"b"}`, read...).status, "a read token is no writer")
	require.Equal(t, 201, p.send("POST", "/tokens", `{"name":"team","role":"scoped"}`, read...).status)
	for range 2 {
		require.Equal(t, 401, p.send("POST", "/namespaces", `{"id":"c"}`, read...).status)
		require.Equal(t, 401, p.send("POST", "/tokens", `{"name":"d","role":"admin"}`, read...).status)
		require.Equal(t, 200, p.send("GET", "/clusters", "", read...).status)
		p.terminate()
		p = start(t, settings...)
		require.NotContains(t, p.Log(), warning)
	}

	issuer := testissuer.New(t)
	issuers := `OIDC_ISSUERS=[{name: corp, url: "` + issuer.URL() + `", client_id: fleet}]`
	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "CRUD_AUTH_TOKEN=", issuers)
	require.Equal(t, 401, p.send("POST", "/namespaces", `{"id":"a"}`, read...).status)
	require.NotContains(t, p.Log(), warning)
	p = start(t, append([]string{"API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE=" + demoSeed, issuers}, withoutStatic...)...)
	token := issuer.Token(testissuer.Claims{"aud": "fleet", "sub": "00u1", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	require.Equal(t, http.StatusForbidden, p.send("GET", "/clusters", "", "Authorization", "Bearer "+token).status, p.Log())
}
