package observations

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkMemory prints what a fleet of 10,000 clusters with 30 inputs takes, and how long it takes to judge all of it.
func BenchmarkMemory(b *testing.B) {
	const clusters, inputs = 10_000, 30
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	book := NewBook(Config{})
	var receipts []byte
	for c := range clusters {
		id := fmt.Sprint("cluster-", c)
		for _, list := range []string{"components", "namespaces", "rolebindings"} {
			book.Polled(id, list, `"0123456789abcdef01234567"`, "flux-operator/v0.58.1", noon)
		}
		for i := range inputs {
			book.Received(id, "components", fmt.Sprint("c", i), rcpt(byte(i+1)), noon)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i := range inputs {
		receipts = append(receipts, byte(i+1))
	}
	want := asked(`"0123456789abcdef01234567"`, receipts...)
	for b.Loop() {
		for c := range clusters {
			if book.state(fmt.Sprint("cluster-", c), noon, want) != Confirmed {
				b.Fatal("not confirmed")
			}
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	runtime.KeepAlive(book)
}
