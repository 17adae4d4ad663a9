package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecretValuesSetting: with SECRET_VALUES=refuse, patches that look like secrets are refused in the catalog, layers, clusters,
// batches, plans, rollouts and files; other values of the setting do not start.
func TestSecretValuesSetting(t *testing.T) {
	t.Parallel()
	const batch = `"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"patches":{"podinfo":{"auth.token":"x"}}}}]`
	writes := map[string]struct{ method, path, body string }{
		"batch":   {"POST", "/batch", `{` + batch + `}`},
		"plan":    {"POST", "/plan", `{` + batch + `}`},
		"cluster": {"PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"auth.token":"x"}}}`},
		"patches": {"PATCH", "/clusters/demo-cluster-01/patches/podinfo?field_manager=ci", `{"auth.token":"x"}`},
		"catalog": {"PUT", "/platform_components/podinfo", `{"patches":{"auth.token":"x"}}`},
		"layer":   {"POST", "/layers", `{"id":"l","priority":1,"all":true,"patches":{"podinfo":{"auth.token":"x"}}}`},
		"rollout": {"POST", "/rollouts", `{"id":"r","operations":[{"op":"patch","kind":"platform_component","id":"traefik","patch":{"patches":{"auth.token":"x"}}}],"stages":[{"name":"all","all":true}]}`},
	}
	for setting, refused := range map[string]bool{"warn": false, "refuse": true} {
		p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "SECRET_VALUES="+setting)
		for name, write := range writes {
			got := p.send(write.method, write.path, write.body)
			if !refused {
				require.Less(t, got.status, 300, "%s: %s", name, got.body)
				continue
			}
			require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", name, got.body)
			require.Contains(t, got.body, `"error":"secret_value"`, name)
			require.Contains(t, got.body, "values_from", name)
		}
	}
	file := filepath.Join(t.TempDir(), "app.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: platform_component\nid: app\ncomponent_path: p\noci_url: https://charts.example.com\npatches: {auth.token: x}\n"), 0o600))
	code, _, stderr := invoke(t, "validate", "-f", file)
	require.Zero(t, code, stderr)
	code, _, stderr = invoke(t, "validate", "--secret-values", "refuse", "-f", file)
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "secret_value")
	for _, command := range []string{"serve", "validate"} {
		code, _, stderr = invoke(t, command, "--secret-values", "Refuse")
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, "SECRET_VALUES")
	}
}
