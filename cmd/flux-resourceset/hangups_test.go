package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After clients hang up at random moments of a write, the server still accepts writes, and so does the file from another
// program.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	const clients, each = 4, 300
	for backend, open := range backends() {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			url, _ := open(t)
			p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed)
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					for n := range each {
						p.hangUp("PATCH", "/clusters/demo-cluster-01", fmt.Sprintf(`{"patches":{"podinfo":{"replicaCount":"%d"}}}`, i*each+n))
					}
				})
			}
			wg.Wait()
			require.Equal(t, 200, p.insist("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"-1"}}}`).status, p.Log())
			require.Contains(t, p.get(demoPolls+"platform-components"), `"replicaCount":"-1"`)
			require.NotContains(t, p.Log(), "transaction within a transaction")
			p.get("/ready")
			code, _, stderr := invoke(t, "migrate", "up", "--database-url", url)
			require.Zero(t, code, stderr)
		})
	}
}

// hangUp sends a request and disconnects a few moments later.
func (p *program) hangUp(method, path, body string) {
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	patience := rand.N(5 * time.Millisecond)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(patience, cancel) },
	})
	req, err := http.NewRequestWithContext(traced, method, p.Base+path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+writeToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err == nil {
		_ = resp.Body.Close() // it was quicker
	}
}
