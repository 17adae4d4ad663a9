package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestBackupAndRestore: a running server's store is written to a file. Stores of either kind restored from it answer
// every poll with the same bytes, have the same history, and continue it.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	lite := func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "fleet.db") }
	for name, urls := range map[string][2]string{
		"SQLite to SQLite":   {lite(t), lite(t)},
		"SQLite to Postgres": {lite(t), pgtest.URL(t)},
		"Postgres to SQLite": {pgtest.URL(t), lite(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := urls[0], urls[1]
			p := start(t, "API_MODE=crud", "DATABASE_URL="+from, "SEED_FILE="+demoSeed)
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"4"}}}`).status)
			before, revisions := p.demo(), p.get("/revisions")
			file := filepath.Join(t.TempDir(), "backup.db")
			code, stdout, stderr := invoke(t, "backup", file, "--database-url", from)
			require.Zero(t, code, stderr)
			made := regexp.MustCompile(`revision (2:\S+) of .*: (1 clusters, \d+ documents; answers sha256:[0-9a-f]{64})\n$`).FindStringSubmatch(stdout)
			require.NotNil(t, made, stdout)
			requireOnly(t, filepath.Dir(file), "backup.db")
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"5"}}}`).status)

			code, stdout, stderr = invoke(t, "restore", file, "--database-url", to)
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "revision "+made[1]+": "+made[2])
			restored := start(t, "API_MODE=crud", "DATABASE_URL="+to)
			require.Equal(t, before, restored.demo())
			require.Equal(t, revisions, restored.get("/revisions"))
			require.Equal(t, 201, restored.send("POST", "/namespaces", `{"id":"next"}`).status)

			code, _, stderr = invoke(t, "restore", file, "--database-url", to)
			require.NotZero(t, code)
			require.Contains(t, stderr, "not empty")
			require.Contains(t, restored.get("/namespaces/next"), `"next"`)
		})
	}
}

func requireOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, want, names)
}

// TestBackupsInADirectory: names are chosen, the oldest backups are removed, and other files stay.
func TestBackupsInADirectory(t *testing.T) {
	t.Parallel()
	from, dir := "sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), t.TempDir()
	start(t, "API_MODE=crud", "DATABASE_URL="+from, "SEED_FILE="+demoSeed).Kill()
	for _, name := range []string{"fleet-20250101T000000Z-r7.db", "fleet-20250102T000000Z-r8.db", "mine.db"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for name, age := range map[string]time.Duration{".backup-killed": 25 * time.Hour, ".backup-another": time.Hour} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-age)))
	}
	code, stdout, stderr := invoke(t, "backup", "--dir", dir, "--keep", "2", "--database-url", from)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "fleet-20250101T000000Z-r7.db removed\n")
	name := regexp.MustCompile(`fleet-\S+-r1\.db`).FindString(stdout)
	requireOnly(t, dir, ".backup-another", "fleet-20250102T000000Z-r8.db", name, "mine.db")
}

// TestBackupRefuses: a backup or restore that would lose data is refused and leaves no files behind.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, file := "sqlite://"+filepath.Join(dir, "fleet.db"), filepath.Join(dir, "there.db")
	start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed).Kill()
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	for says, args := range map[string][]string{
		"there.db exists; a backup does not replace a file": {"backup", file, "--database-url", url},
		"backup needs a FILE":                               {"backup", "--database-url", url},
		"--dir names the file itself":                       {"backup", "--dir", dir, "--database-url", url, "x.db"},
		"--keep is how many":                                {"backup", "--keep", "3", "--database-url", url, filepath.Join(dir, "x.db")},
		"exists only in its process":                        {"backup", "--database-url", "sqlite::memory:", filepath.Join(dir, "x.db")},
		"nothing.db":                                        {"backup", "--database-url", "sqlite://" + filepath.Join(dir, "nothing.db"), filepath.Join(dir, "x.db")},
		"there.db is no backup":                             {"restore", file, "--database-url", "sqlite://" + filepath.Join(dir, "to.db")},
		"no such file":                                      {"restore", filepath.Join(dir, "nowhere.db"), "--database-url", "sqlite://" + filepath.Join(dir, "to.db")},
		"restore needs one FILE":                            {"restore", "--database-url", url},
		"a memory store is empty again":                     {"restore", file, "--database-url", "sqlite::memory:"},
	} {
		code, stdout, stderr := invoke(t, args...)
		require.NotZero(t, code, "%v: %s", args, stdout)
		require.Contains(t, stderr, says, "%v", args)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(data))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.Contains(e.Name(), "backup") || e.Name() == "x.db" || e.Name() == "to.db", e.Name())
	}
}

// TestBackupToStandardOutput: standard output contains only the file.
func TestBackupToStandardOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite://" + filepath.Join(dir, "fleet.db")
	start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed).Kill()
	code, stdout, stderr := invoke(t, "backup", "-", "--database-url", url)
	require.Zero(t, code, stderr)
	require.True(t, strings.HasPrefix(stdout, "SQLite format 3\x00"))
	piped := filepath.Join(dir, "piped.db")
	require.NoError(t, os.WriteFile(piped, []byte(stdout), 0o600))
	code, stdout, stderr = invoke(t, "restore", piped, "--database-url", "sqlite://"+filepath.Join(dir, "to.db"))
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "1 clusters")
}
