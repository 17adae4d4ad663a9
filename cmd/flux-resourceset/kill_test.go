package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A process that is killed right after an answer, and restarted while its database is down, never answers a poll from an
// older revision.
func TestKilledProcessServesNoOlderRevision(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	away := "DATABASE_URL=postgres://nobody@127.0.0.1:1/fleet?sslmode=disable"
	dir := "STATE_DIR=" + t.TempDir()
	crud := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	const polls = demoPolls + "namespaces"
	answered := 0
	for n := range 8 {
		reader := start(t, url, dir)
		got := crud.insist("POST", "/namespaces", `{"id":"ns-`+strconv.Itoa(n)+`"}`)
		require.Equal(t, 201, got.status)
		newest := got.header.Get("X-Fleet-Revision")
		reader.eventually("/ready", 200)
		reader.get(polls, "X-Fleet-Min-Revision", newest)
		reader.Kill()

		again := start(t, away, dir)
		got = again.send(http.MethodGet, polls, "")
		if got.status == http.StatusOK {
			answered++
			require.Equal(t, newest, got.header.Get("X-Fleet-Revision"), again.Log())
		} else {
			require.Equal(t, 503, got.status, again.Log())
		}
		again.Kill()
	}
	require.Positive(t, answered, "from disk")
}

// The same for a crud process that is killed right after an acknowledgment, on either store; the acknowledged change
// persists. A process that is killed before its first State is on disk answers no poll until its store is back; on
// SQLite it does not even start.
func TestKilledWriterServesNoOlderRevision(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func(*testing.T) (there, away string){
		"sqlite": func(t *testing.T) (string, string) {
			// A missing file would be created, as for a new installation without clusters.
			dir := t.TempDir()
			away := filepath.Join(dir, "away.db")
			require.NoError(t, os.WriteFile(away, []byte(strings.Repeat("no database. ", 1000)), 0o600))
			return "sqlite://" + filepath.Join(dir, "fleet.db"), "sqlite://" + away
		},
		"postgres": func(t *testing.T) (string, string) {
			return pgtest.NewServer(t).Database(t, "fleet"), "postgres://nobody@127.0.0.1:1/fleet?sslmode=disable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there, away := urls(t)
			disk := t.TempDir()
			dir := "STATE_DIR=" + disk
			onDisk := func() bool {
				_, err := os.Stat(filepath.Join(disk, "last-good.state"))
				return err == nil
			}
			const polls = demoPolls + "namespaces"
			const rounds = 5
			newest := ""
			for n := range rounds {
				writer := start(t, "DATABASE_URL="+there, "API_MODE=crud", "SEED_FILE="+demoSeed, dir)
				writer.eventually("/ready", 200)
				if n > 0 {
					require.Equal(t, newest, writer.send(http.MethodGet, polls, "").header.Get("X-Fleet-Revision"))
				}
				for i := range 5 {
					got := writer.insist("POST", "/namespaces", `{"id":"ns-`+strconv.Itoa(n)+"-"+strconv.Itoa(i)+`"}`)
					require.Equal(t, 201, got.status, got.body)
					newest = got.header.Get("X-Fleet-Revision")
				}
				if n == rounds-1 {
					require.Eventually(t, onDisk, waitFor, tick)
				}
				must := onDisk()
				writer.Kill()

				again := start(t, "DATABASE_URL="+away, "API_MODE=crud", dir)
				switch got := again.send(http.MethodGet, polls, ""); {
				case got.status == http.StatusOK:
					require.Equal(t, newest, got.header.Get("X-Fleet-Revision"), again.Log())
				case must:
					require.Equal(t, 200, got.status, "%s\n%s", got.body, again.Log())
				case again.Base == "":
					require.Equal(t, 1, again.exit(), again.Log())
				default:
					require.Equal(t, 503, got.status, "%s\n%s", got.body, again.Log())
				}
				again.Kill()
			}
		})
	}
}
