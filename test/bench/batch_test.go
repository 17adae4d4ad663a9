package bench_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkBatchUnderPolls measures batches that change every cluster of a fleet, and the latency of polls meanwhile, at
// the process that makes the changes and at a follower. The baseline is the same polls without load, and while another
// program keeps one core busy: on a small machine that alone delays polls.
func BenchmarkBatchUnderPolls(b *testing.B) {
	clusters := fleetSize(b)
	onEachDatabase(b, clusters, func(b *testing.B, seed, url string) {
		start(b, url, "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true").server.Kill()
		crud := start(b, url, "API_MODE=crud")
		reader := start(b, url)
		for name, p := range map[string]*process{"crud": crud, "reader": reader} {
			pollAll(p, clusters)
			idle := whilePolling(p, clusters, func() { time.Sleep(5 * time.Second) })
			neighbour := whilePolling(p, clusters, func() { busy(b, 5*time.Second) })
			var took, visible []time.Duration
			used, before := crud.cpu(), crud.rss()
			during := whilePolling(p, clusters, func() {
				for i := range 3 {
					op := fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":%q,"oci_tag":"%s.%d"}]}`, bench.ComponentID(7), name, i)
					revision, one := crud.must(http.MethodPost, "/batch", op)
					took = append(took, one)
					began := time.Now()
					for reader.send(http.MethodGet, poll(0, lists[0]), "", revision).rev < revision {
						require.Less(b, time.Since(began), time.Minute)
					}
					visible = append(visible, time.Since(began))
					time.Sleep(time.Second) // answers are encoded anew
				}
			})
			b.ReportMetric(quantile(0.99, idle), name+"-idle-p99-ms")
			b.ReportMetric(quantile(0.99, neighbour), name+"-neighbour-p99-ms")
			b.ReportMetric(quantile(0.99, during), name+"-batch-p99-ms")
			b.ReportMetric(quantile(0.5, during), name+"-batch-p50-ms")
			b.ReportMetric(quantile(0.5, took)/1000, "batch-s")
			b.ReportMetric((crud.cpu()-used).Seconds()/float64(len(took)), "batch-cpu-s")
			b.ReportMetric(quantile(0.5, visible)/1000, "visible-s")
			b.ReportMetric(crud.rss()-before, "batch-MiB")
		}
		crud.server.Kill()
		reader.server.Kill()
	})
}

// busy keeps one core busy in another process.
func busy(b *testing.B, lasts time.Duration) {
	b.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(b, cmd.Start())
	time.Sleep(lasts)
	require.NoError(b, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}
