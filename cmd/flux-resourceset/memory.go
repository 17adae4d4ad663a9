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
	// memoryShare of a container's limit is what the program keeps to, if it can: the rest is for what Go does not count.
	memoryShare = 0.9
	// memoryCheck is how often a limit is looked up that somebody may change.
	memoryCheck = time.Minute
)

// limitMemory makes the garbage collector work harder as the memory that the container may have runs out, so that a short
// peak is not the end of the process. GOMEMLIMIT, which the Go runtime reads itself, wins.
func limitMemory(ctx context.Context, logger *slog.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryShare), memlimit.WithRefreshInterval(ctx, memoryCheck))
	switch {
	case err != nil: // a machine without cgroups
		logger.DebugContext(ctx, "the memory limit of the container is not known", "error", err)
	case bytes < math.MaxInt64:
		logger.InfoContext(ctx, "memory is limited", "bytes", bytes)
	}
}

// gcFilling is GOGC while a store is filled, by a process that does nothing else yet: a tenth of the processor time less. The
// soft limit holds all the same.
const gcFilling = 300

// collectLess makes the garbage collector wait for more, until it is called what it returns.
func collectLess() (asBefore func()) {
	before := debug.SetGCPercent(gcFilling)
	if before < 0 || before > gcFilling { // somebody has asked for even less
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
