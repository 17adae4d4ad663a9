package bench_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkLayers compares processes that serve the same fleet: all content in the clusters' own documents, in five
// layers, and in fifty layers. Then it measures changes of a layer and of
// the catalog that reach all clusters, planned and made by one process while the other is polled.
func BenchmarkLayers(b *testing.B) {
	clusters := fleetSize(b)
	for range b.N {
		names := []string{"plain", "five", "fifty"}
		var urls []string
		var readers []*process
		for i, layers := range []int{0, 5, 50} {
			fleet := bench.Realistic(clusters)
			fleet.Alike, fleet.Layers = true, layers
			url := "DATABASE_URL=sqlite://" + filepath.Join(b.TempDir(), names[i]+".db")
			start(b, url, "API_MODE=crud", "SEED_FILE="+seedOf(b, fleet), "SEED_ACCEPT=true").server.Kill()
			reader := start(b, url)
			b.ReportMetric(reader.ready.Seconds(), names[i]+"-load-s")
			b.ReportMetric(reader.cpu().Seconds(), names[i]+"-load-cpu-s")
			urls, readers = append(urls, url), append(readers, reader)
		}
		sameAnswers(b, readers, min(clusters, 100))
		var first, again [3]float64 // processor time of polls: when answers are encoded, and when they are there
		for round := range 6 {
			for i, p := range readers {
				before := p.cpu()
				pollAll(p, clusters)
				switch took := (p.cpu() - before).Seconds(); {
				case round == 0:
					first[i] = took
				case round == 1 || took < again[i]: // the least: a machine that does other things too is slower now and then
					again[i] = took
				}
			}
		}
		for i, p := range readers {
			b.ReportMetric(p.rss(), names[i]+"-polled-MiB")
			b.ReportMetric(first[0]/first[i], names[i]+"-first-polls-cpu-ratio")
			b.ReportMetric(again[0]/again[i], names[i]+"-polls-cpu-ratio")
		}
		readers[0].server.Kill()
		readers[2].server.Kill()
		crud := start(b, urls[1], "API_MODE=crud")
		changesForAll(b, crud, readers[1], clusters)
		crud.server.Kill()
		readers[1].server.Kill()
	}
	b.ReportMetric(0, "ns/op") // one run is many measurements
}

// sameAnswers compares the answers of all processes for some clusters with those of the first process.
func sameAnswers(b *testing.B, all []*process, clusters int) {
	b.Helper()
	for n := range clusters {
		for _, list := range lists {
			want := all[0].send(http.MethodGet, poll(n, list), "", 0)
			require.Equal(b, http.StatusOK, want.status)
			for _, p := range all[1:] {
				require.Equal(b, string(unzipped(b, want.body)), string(unzipped(b, p.send(http.MethodGet, poll(n, list), "", 0).body)))
			}
		}
	}
}

// changesForAll measures changes of a layer of every cluster, and of a catalog entry of every cluster.
func changesForAll(b *testing.B, crud, reader *process, clusters int) {
	b.Helper()
	idle := whilePolling(reader, clusters, func() { time.Sleep(5 * time.Second) })
	b.ReportMetric(quantile(0.99, idle), "idle-poll-p99-ms")
	for _, by := range []struct{ name, path, kind, id, patch string }{
		{"layer", "/layers/" + bench.LayerID(0), "layer", bench.LayerID(0), `{"patches":{%[1]q:{"replicaCount":"%[2]d"}}}`},
		{"catalog", "/platform_components/" + bench.ComponentID(0), "platform_component", bench.ComponentID(0), `{"oci_tag":"%[1]s-%[2]d"}`},
	} {
		var made, planned []time.Duration
		var cpu, planCPU time.Duration
		during := whilePolling(reader, clusters, func() {
			for i := range 10 {
				patch := fmt.Sprintf(by.patch, bench.ComponentID(0), 100+i)
				before := crud.cpu()
				_, took := crud.must(http.MethodPost, "/plan", fmt.Sprintf(`{"operations":[{"op":"patch","kind":%q,"id":%q,"patch":%s}]}`, by.kind, by.id, patch))
				planned, planCPU = append(planned, took), planCPU+crud.cpu()-before
				before = crud.cpu()
				_, took = crud.must(http.MethodPatch, by.path, patch)
				made, cpu = append(made, took), cpu+crud.cpu()-before
				time.Sleep(300 * time.Millisecond)
			}
		})
		b.ReportMetric(quantile(0.5, made), by.name+"-change-p50-ms")
		b.ReportMetric(cpu.Seconds()*1000/float64(len(made)), by.name+"-change-cpu-ms")
		b.ReportMetric(quantile(0.5, planned), by.name+"-plan-p50-ms")
		b.ReportMetric(planCPU.Seconds()*1000/float64(len(planned)), by.name+"-plan-cpu-ms")
		b.ReportMetric(quantile(0.99, during), by.name+"-poll-p99-ms")
	}
	var explained []time.Duration
	for n := range 20 {
		_, took := crud.must(http.MethodGet, "/clusters/"+bench.ClusterID(n%clusters)+"/explain", "")
		explained = append(explained, took)
	}
	b.ReportMetric(quantile(0.5, explained), "explain-p50-ms")
}
