package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A process that is cut off from its store refuses polls after MAX_STALENESS. A restart does not make its copy younger.
func TestRestartKeepsAge(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	crud := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	crud.eventually("/ready", 200)
	state := "STATE_DIR=" + t.TempDir()
	reader := start(t, url, state, "MAX_STALENESS=1s")
	reader.eventually(demoPolls+"namespaces", 200)
	reader.terminate() // it has written its State
	reader = start(t, url, state, "MAX_STALENESS=1s")
	reader.eventually(demoPolls+"namespaces", 200)
	server.Kill(t)
	reader.eventually(demoPolls+"namespaces", 503)
	for range 2 {
		reader.Kill()
		reader = start(t, url, state, "MAX_STALENESS=1s")
		a := reader.send("GET", demoPolls+"namespaces", "")
		require.Equal(t, 503, a.status, a.body)
		status, checks := reader.readiness()
		require.Equal(t, 503, status)
		require.Contains(t, checks["state"], "too old")
	}

	// With the setting for a single process it answers, but is not ready: other processes may use this database.
	reader.Kill()
	alone := start(t, url, state, "MAX_STALENESS=1s", "SERVE_STALE_AFTER_RESTART=true")
	alone.get(demoPolls + "namespaces")
	status, checks := alone.readiness()
	require.Equal(t, 503, status)
	require.Contains(t, checks["state"], "SERVE_STALE_AFTER_RESTART")

	server.Start(t)
	alone.eventually("/ready", 200)
}

// The default age limit of answers depends on other processes that may answer. The exception has an explicit name.
func TestStalenessDefaults(t *testing.T) {
	t.Parallel()
	postgres, sqlite := "postgres://u@127.0.0.1:1/fleet", "sqlite://fleet.db"
	for name, tc := range map[string]struct {
		args                 []string
		staleness, restarted time.Duration
	}{
		"postgres":                {[]string{"--database-url", postgres}, 15 * time.Second, 15 * time.Second},
		"sqlite":                  {[]string{"--database-url", sqlite}, 2 * time.Minute, 2 * time.Minute},
		"longer":                  {[]string{"--database-url", postgres, "--max-staleness", "1h"}, time.Hour, time.Hour},
		"of any age":              {[]string{"--database-url", postgres, "--max-staleness", "0"}, 0, 0},
		"of any age, a limit":     {[]string{"--database-url", postgres, "--max-staleness", "0", "--state-max-age", "24h"}, 0, 24 * time.Hour},
		"shorter after a restart": {[]string{"--database-url", postgres, "--state-max-age", "5s"}, 15 * time.Second, 5 * time.Second},
		"alone":                   {[]string{"--database-url", sqlite, "--serve-stale-after-restart", "true"}, 2 * time.Minute, 24 * time.Hour},
		"alone, for an hour":      {[]string{"--database-url", sqlite, "--serve-stale-after-restart", "true", "--state-max-age", "1h"}, 2 * time.Minute, time.Hour},
	} {
		cfg, err := configOf(t, tc.args...)
		require.NoError(t, err, name)
		require.Equal(t, tc.staleness, cfg.maxStaleness, name)
		require.Equal(t, tc.restarted, cfg.stateMaxAge, name)
	}
	for _, maxAge := range []string{"24h", "0"} {
		_, err := configOf(t, "--database-url", postgres, "--state-max-age", maxAge)
		require.ErrorContains(t, err, "SERVE_STALE_AFTER_RESTART=true", maxAge)
	}
	_, err := configOf(t, "--serve-stale-after-restart", "24h")
	require.ErrorContains(t, err, "must be true or false")
}

// configOf reads the settings of a command line.
func configOf(t *testing.T, args ...string) (cfg config, err error) {
	t.Helper()
	app := &cli.App{Flags: flags(), Action: func(c *cli.Context) error {
		cfg, err = readConfig(c)
		return nil
	}}
	require.NoError(t, app.Run(append([]string{"flux-resourceset", "--auth-token", "0123456789abcdef"}, args...)))
	return cfg, err
}
