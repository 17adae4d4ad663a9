package main

import (
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A process that is killed right after an answer, and starts again while its database is away, never answers a poll
// from an older revision.
func TestKilledProcessNeverGoesBack(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	away := "DATABASE_URL=postgres://nobody@127.0.0.1:1/fleet?sslmode=disable"
	dir := "STATE_DIR=" + t.TempDir()
	crud := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	const polls = demoPolls + "namespaces"
	answered := 0
	for n := range 20 {
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

// So does one that takes changes, killed as soon as it has acknowledged one, on either store; and what it acknowledged is
// there when its store is.
func TestKilledWriterNeverGoesBack(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func(*testing.T) (there, away string){
		"sqlite": func(t *testing.T) (string, string) {
			dir := t.TempDir()
			return "sqlite://" + filepath.Join(dir, "fleet.db"), "sqlite://" + filepath.Join(dir, "missing", "fleet.db")
		},
		"postgres": func(t *testing.T) (string, string) {
			return pgtest.NewServer(t).Database(t, "fleet"), "postgres://nobody@127.0.0.1:1/fleet?sslmode=disable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there, away := urls(t)
			dir := "STATE_DIR=" + t.TempDir()
			const polls = demoPolls + "namespaces"
			answered, newest := 0, ""
			for n := range 5 {
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
				writer.Kill()

				again := start(t, "DATABASE_URL="+away, "API_MODE=crud", dir)
				if got := again.send(http.MethodGet, polls, ""); got.status == http.StatusOK {
					answered++
					require.Equal(t, newest, got.header.Get("X-Fleet-Revision"), again.Log())
				} else {
					require.Equal(t, 503, got.status, again.Log())
				}
				again.Kill()
			}
			require.Positive(t, answered, "from disk")
		})
	}
}
