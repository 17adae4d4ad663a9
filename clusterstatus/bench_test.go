package clusterstatus

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// BenchmarkMemory prints the memory for the status of 10,000 clusters with 30 inputs, and the time to evaluate all of them.
func BenchmarkMemory(b *testing.B) {
	const clusters, inputs = 10_000, 30
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tracker := NewTracker(Config{})
	const etag = `"0123456789abcdef01234567"`
	var receipts []byte
	for i := range inputs {
		receipts = append(receipts, byte(i+1))
	}
	want := desiredLists(etag, receipts...)
	for i := range want[0].Receipts {
		want[0].Receipts[i][1] = etag[1]
	}
	for _, list := range []string{"namespaces", "rolebindings"} {
		want = append(want, fleet.DesiredInputs{List: list, ETag: etag, Inputs: desiredLists(etag)[0].Inputs})
	}
	for c := range clusters {
		id := fmt.Sprint("cluster-", c)
		for _, list := range []string{"components", "namespaces", "rolebindings"} {
			for _, given := range []string{`"before"`, etag} { // all inputs changed a moment ago
				tracker.RecordPoll(Poll{Cluster: id, List: list, ETag: given, Agent: "flux-operator/v0.58.1"}, noon)
				is := fleet.DesiredInputs{List: list, ETag: given, Inputs: desiredLists(given)[0].Inputs}
				if list == "components" {
					is = desiredLists(given, receipts...)[0] // each cluster has its own
				}
				for i := range is.Receipts {
					is.Receipts[i][1] = given[1]
				}
				tracker.RecordServed(id, is, noon)
			}
		}
		for i := range inputs {
			tracker.receive(id, "components", fmt.Sprint("c", i), want[0].Receipts[i], noon)
		}
	}
	var ids [clusters]string
	for c := range ids {
		ids[c] = fmt.Sprint("cluster-", c)
	}
	query := func(c int) Query {
		return Query{Cluster: ids[c], DesiredVersion: 1, Now: noon, OfflineAfter: OfflineAfter}
	}
	var received runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&received)
	for c := range clusters {
		q := query(c)
		q.Desired = want
		tracker.Evaluate(q)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		for c := range clusters {
			if status, ok := tracker.EvaluateClassified(query(c)); !ok || status.State != Confirmed {
				b.Fatal("not confirmed")
			}
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	b.ReportMetric(float64(after.HeapAlloc-received.HeapAlloc)/clusters, "B-of-evaluation/cluster")
	runtime.KeepAlive(ids)
	runtime.KeepAlive(tracker)
}
