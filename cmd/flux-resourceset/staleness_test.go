package main

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A process that was stopped for longer than MAX_STALENESS while another one committed never answers a poll from its old
// copy, whether the poll or its own read of the head comes first.
func TestPausedProcessServesNoStalePoll(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=" + pgtest.URL(t)
	writer := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	paused := start(t, url, "MAX_STALENESS=1s")
	for i := range 3 {
		require.NoError(t, paused.Signal(syscall.SIGSTOP))
		since := time.Now()
		id := "ns-" + strconv.Itoa(i)
		require.Equal(t, 201, writer.insist("POST", "/namespaces", `{"id":"`+id+`"}`).status)
		require.Equal(t, 200, writer.insist("PUT", "/clusters/demo-cluster-01/namespaces/"+id, "").status)
		require.Eventually(t, func() bool { return time.Since(since) > 1200*time.Millisecond }, waitFor, tick)

		answers := make(chan answer, 20)
		require.NoError(t, paused.Signal(syscall.SIGCONT))
		for range cap(answers) {
			go func() { answers <- paused.send("GET", demoPolls+"namespaces", "") }()
		}
		for range cap(answers) {
			if a := <-answers; a.status == 200 {
				require.Contains(t, a.body, id)
			} else {
				require.Equal(t, 503, a.status, a.body)
				require.Equal(t, "1", a.header.Get("Retry-After"))
			}
		}
		paused.eventually(demoPolls+"namespaces", 200)
		paused.eventually("/ready", 200)
	}
}

// A process whose database is down refuses polls after MAX_STALENESS, reports the reason, and recovers by itself.
// Without a limit it continues to answer.
func TestCutOffProcessRefusesPolls(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := "DATABASE_URL=" + server.Database(t, "fleet")
	crud := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed, "MAX_STALENESS=1s")
	crud.eventually("/ready", 200) // the others find a fleet that is seeded
	reader := start(t, url, "MAX_STALENESS=1s")
	endless := start(t, url, "MAX_STALENESS=0")
	endless.eventually("/ready", 200) // it may begin before a database that is busy answers it
	before := endless.demo()
	server.Kill(t)
	for _, p := range []*program{crud, reader} {
		p.eventually(demoPolls+"namespaces", 503)
		status, checks := p.readiness()
		require.Equal(t, 503, status)
		require.Contains(t, checks["state"], "MAX_STALENESS is 1s")
		require.Equal(t, 200, p.send("GET", "/health", "").status)
	}
	require.Equal(t, before, endless.demo())
	server.Start(t)
	for _, p := range []*program{crud, reader} {
		p.eventually(demoPolls+"namespaces", 200)
		p.eventually("/ready", 200)
		require.Equal(t, before, p.demo())
	}
}
