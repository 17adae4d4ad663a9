package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// watch polls all processes in turn, as a load balancer does, and fails if a cluster receives two different lists. It
// returns the list, "" if all processes refused.
func watch(t *testing.T, rounds int, processes ...*program) (seen string) {
	t.Helper()
	for range rounds {
		for _, p := range processes {
			a := p.send("GET", demoPolls+"namespaces", "")
			if a.status == 503 {
				continue
			}
			require.Equal(t, 200, a.status, "%s\n%s", a.body, p.Log())
			if seen == "" {
				seen = a.body
			}
			require.Equal(t, seen, a.body, "%s answers something else than the others", p.Base)
		}
	}
	return seen
}

// A history replaced by one that lacks commits, as after a failover or a restore, is quarantined for the whole service:
// processes that had not seen the lost commits, and one that starts later, answer no poll with it, whatever state they
// had. After an operator accepts it, all of them continue with it.
func TestReplacedHistoryIsQuarantined(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	setting := "DATABASE_URL=" + url
	cruds := []*program{start(t, setting, "API_MODE=crud", "SEED_FILE="+demoSeed), start(t, setting, "API_MODE=crud")}
	readers := []*program{start(t, setting), start(t, setting)}
	all := append(cruds, readers...)
	crud := cruds[0]
	crud.eventually("/ready", 200)
	pgtest.Exec(t, url, `CREATE TABLE saved AS SELECT * FROM documents`)
	require.Equal(t, 201, crud.send("POST", "/namespaces", `{"id":"lost"}`).status)
	require.Equal(t, 200, crud.send("PUT", "/clusters/demo-cluster-01/namespaces/lost", "").status)
	for _, p := range all {
		require.Contains(t, p.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", "3"), `"lost"`)
	}
	pgtest.Exec(t, url, `DELETE FROM documents; INSERT INTO documents SELECT * FROM saved;`+restored)
	for _, p := range all {
		require.Eventually(t, func() bool {
			_, checks := p.readiness()
			return strings.Contains(checks["store"], "until an operator runs `flux-resourceset accept`")
		}, waitFor, tick, "%s", p.Log())
	}
	late := start(t, setting, "API_MODE=crud", "SEED_FILE="+demoSeed)
	all = append(all, late, start(t, setting))
	require.Contains(t, watch(t, 5, all...), `"lost"`)
	require.Equal(t, 503, late.send("GET", demoPolls+"namespaces", "").status)
	status, checks := late.readiness()
	require.Equal(t, 503, status)
	require.Contains(t, checks["state"], "quarantined")
	require.Contains(t, checks["store"], "until an operator runs `flux-resourceset accept`")
	require.Equal(t, 200, late.send("GET", "/clusters", "").status, "people may look at it")
	for _, p := range []*program{cruds[0], cruds[1], late} {
		a := p.send("POST", "/namespaces", `{"id":"no"}`)
		require.Equal(t, 503, a.status, a.body)
	}

	// After the end of the processes that served the lost history, the quarantine stays: the others still answer no poll.
	for _, p := range all[:4] {
		p.Kill()
	}
	left := all[4:]
	require.Empty(t, watch(t, 3, left...))
	code, stdout, stderr := invoke(t, "accept", "--database-url", url)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "quarantined since")
	require.Contains(t, stdout, "demo-cluster-01: installs ")
	require.Empty(t, watch(t, 3, left...))

	code, _, stderr = invoke(t, "accept", "--yes", "--database-url", url)
	require.Zero(t, code, stderr)
	for _, p := range left {
		p.eventually("/ready", 200)
		require.NotContains(t, p.demo(), `"lost"`)
	}
	require.Equal(t, 201, late.insist("POST", "/namespaces", `{"id":"yes"}`).status)
}

// A store that is empty because it was lost, or because it is the wrong one, is not served after it is filled from
// SEED_FILE, in either mode, until an operator accepts it.
func TestSeedOnALostStore(t *testing.T) {
	t.Parallel()
	pg := pgtest.URL(t)
	lite := func() string { return "sqlite://" + filepath.Join(t.TempDir(), "fleet.db") }
	for name, settings := range map[string][]string{
		"crud on Postgres":    {"API_MODE=crud", "DATABASE_URL=" + pg},
		"crud on SQLite":      {"API_MODE=crud", "DATABASE_URL=" + lite()},
		"read-only on SQLite": {"DATABASE_URL=" + lite()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := strings.TrimPrefix(settings[len(settings)-1], "DATABASE_URL=")
			settings = append(settings, "SEED_FILE="+demoSeed, "SEED_ACCEPT=false")
			p := start(t, settings...)
			for range 2 { // a restart does not change that
				refused := p.send("GET", demoPolls+"namespaces", "")
				require.Equal(t, 503, refused.status, "%s\n%s", refused.body, p.Log())
				status, checks := p.readiness()
				require.Equal(t, 503, status)
				require.Contains(t, checks["store"], "filled from SEED_FILE")
				if settings[0] == "API_MODE=crud" {
					require.Equal(t, 200, p.send("GET", "/clusters", "").status)
					require.Equal(t, 503, p.send("POST", "/namespaces", `{"id":"no"}`).status)
				}
				p.Kill()
				p = start(t, settings...)
			}
			code, stdout, stderr := invoke(t, "accept", "--yes", "--database-url", url)
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "filled from SEED_FILE")
			p.eventually("/ready", 200)
			p.demo()
		})
	}
	p := start(t, "STORE_BACKEND=memory", "SEED_FILE="+demoSeed, "SEED_ACCEPT=false")
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.Log(), "SEED_ACCEPT=true")
}

// The same while another process still serves the lost fleet: it continues, and no cluster receives the seed.
func TestSeedWhileAnotherProcessServes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	setting := "DATABASE_URL=" + url
	crud := start(t, setting, "API_MODE=crud", "SEED_FILE="+demoSeed)
	reader := start(t, setting)
	require.Equal(t, 201, crud.send("POST", "/namespaces", `{"id":"lost"}`).status)
	require.Equal(t, 200, crud.send("PUT", "/clusters/demo-cluster-01/namespaces/lost", "").status)
	reader.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", "3")
	before := reader.demo()
	crud.Kill()
	pgtest.Exec(t, url, dropped)
	reader.eventuallyLogs("cannot be followed")
	crud = start(t, setting, "API_MODE=crud", "SEED_FILE="+demoSeed, "SEED_ACCEPT=false")
	reader.eventuallyLogs("changes are refused until an operator accepts")
	require.Contains(t, watch(t, 5, crud, reader), `"lost"`)
	require.Equal(t, before, reader.demo())

	// SEED_ACCEPT declares the seed the desired state, even if another process serves a different one.
	crud.Kill()
	code, _, stderr := invoke(t, "accept", "--yes", "--database-url", url)
	require.Zero(t, code, stderr)
	reader.eventuallyLogs("replaced by the store's new content")
	require.NotContains(t, reader.send("GET", demoPolls+"namespaces", "").body, `"lost"`)
}

// SEED_FILE is needed only for an empty store.
func TestMissingSeedFileIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := filepath.Join(dir, "seed.json")
	body, err := os.ReadFile(demoSeed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(seed, body, 0o600))
	settings := []string{"API_MODE=crud", "DATABASE_URL=sqlite://" + filepath.Join(dir, "fleet.db"), "SEED_FILE=" + seed}
	p := start(t, settings...)
	before := p.demo()
	p.Kill()
	require.NoError(t, os.WriteFile(seed, []byte(`{"clusters":[`), 0o600))
	p = start(t, settings...)
	require.Equal(t, before, p.demo())
	p.Kill()
	require.NoError(t, os.Remove(seed))
	p = start(t, settings...)
	require.Equal(t, before, p.demo())
	require.Contains(t, p.Log(), "SEED_FILE does not exist; it is not needed")

	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+filepath.Join(dir, "empty.db"), "SEED_FILE="+seed)
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.Log(), "does not exist, and the empty store needs it")
}

// TestMemoryStoreWarning: the reference writes changes back to its seed file; a log message warns users who expect that.
func TestMemoryStoreWarning(t *testing.T) {
	t.Parallel()
	p := start(t, "API_MODE=crud", "STORE_BACKEND=memory", "SEED_FILE="+demoSeed)
	require.NotEmpty(t, p.demo())
	require.Contains(t, p.Log(), "all changes are gone with the process, and none is written back to SEED_FILE")
}

func (p *program) eventuallyLogs(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.Log(), text) }, waitFor, tick, text)
}

// TestAcceptPausesRollouts: clusters of started stages keep the change, and no stage starts by itself in the accepted content.
func TestAcceptPausesRollouts(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	setting := []string{"API_MODE=crud", "DATABASE_URL=" + url, "SEED_FILE=" + demoSeed}
	p := start(t, setting...)
	made := p.send("POST", "/rollouts", `{"id":"r","operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.9.9"}}],"stages":[{"name":"one","selector":"environment=dev"}]}`)
	require.Equal(t, 201, made.status, made.body)
	require.Equal(t, 200, p.send("POST", "/rollouts/r/start", "").status)
	policy := p.send("PATCH", "/platform_components/podinfo", `{"version_policies":{"catalog":{"range":">=6"}}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 200, policy.status, policy.body)
	before := p.demo()
	p.Kill()
	copied := "sqlite://" + filepath.Join(t.TempDir(), "copy.db") // which is marked, so that only an acceptance ends that
	code, _, stderr := invoke(t, "copy", "--from", url, "--to", copied)
	require.Zero(t, code, stderr)
	setting[1] = "DATABASE_URL=" + copied
	code, stdout, stderr := invoke(t, "accept", "--yes", "--database-url", copied)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "rollout r is paused by the acceptance")
	require.Contains(t, stdout, "the version policies of component podinfo are suspended")
	_, stdout, _ = invoke(t, "accept", "--database-url", copied)
	require.NotContains(t, stdout, "is a copy")
	p = start(t, setting...)
	require.Contains(t, p.get("/rollouts/r"), `"state":"paused"`)
	require.Equal(t, before, p.demo())
}
