package bench_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

var lists = []string{"platform-components", "namespaces", "rolebindings"}

// fleetSize returns BENCH_CLUSTERS, 10,000 by default.
func fleetSize(b *testing.B) int {
	b.Helper()
	given := os.Getenv("BENCH_CLUSTERS")
	if given == "" {
		return 10_000
	}
	clusters, err := strconv.Atoi(given)
	require.NoError(b, err)
	return clusters
}

// BenchmarkFleet measures a realistic fleet on each database, with one process in mode crud and one read-only process.
// BENCH_CLUSTERS sets its size; the default is 10,000.
func BenchmarkFleet(b *testing.B) {
	clusters := fleetSize(b)
	onEachDatabase(b, clusters, func(b *testing.B, seed, url string) { measure(b, seed, clusters, url) })
}

// onEachDatabase runs a benchmark with a realistic fleet's seed file and an empty database of each kind.
func onEachDatabase(b *testing.B, clusters int, measure func(b *testing.B, seed, url string)) {
	b.Helper()
	seed := seedOf(b, bench.Realistic(clusters))
	run := func(name string, url func() string) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				measure(b, seed, "DATABASE_URL="+url())
			}
			b.ReportMetric(0, "ns/op") // one run is many measurements
		})
	}
	run("postgres", func() string { return pgtest.URL(b) })
	run("sqlite", func() string { return "sqlite://" + filepath.Join(b.TempDir(), "fleet.db") })
}

// seedOf writes the seed file of a fleet.
func seedOf(b *testing.B, fleet bench.Fleet) string {
	b.Helper()
	seed := filepath.Join(b.TempDir(), "seed.json")
	f, err := os.Create(seed)
	require.NoError(b, err)
	require.NoError(b, fleet.WriteSeed(f))
	require.NoError(b, f.Close())
	return seed
}

func measure(b *testing.B, seed string, clusters int, url string) {
	b.Helper()
	start(b, url, "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true").server.Kill()
	crud := start(b, url, "API_MODE=crud")
	reader := start(b, url)
	b.ReportMetric(reader.ready.Seconds(), "load-s")
	b.ReportMetric(reader.cpu().Seconds(), "load-cpu-s")
	b.ReportMetric(reader.rss(), "loaded-MiB")

	pollAll(reader, clusters)
	b.ReportMetric(reader.rss(), "polled-MiB")

	idle := whilePolling(reader, clusters, func() { time.Sleep(5 * time.Second) })
	b.ReportMetric(quantile(0.99, idle), "idle-poll-p99-ms")
	var catalog []time.Duration
	used := crud.cpu()
	during := whilePolling(reader, clusters, func() {
		for i := range 10 {
			_, took := crud.must(http.MethodPatch, "/platform_components/"+bench.ComponentID(0), fmt.Sprintf(`{"oci_tag":"v9.9.%d"}`, i))
			catalog = append(catalog, took)
			time.Sleep(300 * time.Millisecond)
		}
	})
	b.ReportMetric(quantile(0.5, catalog), "catalog-change-p50-ms")
	b.ReportMetric((crud.cpu()-used).Seconds()*1000/float64(len(catalog)), "catalog-change-cpu-ms")
	b.ReportMetric(quantile(0.99, during), "catalog-poll-p99-ms")

	var single, visible []time.Duration
	for i := range 200 {
		n := rand.IntN(clusters)
		revision, took := crud.must(http.MethodPatch, "/clusters/"+bench.ClusterID(n), change(i))
		single = append(single, took)
		began := time.Now()
		// The server holds this poll back until it has the revision.
		a := reader.send(http.MethodGet, poll(n, "platform-components"), "", revision)
		require.Equal(b, http.StatusOK, a.status, string(a.body))
		require.GreaterOrEqual(b, a.rev, revision)
		visible = append(visible, time.Since(began))
	}
	b.ReportMetric(quantile(0.5, single), "change-p50-ms")
	b.ReportMetric(quantile(0.99, single), "change-p99-ms")
	b.ReportMetric(quantile(0.99, visible), "visible-p99-ms")

	const writers, lasts = 8, 10 * time.Second
	var commits atomic.Int64
	var wg sync.WaitGroup
	used = crud.cpu()
	began := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := 0; time.Since(began) < lasts; i++ {
				crud.must(http.MethodPatch, "/clusters/"+bench.ClusterID(w%clusters), change(i))
				commits.Add(1)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(commits.Load())/time.Since(began).Seconds(), "commits/s")
	b.ReportMetric((crud.cpu()-used).Seconds()*1000/float64(commits.Load()), "cpu-ms/commit")
	b.ReportMetric(crud.rss(), "crud-MiB")
}

func change(i int) string {
	return fmt.Sprintf(`{"patches":{%q:{"replicaCount":"%d"}}}`, bench.ComponentID(1), 10+i)
}

func poll(cluster int, list string) string {
	return "/api/v2/flux/clusters/" + bench.ClusterDNS(cluster) + "/" + list
}

// pollAll polls each list of each cluster once.
func pollAll(p *process, clusters int) {
	p.b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < clusters; n = int(next.Add(1)) - 1 {
				for _, list := range lists {
					if a := p.send(http.MethodGet, poll(n, list), "", 0); a.status != http.StatusOK {
						p.b.Errorf("%s of cluster %d: %d", list, n, a.status)
					}
				}
			}
		})
	}
	wg.Wait()
}

// whilePolling returns the latencies of polls during an action. Polls come at a fixed rate, far below the capacity of
// the process, so a delayed poll delays no other.
func whilePolling(p *process, clusters int, do func()) []time.Duration {
	p.b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	done := make(chan struct{})
	ticker := time.NewTicker(5 * time.Millisecond)
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			wg.Go(func() {
				began := time.Now()
				a := p.send(http.MethodGet, poll(rand.IntN(clusters), lists[0]), "", 0)
				took := time.Since(began)
				if a.status != http.StatusOK {
					p.b.Errorf("a poll: %d", a.status)
				}
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			})
		}
	})
	do()
	close(done)
	ticker.Stop()
	wg.Wait()
	return all
}
