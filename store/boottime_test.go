package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock goes forward, at the pace of time, and a read is cheap enough for every poll.
func TestBootClock(t *testing.T) { //nolint:paralleltest // it counts allocations
	c := newBootClock()
	began := time.Now()
	first := c.elapsed()
	for last := first; time.Since(began) < 20*time.Millisecond; {
		now := c.elapsed()
		after := time.Since(began)
		require.GreaterOrEqual(t, now-last, -maxGap)
		require.LessOrEqual(t, now-first, after+2*maxGap)
		last = now
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.elapsed() }))
}
