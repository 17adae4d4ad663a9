package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// SHUTDOWN_DELAY: after a signal the process is not ready, but answers, until the next signal.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	p := start(t, "DATABASE_URL=sqlite::memory:", "API_MODE=crud", "SEED_FILE="+demoSeed, "SHUTDOWN_DELAY=1h")
	require.NoError(t, p.Ready(t.Context(), nil))
	require.NoError(t, p.Signal(syscall.SIGTERM))
	p.eventually("/ready", http.StatusServiceUnavailable)
	_, checks := p.readiness()
	require.Equal(t, "stopping", checks["process"])
	p.eventually("/ready?for=polls", http.StatusServiceUnavailable)
	p.get("/health")
	p.get(demoPolls + "namespaces")
	require.Equal(t, http.StatusOK, p.send(http.MethodPatch, "/clusters/demo-cluster-01", `{"cluster_name":"renamed"}`).status)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit(), p.Log())

	p = start(t, "DATABASE_URL=sqlite::memory:", "API_MODE=crud", "SEED_FILE="+demoSeed, "SHUTDOWN_DELAY=1ms")
	p.terminate()
}
