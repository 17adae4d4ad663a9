package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/bench"
)

// Whoever may only read asks, on many connections, for the whole of a large revision and for all clusters, and takes nothing of
// the answers. What the process holds for them has a bound, and it goes on answering others.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const (
		clusters    = 2_000
		connections = 400
		most        = 700 << 20
	)
	seed := filepath.Join(t.TempDir(), "seed.json")
	f, err := os.Create(seed)
	require.NoError(t, err)
	require.NoError(t, bench.Realistic(clusters).WriteSeed(f))
	require.NoError(t, f.Close())
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE="+seed)
	p.eventually("/ready", http.StatusOK)
	idle := p.peakMemory()

	var mu sync.Mutex
	answers := map[string]int{}
	var flood sync.WaitGroup
	for i := range connections {
		path := [...]string{"/revisions/1?limit=10000", "/clusters", "/revisions?limit=1000", "/clusters/" + bench.ClusterID(i)}[i%4]
		flood.Go(func() {
			status := "429"
			for n := 0; status == "429" && n < 50; n++ { // what was refused is asked for again
				status = p.askSlowly(path)
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	flood.Wait()
	t.Log(answers)
	require.Greater(t, answers["200"], connections/2)
	body := fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":%q,"oci_tag":"2.0.0"}]}`, bench.ComponentID(7))
	require.Equal(t, http.StatusOK, p.send(http.MethodPost, "/batch", body).status)
	require.Equal(t, http.StatusOK, p.send(http.MethodGet, "/revisions/2?limit=10", "").status)
	peak := p.peakMemory()
	t.Logf("memory: %d MiB at first, %d MiB at most", idle>>20, peak>>20)
	require.Less(t, peak, most)
}

// askSlowly asks for something with the read token, and takes no more of the answer than its status.
func (p *program) askSlowly(path string) (status string) {
	conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		return err.Error()
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel takes the answer
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, readToken)
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, head); err != nil {
		return err.Error()
	}
	return string(head[len(head)-3:])
}
