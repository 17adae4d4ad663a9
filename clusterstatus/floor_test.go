package clusterstatus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFloorOfOtherProcess: a process that is behind learns that another one has served a cluster a newer list, and must not
// serve the older one.
func TestFloorOfOtherProcess(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	const list = "components"
	now := noon
	serve := func(tracker *Tracker, id, etag string, revision int64) {
		tracker.RecordPoll(Poll{Cluster: id, List: list, ETag: etag, Revision: revision}, now)
	}
	exchange := func() {
		now = now.Add(syncInterval)
		for range 2 {
			a.Sync(t.Context(), now)
			b.Sync(t.Context(), now)
		}
	}
	serve(a, "x", `"1"`, 5)
	serve(b, "y", `"1"`, 5)
	exchange()
	require.False(t, b.ServedNewer("x", list, 5, now))
	require.True(t, b.ServedNewer("x", list, 4, now))

	// The list changed at 7. While it stays the same, later revisions do not raise the floor.
	serve(a, "x", `"2"`, 7)
	serve(a, "x", `"2"`, 9)
	require.False(t, b.ServedNewer("x", list, 6, now), "it does not know yet")
	exchange()
	require.True(t, b.ServedNewer("x", list, 6, now))
	require.False(t, b.ServedNewer("x", list, 7, now), "it has the same list")
	require.False(t, b.ServedNewer("y", list, 6, now), "no process has served this cluster anything newer: it stays with the one it has")
	require.False(t, b.ServedNewer("x", "namespaces", 6, now))
	require.False(t, b.ServedNewer("unknown", list, 6, now))

	// The store's history was replaced by a shorter one, which an operator accepted: the list that was served last counts.
	serve(a, "x", `"3"`, 2)
	exchange()
	require.False(t, b.ServedNewer("x", list, 2, now))
	require.True(t, b.ServedNewer("x", list, 1, now))
	require.False(t, b.ServedNewer("x", list, 1, now.Add(floorLifetime)), "a floor does not outlive what it is for")
	restarted := NewTracker(Config{Store: store})
	restarted.Sync(t.Context(), now)
	require.True(t, restarted.ServedNewer("x", list, 1, now))
}
