package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// invoke runs the program in this process, for tests that need no server.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"flux-resourceset"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestConfigurationErrorsReportedTogether(t *testing.T) {
	t.Parallel()
	p := start(t, "AUTH_TOKEN=", "API_MODE=wild", "DATABASE_URL=mysql://u:hunter2@h/db", "LISTEN_ADDR=nowhere", "LOG_LEVEL=loud", "LOG_FORMAT=xml",
		"ENVIRONMENTS=dev,,prod", "PROTECTED_ENVIRONMENTS=prod,uat", "START_TIMEOUT=soon", "SHUTDOWN_DELAY=-1s", "GATES_TRUST_SHARED_TOKEN=maybe", "MAX_REMOVALS=-1", "VERSION_ROLLOUTS=17", "HISTORY_RETENTION=59m", "TLS_CERT_FILE=/nope.pem", "REQUIRE_CLIENT_CERT=maybe", "SEED_ACCEPT=perhaps", "PASSIVE=perhaps", "REQUIRE_SECOND_PERSON=perhaps", "REQUIRE_CLUSTER_TOKEN=perhaps", "ALLOW_SHORT_TOKENS=perhaps", "CRUD_AUTH_TOKEN=123456789012345", "BASE_PATH=fleet/", "DATABASE_URI=x")
	require.Equal(t, 2, p.exit())
	for _, name := range []string{"API_MODE", "DATABASE_URL", "LISTEN_ADDR", "LOG_LEVEL", "LOG_FORMAT", "START_TIMEOUT", "SHUTDOWN_DELAY", "GATES_TRUST_SHARED_TOKEN", "MAX_REMOVALS", "VERSION_ROLLOUTS", "HISTORY_RETENTION", "ENVIRONMENTS is", `PROTECTED_ENVIRONMENTS names "uat"`, "TLS_KEY_FILE", "TLS_CERT_FILE: open", "REQUIRE_CLIENT_CERT is", "SEED_ACCEPT is", "PASSIVE is", "REQUIRE_SECOND_PERSON is", "REQUIRE_CLUSTER_TOKEN is", "ALLOW_SHORT_TOKENS is", "CRUD_AUTH_TOKEN has less than 16", "BASE_PATH is", "DATABASE_URI is set"} {
		require.Contains(t, p.Log(), name)
	}
	require.NotContains(t, p.Log(), "hunter2")

	p = start(t, "DATABASE_URL=sqlite::memory:", "REQUIRE_CLIENT_CERT=true")
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.Log(), "REQUIRE_CLIENT_CERT needs TLS_CLIENT_CA_FILE")
}

// A token that is easy to guess is refused, whichever it is, unless ALLOW_SHORT_TOKENS is set.
func TestShortTokensAreRefused(t *testing.T) {
	t.Parallel()
	const enough = "sixteen-letters."
	names := []string{"AUTH_TOKEN", "AUTH_TOKEN_PREVIOUS", "CRUD_AUTH_TOKEN", "CRUD_AUTH_TOKEN_PREVIOUS"}
	long, short := []string{"API_MODE=crud", "DATABASE_URL=sqlite::memory:", "ALLOW_SHORT_TOKENS=false"}, []string{"ALLOW_SHORT_TOKENS=false"}
	for i, name := range names {
		long = append(long, name+"="+enough)
		short = append(short, name+"="+enough[i+1:])
	}
	p := start(t, short...)
	require.Equal(t, 2, p.exit())
	for i, name := range names {
		require.Contains(t, p.Log(), "  - "+name+" has less than 16 characters")
		require.NotContains(t, p.Log(), enough[i+1:])
	}
	require.Equal(t, 200, start(t, long...).send("GET", "/clusters", "", "Authorization", "Bearer "+enough).status)
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	code, stdout, _ := invoke(t, "--version")
	require.Zero(t, code)
	require.Equal(t, "flux-resourceset version dev\n", stdout)

	code, stdout, _ = invoke(t, "--help")
	require.Zero(t, code)
	for _, want := range []string{"AUTH_TOKEN", "ALLOW_SHORT_TOKENS", "DATABASE_URL", "migrate", "serve", "Exit codes"} {
		require.Contains(t, stdout, want)
	}
	for _, args := range [][]string{{"--nope"}, {"swim"}, {"migrate"}, {"migrate", "sideways"}, {"serve", "--nope"}, {"migrate", "up", "--nope"}} {
		code, _, stderr := invoke(t, append([]string{"--auth-token=x"}, args...)...)
		require.Equal(t, 2, code, "%v: %s", args, stderr)
		require.NotEmpty(t, stderr)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := "--database-url=sqlite://" + filepath.Join(t.TempDir(), "sub", "fleet.db")
	code, stdout, stderr := invoke(t, "migrate", url, "status") // flags may stand anywhere
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "schema version 0 of ")
	code, stdout, stderr = invoke(t, "migrate", "up", "--database-url", strings.TrimPrefix(url, "--database-url="))
	require.Zero(t, code, stderr)
	up := stdout
	code, stdout, _ = invoke(t, url, "migrate", "status")
	require.Zero(t, code)
	require.Equal(t, up, stdout)
	require.Contains(t, up, "schema version 1 of 1")
}

func TestServeUntilTerminated(t *testing.T) {
	t.Parallel()
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed)
	require.Contains(t, p.get(demoPolls+"namespaces"), `"id":"podinfo"`)
	require.JSONEq(t, `{"status":"ok","checks":{"state":"ok","store":"ok"}}`, p.get("/ready"))
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit(), p.Log())
	require.Contains(t, p.Log(), `"stopped"`)
	require.NotContains(t, p.Log(), writeToken)
}

func TestAliasesOfModesAndBackends(t *testing.T) {
	t.Parallel()
	for backend, mode := range map[string]string{"memory": "read-only", "in-memory": "readonly", "in_memory": "read_only"} {
		p := start(t, "API_MODE="+mode, "STORE_BACKEND="+backend, "SEED_FILE="+demoSeed, "OPENAPI_FILE=/nope.yaml", "RUST_LOG=hyper=warn,debug")
		require.Contains(t, p.get("/version"), `"mode":"read-only","store":"memory"`)
		require.Contains(t, p.get(demoPolls+"rolebindings"), `"id":"dev-readers"`)
		require.Equal(t, 405, p.send("POST", "/namespaces", `{"id":"x"}`).status)
		require.Contains(t, p.Log(), "OPENAPI_FILE does not exist")
	}
}

func TestWriteTokenFallsBackToTheReadToken(t *testing.T) {
	t.Parallel()
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "CRUD_AUTH_TOKEN=")
	require.Contains(t, p.Log(), "the read token (AUTH_TOKEN) can change the fleet")
	require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"x"}`, "Authorization", "Bearer "+readToken).status)
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	first := start(t, "DATABASE_URL=sqlite::memory:")
	second := start(t, "DATABASE_URL=sqlite::memory:", "LISTEN_ADDR="+strings.TrimPrefix(first.Base, "http://"))
	require.Equal(t, 1, second.exit())
	require.Contains(t, second.Log(), "address already in use")
}

func TestUnusableDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600))
	for _, mode := range []string{"crud", "read-only"} {
		p := start(t, "API_MODE="+mode, "DATABASE_URL=sqlite://"+text)
		require.Equal(t, 1, p.exit(), p.Log())
		require.Contains(t, p.Log(), text)
	}
	body, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Len(t, body, 1500, "untouched")
}

func TestDatabasePasswordsHidden(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://owner:hunter2@127.0.0.1:1/fleet", "postgres://127.0.0.1:1/fleet?user=owner&password=hunter2&connect_timeout=1"} {
		for _, args := range [][]string{{"migrate", "status", "--database-url", url}, {"copy", "--from", url, "--to", url}, {"--database-url", url, "--auth-token", "0123456789abcdef", "--start-timeout", "100ms", "--listen-addr", "127.0.0.1:0"}} {
			code, stdout, stderr := invoke(t, args...)
			require.Equal(t, 1, code, "%s%s", stdout, stderr)
			require.NotContains(t, stdout+stderr, "hunter2")
		}
	}
}

// Flags are accepted in any position.
func TestFlagsAnywhere(t *testing.T) {
	t.Parallel()
	commands := app(nil, nil).Commands
	for given, want := range map[string]string{
		"x backup a.db --s3-region eu --database-url u": "x --database-url u backup --s3-region eu a.db",
		"x backup a.db --s3-region=eu":                  "x backup --s3-region=eu a.db",
		"x backup - --unknown":                          "x backup --unknown -",
		"x backup --dir d --keep 3":                     "x backup --dir d --keep 3",
		"x restore --s3-region eu -- --odd":             "x restore --s3-region eu -- --odd",
		"x backup a.db --":                              "x backup -- a.db",
		"x backup a.db --s3-timeout":                    "x backup --s3-timeout",
		"x migrate up --database-url u":                 "x --database-url u migrate up",
		"x accept --yes --database-url u":               "x --database-url u accept --yes",
		"x":                                             "x",
	} {
		require.Equal(t, strings.Fields(want), reorderArgs(strings.Fields(given), flags(), commands), given)
	}
}
