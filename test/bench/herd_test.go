package bench_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkHerd: every cluster of a fleet polls its three lists within 30 seconds right after a start, before any answer
// is encoded, with one connection each as Flux Operator does. Then it polls once more, and once a bare server that
// writes answers of the same sizes, as the baseline.
func BenchmarkHerd(b *testing.B) {
	clusters := fleetSize(b)
	for range b.N {
		dir := b.TempDir()
		seed := filepath.Join(dir, "seed.json")
		f, err := os.Create(seed)
		require.NoError(b, err)
		require.NoError(b, bench.Realistic(clusters).WriteSeed(f))
		require.NoError(b, f.Close())
		url := "DATABASE_URL=sqlite://" + filepath.Join(dir, "fleet.db")
		start(b, url, "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true").server.Kill()
		reader := start(b, url)
		stampede(b, "cold", clusters, reader)
		stampede(b, "warm", clusters, reader)
		b.ReportMetric(reader.rss(), "MiB")

		bodies := map[string][]byte{}
		for _, list := range lists {
			bodies[list] = reader.send(http.MethodGet, poll(0, list), "", 0).body
		}
		reader.server.Kill()
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bodies[path.Base(r.URL.Path)])
		}))
		stampede(b, "baseline", clusters, &process{b: b, base: bare.URL})
		bare.Close()
	}
	b.ReportMetric(0, "ns/op")
}

// stampede sends the polls at random times, without waiting for earlier ones.
func stampede(b *testing.B, name string, clusters int, p *process) {
	b.Helper()
	const window = 30 * time.Second
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			// Each cluster has its own address; a single one has not enough ports for so many connections.
			from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+rand.IntN(100)))}
			return (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: from}).DialContext(ctx, network, addr)
		},
	}}
	visitor := &process{b: b, base: p.base, client: client}
	var mu sync.Mutex
	var all []time.Duration
	var failed, bytes atomic.Int64
	var used time.Duration
	if p.server != nil {
		used = p.cpu()
	}
	var wg sync.WaitGroup
	for n := range clusters {
		for _, list := range lists {
			wait := rand.N(window)
			wg.Go(func() {
				time.Sleep(wait)
				began := time.Now()
				a := visitor.send(http.MethodGet, poll(n, list), "", 0)
				took := time.Since(began)
				if a.status != http.StatusOK {
					failed.Add(1)
				}
				bytes.Add(int64(len(a.body)))
				mu.Lock()
				defer mu.Unlock()
				all = append(all, took)
			})
		}
	}
	wg.Wait()
	b.ReportMetric(float64(failed.Load()), name+"-failed")
	b.ReportMetric(quantile(0.5, all), name+"-p50-ms")
	b.ReportMetric(quantile(0.99, all), name+"-p99-ms")
	b.ReportMetric(float64(bytes.Load())/(1<<20), name+"-sent-MiB")
	if p.server != nil {
		b.ReportMetric((p.cpu() - used).Seconds(), name+"-cpu-s")
	}
}
