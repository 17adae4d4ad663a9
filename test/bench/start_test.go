package bench_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkStart measures the first start with a seed, and a restart, against another build of the server, BENCH_BASE (by default
// itself): the processor time until /ready, and the memory before and after all lists are polled. The builds take turns.
func BenchmarkStart(b *testing.B) {
	head, err := binary()
	require.NoError(b, err)
	builds := map[string]string{"base": cmp.Or(os.Getenv("BENCH_BASE"), head), "head": head}
	clusters := fleetSize(b)
	for _, fleet := range []bench.Fleet{{Clusters: clusters, Components: 12}, bench.Realistic(clusters)} {
		b.Run(fmt.Sprintf("%dx%d", fleet.Clusters, fleet.Components), func(b *testing.B) {
			seed := seedOf(b, fleet)
			took := map[string]time.Duration{}
			for b.Loop() {
				for name, path := range builds {
					database := "DATABASE_URL=sqlite://" + filepath.Join(b.TempDir(), "fleet.db")
					for _, kind := range []string{"first", "restart"} {
						p := startProgram(b, path, database, "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true")
						took[name+"-"+kind] += p.cpu()
						b.ReportMetric(p.rss(), name+"-"+kind+"-MiB")
						pollAll(p, clusters)
						b.ReportMetric(p.rss(), name+"-"+kind+"-polled-MiB")
						require.NoError(b, p.server.Stop())
					}
				}
			}
			for name, total := range took {
				b.ReportMetric(total.Seconds()/float64(b.N), name+"-cpu-s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
