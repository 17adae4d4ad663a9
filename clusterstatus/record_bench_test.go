package clusterstatus

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRecord records polls, and receipts that were recorded before, of 10,000 clusters in turn, as the server does for each
// request: three lists and 30 inputs a cluster.
func BenchmarkRecord(b *testing.B) {
	const clusters, inputs = 10_000, 30
	tracker := NewTracker(Config{Store: newFakeStore()})
	lists := []string{"platform-components", "namespaces", "rolebindings"}
	var receipts []byte
	var ids [clusters]string
	names := make([]string, inputs)
	for i := range inputs {
		receipts, names[i] = append(receipts, byte(i+1)), fmt.Sprint("c", i)
	}
	list := desiredLists(`"0123456789abcdef01234567"`, receipts...)[0]
	created := noon.Add(-time.Hour)
	for c := range clusters {
		ids[c] = fmt.Sprint("cluster-", c)
		for _, list.List = range lists {
			tracker.RecordPoll(Poll{Cluster: ids[c], List: list.List, ETag: list.ETag, Agent: "flux-operator/v0.58.1"}, noon)
			tracker.RecordServed(ids[c], list, noon)
		}
		for i, id := range names {
			tracker.receive(ids[c], list.List, id, list.Receipts[i], noon)
		}
	}
	measure := func(name string, record func(n int, id string, now time.Time) (ok bool)) {
		now, n := noon.Add(time.Minute), 0
		b.Run(name, func(b *testing.B) {
			before := cpuTime()
			for b.Loop() {
				n++
				now = now.Add(2 * time.Millisecond)
				if !record(n/clusters, ids[n%clusters], now) {
					b.Fatal("the record is new")
				}
			}
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
	measure("poll", func(n int, id string, now time.Time) bool {
		of := lists[n%len(lists)]
		if tracker.ServedNewer(id, of, 1, now) {
			return false
		}
		return !tracker.RecordPoll(Poll{Cluster: id, Created: created, List: of, ETag: list.ETag, Agent: "flux-operator/v0.58.1"}, now)
	})
	measure("receipt", func(n int, id string, now time.Time) bool {
		return tracker.RecordRepeatedReceipt(id, list.List, names[n%inputs], list.Receipts[n%inputs], now)
	})
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
