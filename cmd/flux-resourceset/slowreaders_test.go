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

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// TestSlowReaders: a client with a read token requests large answers on many connections (a large revision, all clusters, explanations of
// thousands of inputs) and does not read them. The memory for the answers is bounded, and other clients are served.
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
	// With a memory limit, as in a container, the peak is memory in use and not garbage that no collection has freed yet.
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE="+seed, "GOMEMLIMIT=550MiB")
	p.eventually("/ready", http.StatusOK)
	p.widen(5_000)
	idle := p.peakMemory()

	var mu sync.Mutex
	answers := map[string]int{}
	var flood sync.WaitGroup
	for i := range connections {
		path := [...]string{"/revisions/1?limit=10000", "/clusters", "/revisions?limit=1000", "/clusters/" + bench.ClusterID(i), "/clusters/wide/explain"}[i%5]
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
	require.Greater(t, answers["200"], connections/4)
	body := fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":%q,"oci_tag":"2.0.0"}]}`, bench.ComponentID(7))
	require.Equal(t, http.StatusOK, p.send(http.MethodPost, "/batch", body).status)
	require.Equal(t, http.StatusOK, p.send(http.MethodGet, "/revisions/2?limit=10", "").status)
	peak := p.peakMemory()
	t.Logf("memory: %d MiB at first, %d MiB at most", idle>>20, peak>>20)
	require.Less(t, peak, most)
}

// askSlowly asks for something with the read token, and takes no more of the answer than its status.
func (p *program) askSlowly(path string) (status string) {
	conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.Base, "http://"))
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

// widen adds a cluster that a layer gives so many namespaces.
func (p *program) widen(namespaces int) {
	ids := make([]string, namespaces)
	for from := 0; from < namespaces; from += 1000 {
		var ops []string
		for i := from; i < min(from+1000, namespaces); i++ {
			ids[i] = fmt.Sprintf(`{"id":"wide-%d"}`, i)
			ops = append(ops, `{"op":"create","kind":"namespace","document":`+ids[i]+`}`)
		}
		require.Equal(p.t, http.StatusOK, p.send(http.MethodPost, "/batch", `{"operations":[`+strings.Join(ops, ",")+`]}`).status)
	}
	for path, body := range map[string]string{
		"/clusters": `{"id":"wide","cluster_dns":"wide.example.com","environment":"dev","labels":{"wide":"yes"}}`,
		"/layers":   `{"id":"wide","priority":1,"selector":"wide=yes","namespaces":[` + strings.Join(ids, ",") + `]}`,
	} {
		require.Equal(p.t, http.StatusCreated, p.send(http.MethodPost, path, body).status)
	}
}
