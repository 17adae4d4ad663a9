package clusterstatus

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSharedReportsAreSeparate: reports with the shared token count for a cluster that does not poll with its own credential, in every
// process, and never replace or complete the reports with it.
func TestSharedReportsAreSeparate(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a, b := NewTracker(Config{Store: store, Clusters: func() ([]string, bool) { return []string{"x"}, true }, PruneStore: true}), NewTracker(Config{Store: store})
	now := time.Now()
	sync := func() {
		for range 2 {
			a.Sync(t.Context(), now)
			b.Sync(t.Context(), now)
		}
	}
	want := desiredLists(`"2"`, 2)
	shared := WithSharedToken("x")
	states := func(ownCredential bool) (out []State) {
		for _, tracker := range []*Tracker{a, b} {
			known := tracker.Evaluate(Query{Cluster: "x", Desired: want, Now: now, OfflineAfter: OfflineAfter, OwnCredential: ownCredential})
			if out = append(out, known.State); !ownCredential {
				require.False(t, known.SharedTokenAt.IsZero())
			}
		}
		return slices.Compact(out)
	}
	poll := func(tracker *Tracker, name string) {
		if tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"2"`, Agent: "flux-operator/v1", Shared: name == shared}, now) {
			tracker.RecordServed(name, want[0], now)
		}
	}
	poll(a, shared)
	a.RecordEvent(shared, "components", "c0", Event{Input: rcpt(2).String(), Severity: "error", Reason: "UpgradeFailed", At: now}, now)
	sync()
	require.Equal(t, []State{Failed}, states(false))
	require.Equal(t, []State{Never}, states(true))
	require.True(t, b.HasFailure("x", func(*Event) bool { return true }))

	// The first poll with its own credential: the forged failure does not count any more, and a forged receipt confirms nothing.
	poll(b, "x")
	require.Zero(t, a.receive(shared, "components", "c0", rcpt(2), now.Add(time.Second)))
	sync()
	require.Equal(t, []State{Unknown}, states(false))
	require.Equal(t, []State{Unknown}, states(true))
	require.Zero(t, b.receive("x", "components", "c0", rcpt(2), now.Add(time.Second)))
	a.RecordEvent(shared, "components", "c0", Event{Input: rcpt(2).String(), Severity: "error", Reason: "UpgradeFailed", At: now.Add(2 * time.Second)}, now.Add(2*time.Second))
	sync()
	require.Equal(t, []State{Confirmed}, states(false))

	// It has missed polls with its own credential, and polls with the shared token.
	now = now.Add(2 * time.Hour)
	sync()
	require.Equal(t, []State{Unknown}, states(true))
	poll(b, shared)
	require.Zero(t, b.receive(shared, "components", "c0", rcpt(2), now))
	sync()
	require.Equal(t, []State{Confirmed}, states(false))
	require.Equal(t, []State{Unknown}, states(true))
	seen := map[string]int{}
	b.EachSeen(func(id string, at time.Time) { seen[id]++; require.Equal(t, now.UnixMilli(), at.UnixMilli()) })
	require.Equal(t, map[string]int{"x": 1}, seen)

	a.Forget(func(id string) bool { return id == "x" })
	require.Empty(t, a.allClusters())
}
