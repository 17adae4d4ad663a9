package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// minHeapGoal is the heap size in bytes below which the garbage collector does not run. A server of few clusters has some MiB
	// of live data and would otherwise collect it after a few hundred polls, which costs 5 % of their processor time.
	minHeapGoal = 64 << 20
	// defaultGCPercent is GOGC of a process that does not set it.
	defaultGCPercent = 100
)

// heapGoal raises GOGC while twice the live heap is below a goal, and adjusts it after each garbage collection.
type heapGoal struct{ bytes uint64 }

// startHeapGoal keeps the heap goal of the process at minHeapGoal or above, but at most at half of the memory limit.
func startHeapGoal() {
	goal := heapGoal{minHeapGoal}
	if half := debug.SetMemoryLimit(-1) / 2; half < minHeapGoal {
		goal.bytes = uint64(max(half, 0))
	}
	goal.adjust()
}

// adjust sets GOGC for the live heap of the last garbage collection, and arranges for the next call.
func (g heapGoal) adjust() {
	debug.SetGCPercent(g.percent(liveHeap()))
	sentinel := new([16]byte) // unreachable at once, so its cleanup runs after the next garbage collection
	runtime.AddCleanup(sentinel, heapGoal.adjust, g)
}

// percent returns the value of GOGC with which a heap with this many live bytes is collected at the goal.
func (g heapGoal) percent(live uint64) int {
	live = max(live, 1<<20)
	if live >= g.bytes {
		return defaultGCPercent
	}
	return int(max(defaultGCPercent, (g.bytes-live)*100/live))
}

// liveHeap returns the bytes that the last garbage collection found to be in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
