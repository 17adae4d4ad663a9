package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal is reached by a small heap, and a large heap has the default.
func TestHeapGoalPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 6300, 1 << 20: 6300, 4 << 20: 1500, 16 << 20: 300, 31 << 20: 106, 32 << 20: 100, 64 << 20: 100, 1 << 40: 100} {
		require.Equal(t, want, heapGoal{64 << 20}.percent(live), "%d bytes", live)
	}
	require.Equal(t, 100, heapGoal{}.percent(4<<20), "a memory limit of 0")
}

// A process with a small fleet has a raised GOGC, a lower one with little memory, and its own setting if it has one.
func TestHeapGoalOfProcess(t *testing.T) {
	t.Parallel()
	percent := func(env ...string) string {
		p := start(t, append(env, "DATABASE_URL=sqlite::memory:")...)
		var found []string
		require.Eventually(t, func() bool {
			found = regexp.MustCompile(`(?m)^go_gc_gogc_percent (\d+)$`).FindStringSubmatch(p.send("GET", "/metrics", "").body)
			return found != nil
		}, waitFor, tick)
		return found[1]
	}
	require.Equal(t, "100", percent("GOGC=100"))
	raised, err := strconv.Atoi(percent())
	require.NoError(t, err)
	require.Greater(t, raised, 2*defaultGCPercent)
	small, err := strconv.Atoi(percent("GOMEMLIMIT=40MiB"))
	require.NoError(t, err)
	require.Less(t, small, raised)
}
