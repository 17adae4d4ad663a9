package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClocksDiffer: every process knows that the clock of one process is wrong, and for ten minutes afterwards that it was wrong.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour, 11 * time.Second, -11 * time.Second} {
		store := newFakeStore()
		right, wrong := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
		require.False(t, right.Stats().ClocksDiffer)
		right.Sync(t.Context(), time.Now())
		require.False(t, right.Stats().ClocksDiffer)
		wrong.Sync(t.Context(), time.Now().Add(off))
		require.True(t, wrong.Stats().ClocksDiffer, off)
		right.Sync(t.Context(), time.Now())
		require.True(t, right.Stats().ClocksDiffer, off)

		store.set(9 * time.Minute) // later
		for _, tracker := range []*Tracker{wrong, right} {
			tracker.Sync(t.Context(), time.Now().Add(9*time.Minute))
			require.True(t, tracker.Stats().ClocksDiffer, "its observations are still known")
		}
		store.set(11 * time.Minute)
		for _, tracker := range []*Tracker{wrong, right} {
			tracker.Sync(t.Context(), time.Now().Add(11*time.Minute))
			require.False(t, tracker.Stats().ClocksDiffer)
		}
	}
}

// TestClocksDifferAfterLoss: a process that starts after the Store has lost its rows learns of the wrong clock from any process
// that knows of it.
func TestClocksDifferAfterLoss(t *testing.T) {
	t.Parallel()
	for _, aware := range []time.Duration{time.Hour, 0} { // its difference
		store := newFakeStore()
		right, wrong := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
		wrong.Sync(t.Context(), time.Now().Add(time.Hour))
		right.Sync(t.Context(), time.Now())
		store.clear()
		if aware == 0 {
			right.Sync(t.Context(), time.Now())
		} else {
			wrong.Sync(t.Context(), time.Now().Add(aware))
		}
		restarted := NewTracker(Config{Store: store})
		restarted.Sync(t.Context(), time.Now())
		require.True(t, restarted.Stats().ClocksDiffer, "the difference of the process that wrote after the loss: %s", aware)
	}
}

// TestClocksCompared: a slow read does not count as a difference between clocks.
func TestClocksCompared(t *testing.T) {
	t.Parallel()
	var c clocks
	c.compare(noon, noon.Add(30*time.Second), 30*time.Second)
	require.False(t, c.differ())
	c.compare(noon, noon.Add(30*time.Second), time.Second)
	require.True(t, c.differ())
}
