package bench_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkSoak: 1,000 polls a second of a process that makes 20 commits a second, and as many of a bare server at the same time, for
// BENCH_SOAK (30s). Every ten seconds a commit changes the answers to all clusters. A latency counts from the time at which the poll was
// due, so that a pause of the process delays all polls that were due meanwhile. No poll may fail, or be older than a commit that was
// answered before it was sent.
func BenchmarkSoak(b *testing.B) {
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("BENCH_SOAK"), "30s"))
	require.NoError(b, err)
	clusters := fleetSize(b)
	fleet := bench.Fleet{Clusters: clusters, Components: 12}
	crud := start(b, "DATABASE_URL=sqlite://"+b.TempDir()+"/fleet.db", "API_MODE=crud", "SEED_FILE="+seedOf(b, fleet), "SEED_ACCEPT=true")
	bare := startBare(b, crud, clusters, true)
	for b.Loop() {
		used, bareUsed := crud.cpu(), bare.cpu()
		var committed atomic.Int64
		var commits []time.Duration
		took := make([][]time.Duration, 2)
		end := time.Now().Add(lasts)
		var all sync.WaitGroup
		all.Go(func() {
			for i := range pace(end, 50*time.Millisecond) {
				path, body := "/clusters/"+bench.ClusterID(rand.IntN(clusters)), change(i)
				if i%200 == 0 { // the answers to all clusters
					path, body = "/platform_components/"+bench.ComponentID(0), fmt.Sprintf(`{"oci_tag":"v9.9.%d"}`, i)
				}
				revision, lasted := crud.must(http.MethodPatch, path, body)
				committed.Store(revision)
				commits = append(commits, lasted)
			}
		})
		all.Go(func() { took[0] = soak(crud, clusters, end, &committed) })
		all.Go(func() { took[1] = soak(bare, clusters, end, new(atomic.Int64)) })
		all.Wait()
		for i, name := range []string{"poll", "bare"} {
			for _, q := range []float64{0.5, 0.99, 0.999, 1} {
				b.ReportMetric(quantile(q, took[i]), fmt.Sprintf("%s-p%g-ms", name, 100*q))
			}
		}
		b.ReportMetric(float64(len(took[0]))/lasts.Seconds(), "polls/s")
		b.ReportMetric(float64(len(commits))/lasts.Seconds(), "commits/s")
		b.ReportMetric(quantile(0.99, commits), "commit-p99-ms")
		b.ReportMetric((crud.cpu() - used).Seconds(), "cpu-s")
		b.ReportMetric((bare.cpu() - bareUsed).Seconds(), "bare-cpu-s")
		b.ReportMetric(crud.rss(), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// soak sends a poll each millisecond, without waiting for earlier ones, and returns their latencies.
func soak(p *process, clusters int, end time.Time, committed *atomic.Int64) []time.Duration {
	p.b.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var sent sync.WaitGroup
	slots, missed := make(chan struct{}, maxUnderWay), 0
	for _, due := range pace(end, time.Millisecond) {
		select {
		case slots <- struct{}{}:
		default:
			missed++
			continue
		}
		sent.Go(func() {
			defer func() { <-slots }()
			atLeast := committed.Load()
			a := p.send(http.MethodGet, poll(rand.IntN(clusters), lists[0]), "", 0)
			lasted := time.Since(due)
			if a.status != http.StatusOK || a.rev < atLeast {
				p.b.Errorf("a poll: status %d, revision %d after the commit of %d", a.status, a.rev, atLeast)
			}
			mu.Lock()
			took = append(took, lasted)
			mu.Unlock()
		})
	}
	sent.Wait()
	if missed > 0 {
		p.b.Errorf("%d polls were not sent, because %d others had no answer yet: the machine is too busy", missed, maxUnderWay)
	}
	return took
}

// maxUnderWay is the limit of polls without an answer. Without a limit, a pause of a busy machine uses up its open files.
const maxUnderWay = 1000

// pace yields a number and the time that it is due, at an interval until end. If the receiver is late, the next ones come at once.
func pace(end time.Time, every time.Duration) func(yield func(int, time.Time) bool) {
	return func(yield func(int, time.Time) bool) {
		due := time.Now()
		for i := 0; due.Before(end); i, due = i+1, due.Add(every) {
			time.Sleep(time.Until(due))
			if !yield(i, due) {
				return
			}
		}
	}
}
