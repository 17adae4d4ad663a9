package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"
)

// The container's limit is applied with a margin; GOMEMLIMIT takes precedence.
func TestMemoryLimit(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const container = 8 << 30
	t.Setenv("GOMEMLIMIT", "7GiB")
	limitMemory(t.Context(), logger, memlimit.Limit(container))
	require.Equal(t, before, debug.SetMemoryLimit(-1))

	p := start(t, "DATABASE_URL=sqlite::memory:", "GOMEMLIMIT=300MiB")
	require.Contains(t, p.Log(), `"memory is limited","bytes":314572800`)

	require.NoError(t, os.Unsetenv("GOMEMLIMIT")) // the test's end brings it back
	limitMemory(t.Context(), logger, memlimit.Limit(container))
	require.EqualValues(t, math.Floor(container*memoryRatio), debug.SetMemoryLimit(-1))
}

// TestRelaxGC: GOGC is raised while a store is filled, unless it is already higher, and restored afterwards.
//
//nolint:paralleltest // the setting is the process's
func TestRelaxGC(t *testing.T) {
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	for before, during := range map[int]int{100: gcPercentWhileFilling, 50: gcPercentWhileFilling, 400: 400, -1: -1} {
		debug.SetGCPercent(before)
		restore := relaxGC()
		got := debug.SetGCPercent(during)
		restore()
		require.Equal(t, during, got)
		require.Equal(t, before, debug.SetGCPercent(before))
	}
}
