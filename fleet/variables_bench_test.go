package fleet

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkVariables compares fleets of 10,000 clusters without references, with references in layers, and with a variable of each
// cluster besides: start, first polls, memory, and changes of a text, as ratios to those without.
func BenchmarkVariables(b *testing.B) {
	const clusters = 10_000
	withReferences := func(own bool) []Record {
		records := sharedFleet(b, clusters, 5)
		for i, r := range records {
			text := string(r.Body)
			if r.Kind == KindLayer {
				text = strings.ReplaceAll(text, `"replicaCount":"2"`, `"replicaCount":"${vars.r}","host":"g.${cluster.dns}","zone":"${cluster.labels.tier}","x":"${vars.acc}","y":"${cluster.id}"`)
				text = strings.Replace(text, `"selector"`, `"variables":{"acc":"0","r":2},"selector"`, 1)
			}
			if r.Kind == KindCluster && own {
				text = strings.Replace(text, `"labels"`, fmt.Sprintf(`"variables":{"acc":"%012d"},"labels"`, i), 1)
			}
			var obj any
			require.NoError(b, json.Unmarshal([]byte(text), &obj))
			records[i].Body, _ = json.Marshal(obj)
		}
		return records
	}
	first := map[string]float64{}
	for _, c := range []struct {
		name    string
		records []Record
	}{{"none", sharedFleet(b, clusters, 5)}, {"layer", withReferences(false)}, {"own", withReferences(true)}} {
		b.Run(c.name, func(b *testing.B) {
			report := func(v float64, name string) {
				if c.name == "none" {
					first[name] = v
				}
				b.ReportMetric(v, name)
				if first[name] > 0 {
					b.ReportMetric(v/first[name], name+"-ratio")
				}
			}
			used := func() float64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / (1 << 20)
			}
			for b.Loop() {
				before, at := used(), cpuTime(b)
				s := loadShared(b, c.records)
				report(float64((cpuTime(b) - at).Milliseconds()), "start-ms")
				at = cpuTime(b)
				pollAll(b, s)
				report(float64((cpuTime(b) - at).Milliseconds()), "first-polls-ms")
				at = cpuTime(b)
				for range 5 {
					pollAll(b, s)
				}
				report(float64((cpuTime(b)-at).Milliseconds())/5, "polls-ms")
				report(used()-before, "heap-MiB")
				for name, edit := range map[string]func(*Tx) error{
					"text":    patch(KindLayer, "l0", `{"patches":{"c0":{"host":"logs.${cluster.dns}"}}}`),
					"catalog": patch(KindComponent, "c0", `{"component_version":"9"}`),
				} {
					tx := s.Begin()
					tx.Guard(Guard{Off: true})
					at = cpuTime(b)
					require.NoError(b, edit(tx))
					res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
					require.NoError(b, err)
					report(float64((cpuTime(b) - at).Milliseconds()), name+"-commit-ms")
					at = cpuTime(b)
					p, err := res.Plan()
					require.NoError(b, err)
					report(float64((cpuTime(b) - at).Milliseconds()), name+"-plan-ms")
					report(float64(len(p.Groups)), name+"-groups")
				}
				runtime.KeepAlive(s)
			}
		})
	}
}
