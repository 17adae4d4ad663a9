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
	// memoryRatio of a container's limit is what the program keeps to, if it can: the rest is for what Go does not count.
	memoryRatio = 0.9
	// memoryRefresh is how often a limit is looked up that somebody may change.
	memoryRefresh = time.Minute
)

// limitMemory makes the garbage collector work harder as the memory that the container may have runs out, so that a short
// peak is not the end of the process. GOMEMLIMIT, which the Go runtime reads itself, wins.
func limitMemory(ctx context.Context, logger *slog.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryRatio), memlimit.WithRefreshInterval(ctx, memoryRefresh))
	switch {
	case err != nil: // a machine without cgroups
		logger.DebugContext(ctx, "the memory limit of the container is not known", "error", err)
	case bytes < math.MaxInt64:
		logger.InfoContext(ctx, "memory is limited", "bytes", bytes)
	}
}

// gcPercentWhileFilling is GOGC while a store is filled, by a process that does nothing else yet: a tenth of the processor time less. The
// soft limit holds all the same.
const gcPercentWhileFilling = 300

// relaxGC makes the garbage collector wait for more, until it is called what it returns.
func relaxGC() (restore func()) {
	before := debug.SetGCPercent(gcPercentWhileFilling)
	if before < 0 || before > gcPercentWhileFilling { // somebody has asked for even less
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
