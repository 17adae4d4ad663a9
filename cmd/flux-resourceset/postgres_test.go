package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

func TestSeveralProcessesOnPostgres(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=" + pgtest.URL(t)
	reader := start(t, url) // before there is a schema
	require.Equal(t, 503, reader.send("GET", "/ready", "").status)
	writers := []*program{start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed), start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)}
	readers := []*program{reader, start(t, url)}
	for _, p := range append(writers, readers...) {
		p.eventually("/ready", 200)
	}
	require.Contains(t, readers[1].get("/version"), `"store":"postgres"`)

	const each = 40
	var wg sync.WaitGroup
	for i, w := range writers {
		wg.Go(func() {
			for n := range each {
				id := fmt.Sprintf("ns-%d-%d", i, n)
				a := w.insist("POST", "/namespaces", `{"id":"`+id+`"}`)
				if a.status != 201 || w.insist("PUT", "/clusters/demo-cluster-01/namespaces/"+id, "").status != 200 {
					t.Errorf("%s: %d %s", id, a.status, a.body)
					return
				}
			}
		})
	}
	wg.Wait()
	revision := 0
	for _, w := range writers {
		at, err := strconv.Atoi(w.send("GET", "/namespaces", "").header.Get("X-Fleet-Revision"))
		require.NoError(t, err)
		revision = max(revision, at)
	}
	require.Equal(t, 1+2*2*each, revision, "no update was lost, none was made twice")
	var polls []string
	for _, p := range append(writers, readers...) {
		polls = append(polls, p.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", strconv.Itoa(revision)))
	}
	for _, poll := range polls {
		require.Equal(t, polls[0], poll)
	}
}

func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	server.Kill(t)
	early := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed) // the database is down at the start
	require.Equal(t, 503, early.send("GET", "/ready", "").status)
	require.Equal(t, 503, early.send("GET", demoPolls+"namespaces", "").status)
	hasty := start(t, url, "API_MODE=crud", "START_TIMEOUT=300ms")
	require.Equal(t, 1, hasty.exit())
	require.Contains(t, hasty.Log(), "there is still no fleet to serve after 300ms")

	server.Start(t)
	early.eventually("/ready", 200)
	before := early.get(demoPolls + "platform-components")
	server.Kill(t)
	early.eventually("/ready", 503)
	require.Equal(t, before, early.get(demoPolls+"platform-components"), "polls go on")
	refused := early.send("POST", "/namespaces", `{"id":"x"}`)
	require.Equal(t, 503, refused.status, refused.body)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	server.Start(t)
	early.eventually("/ready", 200)
	require.Equal(t, 201, early.send("POST", "/namespaces", `{"id":"x"}`).status)
}

func TestCopyRoundTrip(t *testing.T) {
	t.Parallel()
	lite := func(name string) string { return "sqlite://" + filepath.Join(t.TempDir(), name) }
	first, second, pg := lite("first.db"), lite("second.db"), pgtest.URL(t)
	polls := func(url string) (body, revisions string) {
		p := start(t, "API_MODE=crud", "DATABASE_URL="+url)
		defer p.Kill()
		return p.get(demoPolls + "platform-components"), p.get("/revisions")
	}
	p := start(t, "API_MODE=crud", "DATABASE_URL="+first, "SEED_FILE="+demoSeed)
	for n := range 20 {
		require.Equal(t, 200, p.send(http.MethodPatch, "/clusters/demo-cluster-01", fmt.Sprintf(`{"patches":{"podinfo":{"replicaCount":"%d"}}}`, n+10)).status)
	}
	p.Kill()
	body, revisions := polls(first)

	for _, hop := range [][2]string{{first, pg}, {pg, second}} {
		code, stdout, stderr := invoke(t, "copy", "--from", hop[0], "--to", hop[1])
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "copied 21 revisions from")
		gotBody, gotRevisions := polls(hop[1])
		require.Equal(t, body, gotBody)
		require.Equal(t, revisions, gotRevisions)
	}
	code, _, stderr := invoke(t, "copy", "--from", first, "--to", pg)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "not empty")
	code, _, stderr = invoke(t, "copy", "--from", "mysql://x")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--from")
	require.Contains(t, stderr, "--to is required")
}

// insist repeats a request while the store is busy, as a client does: a 503 with Retry-After has changed nothing.
func (p *program) insist(method, path, body string) answer {
	p.t.Helper()
	for {
		a := p.send(method, path, body)
		if a.status != 503 || a.header.Get("Retry-After") == "" {
			return a
		}
	}
}
