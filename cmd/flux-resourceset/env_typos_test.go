package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvTypos(t *testing.T) {
	t.Parallel()
	ours := []string{"RUST_LOG", "NO_COLOR"}
	for _, f := range flags() {
		name, ok := f.(interface{ GetEnvVars() []string })
		require.True(t, ok)
		ours = append(ours, name.GetEnvVars()...)
	}
	for name, want := range map[string]string{
		"DATABASE_URI": "DATABASE_URL", "DATABASE_DSN": "DATABASE_URL", "DATABSE_URL": "DATABASE_URL", "database_url": "DATABASE_URL",
		"AUTH_TOKENS": "AUTH_TOKEN", "SEED_PATH": "SEED_FILE", "LISTEN_ADDRESS": "LISTEN_ADDR", "LISTEN_AD" + "RESS": "LISTEN_ADDR", "MAX_REMOVAL": "MAX_REMOVALS",
		"STATEDIR": "STATE_DIR", "MAX_STALENES": "MAX_STALENESS", "CRUD_AUTH_TOKN": "CRUD_AUTH_TOKEN", "API_MOD": "API_MODE", "SEEDACCEPT": "SEED_ACCEPT",
		"PATH": "", "HOME": "", "HOSTNAME": "", "PGPASSWORD": "", "KUBERNETES_SERVICE_HOST": "", "FLUX_API_READ_SERVICE_HOST": "", "CACHE_DIR": "",
		"XDG_STATE_HOME": "", "SSL_CERT_DIR": "", "API_TOKEN": "", "GITHUB_TOKEN": "", "VAULT_TOKEN": "", "LOG_FILE": "", "GOMAXPROCS": "", "HTTP_PROXY": "",
		"DATABASE_HOST": "", "DATABASE_NAME": "", "LOG_DIR": "", "FLUX_API_TOKEN": "",
		"CI": "", "UID": "", "TUI": "", "U": "", "ui": "UI",
	} {
		require.Equal(t, want, closestSetting(name, ours), name)
	}
}

// A misspelled setting is refused together with all other problems, before the store is opened.
func TestEnvTyposAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	meant := "sqlite://" + filepath.Join(dir, "meant.db")
	p := start(t, "API_MODE=crud", "DATABASE_URI="+meant, "DATABASE_URL=sqlite://"+filepath.Join(dir, "default.db"), "LOG_LEVL=debug", "MAX_REMOVALS=x", "ENVIRONMENT=prod")
	require.Equal(t, 2, p.exit(), p.Log())
	for _, want := range []string{"DATABASE_URI is set, but it is not a setting: did you mean DATABASE_URL?", "LOG_LEVL is set", "MAX_REMOVALS is"} {
		require.Contains(t, p.Log(), want)
	}
	require.NotContains(t, p.Log(), "ENVIRONMENT is set")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	start(t, "API_MODE=crud", "DATABASE_URI="+meant, "DATABASE_URL=sqlite::memory:", "ALLOW_LOOKALIKE_ENV=true").eventually("/ready", 200)
}
