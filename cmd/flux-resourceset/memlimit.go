package main

import (
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryRatio is the share of the container's limit for the Go heap. The rest is for memory that Go does not count.
	memoryRatio = 0.9
	// memoryRefresh is the interval between reads of the container's limit, which may change.
	memoryRefresh = time.Minute
)

// limitMemory sets the soft memory limit of the garbage collector to a share of the container's limit, so that a short
// peak does not kill the process. GOMEMLIMIT, which the Go runtime reads itself, takes precedence.
func limitMemory(ctx context.Context, logger *slog.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryRatio), memlimit.WithRefreshInterval(ctx, memoryRefresh))
	switch {
	case err != nil: // a machine without cgroups
		logger.DebugContext(ctx, "the memory limit of the container is not known", "error", err)
	case bytes < math.MaxInt64:
		logger.InfoContext(ctx, "memory is limited", "bytes", bytes)
	}
}

// gcPercentWhileFilling is GOGC while a process fills a store and serves nothing yet. It saves a tenth of the processor
// time. The soft memory limit still applies.
const gcPercentWhileFilling = 300

// relaxGC makes the garbage collector run less often until restore is called.
func relaxGC() (restore func()) {
	before := debug.SetGCPercent(gcPercentWhileFilling)
	if before < 0 || before > gcPercentWhileFilling { // GOGC already asks for less
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
