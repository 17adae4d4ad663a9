package main

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetricsAddr: with their own listener, metrics are not available at the address for polls; probes are available on
// both.
func TestMetricsAddr(t *testing.T) {
	t.Parallel()
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "METRICS_ADDR=127.0.0.1:0")
	watch := "http://" + p.watchAddr()
	for path, want := range map[string]int{"/health": 200, "/ready": 200, "/ready?for=polls": 200, "/version": 200, "/metrics": 200, "/openapi.yaml": 404, "/clusters": 404, "/": 404} {
		require.Equal(t, want, status(t, watch+path), path)
	}
	require.Equal(t, 404, status(t, watch+demoPolls+"namespaces"))
	require.Equal(t, 404, status(t, p.Base+"/metrics"))
	for _, path := range []string{"/health", "/ready", "/version", "/openapi.yaml"} {
		require.Equal(t, 200, status(t, p.Base+path), path)
	}

	taken := start(t, "DATABASE_URL=sqlite::memory:", "METRICS_ADDR="+strings.TrimPrefix(watch, "http://"))
	<-taken.Ended
	require.Error(t, taken.Wait())
	require.Contains(t, taken.Log(), "METRICS_ADDR: listen tcp")
	taken = start(t, "DATABASE_URL=sqlite::memory:", "LISTEN_ADDR="+strings.TrimPrefix(p.Base, "http://"))
	<-taken.Ended
	require.Error(t, taken.Wait())
	require.Contains(t, taken.Log(), "LISTEN_ADDR: listen tcp")
}

// watchAddr returns the address of the listener for metrics and probes.
func (p *program) watchAddr() string {
	for line := range strings.Lines(p.Log()) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening for metrics and probes" {
			_, _, err := net.SplitHostPort(said.Addr)
			require.NoError(p.t, err)
			return said.Addr
		}
	}
	p.t.Fatalf("it does not listen for metrics and probes:\n%s", p.Log())
	return ""
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+readToken)
	res, err := new(http.Client).Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}
