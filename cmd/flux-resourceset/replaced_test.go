package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// backends are databases of both kinds, with direct SQL access to each.
func backends() map[string]func(*testing.T) (url string, exec func(query string)) {
	return map[string]func(*testing.T) (string, func(string)){
		"postgres": func(t *testing.T) (string, func(string)) {
			t.Helper()
			url := pgtest.URL(t)
			return url, func(query string) { pgtest.Exec(t, url, query) }
		},
		"sqlite": func(t *testing.T) (string, func(string)) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "fleet.db")
			return "sqlite://" + path, func(query string) {
				db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(30000)")
				require.NoError(t, err)
				_, err = db.ExecContext(t.Context(), query)
				require.NoError(t, err)
				require.NoError(t, db.Close())
			}
		},
	}
}

// Operator mistakes as SQL.
const (
	emptied = `DELETE FROM changes; DELETE FROM commits; DELETE FROM documents;
		UPDATE head SET revision = 0, commit_id = '00000000-0000-0000-0000-000000000000', at = 0, documents = 0`
	// restored goes back to revision 1, after which no revision changed a document of it.
	restored = `DELETE FROM changes WHERE revision > 1; DELETE FROM commits WHERE revision > 1; DELETE FROM documents WHERE revision > 1;
		UPDATE head SET revision = 1, commit_id = (SELECT id FROM commits), documents = (SELECT count(*) FROM documents)`
	dropped = `DROP TABLE changes; DROP TABLE commits; DROP TABLE documents; DROP TABLE head; DROP TABLE schema_version`
)

// demo polls all lists of the demo's first cluster.
func (p *program) demo() string {
	p.t.Helper()
	var all []string
	for _, list := range []string{"platform-components", "namespaces", "rolebindings"} {
		all = append(all, p.get(demoPolls+list))
	}
	return strings.Join(all, "\n")
}

func (p *program) readiness() (status int, checks map[string]string) {
	p.t.Helper()
	a := p.send("GET", "/ready", "")
	var out struct{ Checks map[string]string }
	require.NoError(p.t, json.Unmarshal([]byte(a.body), &out), a.body)
	return a.status, out.Checks
}

func TestReplacedHistory(t *testing.T) {
	t.Parallel()
	for backend, open := range backends() {
		for name, damage := range map[string]string{"restored backup": restored, "emptied tables": emptied} {
			t.Run(backend+", "+name, func(t *testing.T) {
				t.Parallel()
				url, exec := open(t)
				state := t.TempDir()
				crud := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed)
				settings := []string{"DATABASE_URL=" + url, "STATE_DIR=" + state}
				reader := start(t, settings...)
				require.Equal(t, 201, crud.send("POST", "/namespaces", `{"id":"lost"}`).status)
				reader.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", "2")
				require.Eventually(t, func() bool { return kept(state) }, waitFor, tick)
				before := reader.demo()

				exec(damage)
				for _, p := range []*program{crud, reader} {
					require.Eventually(t, func() bool {
						return strings.Contains(p.Log(), "changes are refused until an operator accepts")
					}, waitFor, tick)
					require.Contains(t, p.get("/metrics"), "flux_resourceset_store_content_refused 1")
					_, checks := p.readiness()
					require.Regexp(t, `another history, which ends with [01]:[0-9a-f-]{36}, and 2:[0-9a-f-]{36} is served until an operator runs .flux-resourceset accept`, checks["store"])
					require.Equal(t, before, p.demo())
				}
				status, _ := crud.readiness()
				require.Equal(t, 503, status)
				status, _ = reader.readiness()
				require.Equal(t, 200, status, "it still answers polls")
				refused := crud.send("POST", "/namespaces", `{"id":"no"}`)
				require.Equal(t, 503, refused.status)
				require.Contains(t, refused.body, "history was replaced")

				// A process with a state directory serves the same after a restart. accept without --yes accepts nothing.
				reader.Kill()
				reader = start(t, settings...)
				require.Equal(t, before, reader.demo())
				code, stdout, stderr := invoke(t, "accept", "--database-url", url)
				require.Zero(t, code, stderr)
				require.Contains(t, stdout, "nothing was accepted")
				require.Equal(t, before, reader.demo())
				_, checks := reader.readiness()
				served := served(t, checks["store"])
				code, _, stderr = invoke(t, "accept", "--replaces", "2", "--database-url", url)
				require.Equal(t, 2, code)
				require.Contains(t, stderr, "REVISION:COMMIT-ID")

				code, stdout, stderr = invoke(t, "accept", "--yes", "--replaces", served, "--database-url", url)
				require.Zero(t, code, stderr)
				require.Contains(t, stdout, served+" is not part of this history")
				require.Contains(t, stdout, "accepted, as revision")
				for _, p := range []*program{crud, reader} {
					require.Eventually(t, func() bool { return strings.Contains(p.Log(), "replaced by the store's new content") }, waitFor, tick, "%s", p.Log())
					p.eventually("/ready", http.StatusOK)
					require.Contains(t, p.get("/metrics"), "flux_resourceset_store_content_refused 0")
					require.Contains(t, p.get("/metrics"), "flux_resourceset_store_reloads_total 1")
				}
				if damage == emptied {
					require.Equal(t, 404, reader.send("GET", demoPolls+"namespaces", "").status, "and not an empty list")
				} else {
					require.Equal(t, before, reader.demo())
				}
				require.Equal(t, 201, crud.send("POST", "/namespaces", `{"id":"lost"}`).status)
				accepted := crud.get("/revisions")
				require.Contains(t, accepted, "in place of the one that ends with "+served)
			})
		}
	}
}

// served returns the fleet that /ready reports as served.
func served(t *testing.T, check string) string {
	t.Helper()
	_, rest, ok := strings.Cut(check, "and ")
	require.True(t, ok, check)
	head, _, ok := strings.Cut(rest, " is served")
	require.True(t, ok, check)
	return head
}

// A store without its schema has no history: it can be neither read nor accepted, and polls continue.
func TestDroppedSchema(t *testing.T) {
	t.Parallel()
	for backend, open := range backends() {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/seed gone %t", backend, gone), func(t *testing.T) {
				t.Parallel()
				url, exec := open(t)
				state := t.TempDir()
				seed := filepath.Join(t.TempDir(), "seed.json")
				body, err := os.ReadFile(demoSeed)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(seed, body, 0o600))
				settings := []string{"API_MODE=crud", "DATABASE_URL=" + url, "SEED_FILE=" + seed, "STATE_DIR=" + state}
				p := start(t, settings...)
				require.Eventually(t, func() bool { return kept(state) }, waitFor, tick)
				before := p.demo()
				exec(dropped)
				p.eventually("/ready", 503)
				require.Equal(t, before, p.demo())
				require.Equal(t, 503, p.send("POST", "/namespaces", `{"id":"no"}`).status)

				// A new process creates the schema again, but neither fills it nor serves it, also when the seed file was
				// removed.
				p.Kill()
				if gone {
					require.NoError(t, os.Remove(seed))
				}
				p = start(t, settings...)
				require.Eventually(t, func() bool { return strings.Contains(p.Log(), "changes are refused until an operator accepts") }, waitFor, tick)
				require.Equal(t, before, p.demo())
				_, checks := p.readiness()
				require.Contains(t, checks["store"], "which ends with 0:")
			})
		}
	}
}

// Processes with a directory answer polls while the database is down, in every mode.
func TestStartWithoutDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	state := t.TempDir()
	first := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed, "STATE_DIR="+state)
	before := first.demo()
	first.terminate()
	require.True(t, kept(state), "written at the end at the latest")
	server.Kill(t)

	copied, broken := t.TempDir(), t.TempDir() // each process has a directory of its own
	require.NoError(t, os.CopyFS(copied, os.DirFS(state)))
	require.NoError(t, os.CopyFS(broken, os.DirFS(state)))
	crud := start(t, url, "API_MODE=crud", "STATE_DIR="+state, "START_TIMEOUT=300ms")
	reader := start(t, url, "STATE_DIR="+copied)
	for _, p := range []*program{crud, reader} {
		require.Equal(t, before, p.demo())
		_, checks := p.readiness()
		require.Contains(t, checks["state"], "from disk")
		require.Equal(t, "the store does not answer", checks["store"])
		require.Contains(t, p.get("/metrics"), "flux_resourceset_fleet_from_disk 1")
	}
	require.Equal(t, 503, crud.send("GET", "/ready", "").status)
	require.Equal(t, 200, reader.send("GET", "/ready", "").status)
	require.Equal(t, 503, crud.send("POST", "/namespaces", `{"id":"no"}`).status)

	file := filepath.Join(broken, "last-good.state")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	damaged := start(t, url, "STATE_DIR="+broken)
	require.Contains(t, damaged.Log(), "its checksum is wrong")
	require.Equal(t, 503, damaged.send("GET", demoPolls+"namespaces", "").status)
	require.Equal(t, 503, damaged.send("GET", "/ready", "").status)

	server.Start(t)
	for _, p := range []*program{crud, reader, damaged} {
		p.eventually("/ready", 200)
		p.eventually(demoPolls+"namespaces", 200)
		require.Equal(t, before, p.demo())
	}
	require.Eventually(t, func() bool {
		_, checks := reader.readiness()
		return checks["state"] == "ok" && checks["store"] == "ok"
	}, waitFor, tick)
	a := crud.insist("POST", "/namespaces", `{"id":"yes"}`)
	require.Equal(t, 201, a.status, a.body)
}

func kept(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.state"))
	return err == nil && len(files) == 1
}

// terminate ends the program as a supervisor does, and waits.
func (p *program) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.Signal(os.Interrupt))
	require.Zero(p.t, p.exit(), p.Log())
}
