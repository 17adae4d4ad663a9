package cli_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// TestBootstrapCI: with the access documents that bootstrap ci creates, the ID token of the pipeline changes the version of its
// component and nothing else, and the tokens of other pipelines and of pull requests are refused.
func TestBootstrapCI(t *testing.T) {
	t.Parallel()
	bin, err := programs()
	require.NoError(t, err)
	issuers, settings := map[string]*testissuer.Issuer{}, ""
	for _, name := range []string{"github", "gitlab", "kubernetes"} {
		issuers[name] = testissuer.New(t)
		settings += fmt.Sprintf("{name: %s, url: %q, audiences: [fleet]},", name, issuers[name].URL())
	}
	seed, err := filepath.Abs("../examples/demo/seed.json")
	require.NoError(t, err)
	server, err := testrig.StartServer(testrig.Program{Path: filepath.Join(bin, "flux-resourceset"), Dir: t.TempDir(), Env: []string{
		"API_MODE=crud", "AUTH_TOKEN=read-token", "CRUD_AUTH_TOKEN=write-token", "SEED_FILE=" + seed, "SEED_ACCEPT=true", "DATABASE_URL=sqlite::memory:",
		"OIDC_ISSUERS=[" + settings + "]",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, server.Ready(ctx, nil))
	exec := func(token, line string) result {
		variables := map[string]string{"FLUX_API_URL": server.Base, "FLUX_API_TOKEN": token, "XDG_STATE_HOME": t.TempDir()}
		return run(t, cli.Env{}, variables, strings.Fields(line)...)
	}
	for _, line := range []string{
		"bootstrap ci --github acme/web --repository-id 4711 --owner-id 815 --component podinfo --create",
		"bootstrap ci --gitlab acme/web --environment prod --component podinfo --name gitlab --create",
		"bootstrap ci --kubernetes ci/deployer --component podinfo --create",
	} {
		got := exec("write-token", line)
		require.Zero(t, got.code, "%s: %s", line, got.stderr)
	}
	version := 0
	for _, test := range []struct {
		issuer  string
		claims  testissuer.Claims
		allowed bool
	}{
		{"github", testissuer.Claims{"sub": "x", "repository_id": "4711", "repository_owner_id": "815", "ref": "refs/heads/main"}, true},
		{"github", testissuer.Claims{"sub": "x", "repository_id": "4711", "repository_owner_id": "815", "ref": "refs/pull/1/merge"}, false},
		{"github", testissuer.Claims{"sub": "x", "repository": "acme/web", "repository_id": "4712", "repository_owner_id": "815", "ref": "refs/heads/main"}, false},
		{"gitlab", testissuer.Claims{"sub": "x", "project_path": "acme/web", "namespace_path": "acme", "environment": "prod"}, true},
		{"gitlab", testissuer.Claims{"sub": "x", "project_path": "acme/web", "namespace_path": "acme", "ref_path": "refs/heads/main"}, false},
		{"gitlab", testissuer.Claims{"sub": "x", "repository_id": "4711", "repository_owner_id": "815", "ref": "refs/heads/main"}, false},
		{"kubernetes", testissuer.Claims{"sub": "system:serviceaccount:ci:deployer"}, true},
		{"kubernetes", testissuer.Claims{"sub": "system:serviceaccount:ci:default"}, false},
	} {
		test.claims["aud"], test.claims["exp"] = "fleet", time.Now().Add(time.Hour).Unix()
		token := issuers[test.issuer].Token(test.claims)
		version++
		got := exec(token, fmt.Sprintf("component set podinfo --component-version 6.9.%d", version))
		require.Equal(t, test.allowed, got.code == 0, "%s %v: %s", test.issuer, test.claims, got.stderr)
		require.NotZero(t, exec(token, "component set podinfo --component-path elsewhere").code)
		require.NotZero(t, exec(token, "component set grafana --component-version 9").code)
		require.Equal(t, test.allowed, exec(token, "auth can-i push_version component/podinfo").code == 0)
		require.NotContains(t, got.stdout+got.stderr, token)
	}
}
