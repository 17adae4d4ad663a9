package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestUpgradeFromReleases: a store of each release, with documents of every kind, is opened and migrated. Clusters are served the same bytes as
// before, the history is the same and can be read, and changes are possible. The way back is a backup that was made before: one of this
// version, and the one that the release made, restore the same answers. That the release's own program opens it cannot be tried here: a program
// refuses a newer schema (TestMigrate), so it needs the backup that was made before the upgrade, which this test restores with this program.
func TestUpgradeFromReleases(t *testing.T) {
	t.Parallel()
	fixtures, err := filepath.Glob("testdata/[0-9]*")
	require.NoError(t, err)
	require.NotEmpty(t, fixtures)
	for _, dir := range fixtures {
		var want released
		require.NoError(t, json.Unmarshal(readFile(t, filepath.Join(dir, "answers.json")), &want))
		backup := filepath.Join(t.TempDir(), "released.db")
		require.NoError(t, os.WriteFile(backup, readPacked(t, filepath.Join(dir, "backup.db.gz")), 0o600))
		for store, empty := range map[string]func(t *testing.T) string{
			"sqlite":   func(t *testing.T) string { t.Helper(); return "sqlite://" + filepath.Join(t.TempDir(), "fleet.db") },
			"postgres": func(t *testing.T) string { t.Helper(); return pgtest.URL(t) },
		} {
			t.Run(filepath.Base(dir)+" "+store, func(t *testing.T) {
				t.Parallel()
				url := empty(t)
				if store == "sqlite" {
					require.NoError(t, os.WriteFile(strings.TrimPrefix(url, "sqlite://"), readPacked(t, filepath.Join(dir, "sqlite.db.gz")), 0o600))
				} else {
					pgtest.Exec(t, url, string(readPacked(t, filepath.Join(dir, "postgres.sql.gz"))))
				}
				code, _, stderr := invoke(t, "migrate", "up", "--database-url", url)
				require.Zero(t, code, stderr)
				require.Equal(t, want.Verify[store], verified(t, url))
				paths := slices.Sorted(maps.Keys(want.Polls))
				p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "PASSIVE=true", "WEBHOOK_KEY="+strings.Repeat("k", 32), "PUBLIC_URL=https://fleet.example.com")
				require.Equal(t, want.Polls, p.allPolls(paths))
				readsAll(t, p, want.Verify[store])

				made := filepath.Join(t.TempDir(), "before.db")
				code, _, stderr = invoke(t, "backup", made, "--database-url", url)
				require.Zero(t, code, stderr)
				change := p.send("PATCH", "/layers/web", `{"patches":{"podinfo":{"replicaCount":"9"}}}`)
				require.Equal(t, 200, change.status, change.body)
				require.NotEqual(t, want.Polls, p.allPolls(paths))
				require.NoError(t, p.Stop())
				for _, file := range []string{made, backup} {
					restored := empty(t)
					code, _, stderr = invoke(t, "restore", file, "--database-url", restored)
					require.Zero(t, code, stderr)
					p = start(t, "API_MODE=crud", "DATABASE_URL="+restored)
					require.Equal(t, want.Polls, p.allPolls(paths))
					require.NoError(t, p.Stop())
				}
			})
		}
	}
}

// readsAll reads each revision, the fleet as of it, and the documents of each kind with their histories.
func readsAll(t *testing.T, p *program, newest string) {
	t.Helper()
	last := 0
	_, err := fmt.Sscanf(newest, "%d=", &last)
	require.NoError(t, err)
	for rev := 1; rev <= last; rev++ {
		p.get(fmt.Sprintf("/revisions/%d", rev))
	}
	p.get(fmt.Sprintf("/clusters/web-01?revision=%d", last-1))
	for _, path := range []string{"/clusters/web-01", "/clusters/again", "/platform_components/podinfo", "/namespaces/shop", "/rolebindings/viewers", "/resource_types/quotas", "/resources/quotas/small", "/layers/web", "/webhooks/log"} {
		p.get(path)
		p.get(path + "/history")
	}
	for _, path := range []string{"/rollouts/podinfo-7", "/strategies/waves", "/freezes/launch", "/access/reviewers", "/policies/second", "/sources/platform", "/approvals", "/tokens", "/platform_components/podinfo/versions", "/status", "/clusters/web-02/explain"} {
		p.get(path)
	}
	plan := p.send("POST", "/revisions/"+fmt.Sprint(last)+"/revert?dry_run=true", "")
	require.NotEqual(t, 500, plan.status, plan.body)
}
