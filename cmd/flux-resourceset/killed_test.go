package main

import (
	"net/http"
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
		reader.kill()

		again := start(t, away, dir)
		got = again.send(http.MethodGet, polls, "")
		if got.status == http.StatusOK {
			answered++
			require.Equal(t, newest, got.header.Get("X-Fleet-Revision"), again.logged())
		} else {
			require.Equal(t, 503, got.status, again.logged())
		}
		again.kill()
	}
	require.Positive(t, answered, "from disk")
}
