package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCountsShared: counts of one process reach the others, also those that start later; the first count of an interval stays.
func TestCountsShared(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	exchange := func(trackers ...*Tracker) {
		for range 3 {
			for _, tracker := range trackers {
				now = now.Add(2 * time.Second)
				tracker.Sync(t.Context(), now)
			}
		}
	}
	require.True(t, a.CountDue(now))
	a.RecordCount(StateCount{Total: 10, Failed: 3}, now)
	require.False(t, a.CountDue(now))
	require.True(t, b.CountDue(now))
	exchange(a, b)
	require.False(t, b.CountDue(now))
	b.RecordCount(StateCount{Total: 11}, now)
	now = now.Add(CountInterval)
	b.RecordCount(StateCount{Total: 12, Silent: 1, Progressing: 2}, now)
	exchange(b, a)
	late := NewTracker(Config{Store: store})
	exchange(late)
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Unix()
	want := []StateCount{{At: first, Total: 10, Failed: 3}, {At: first + 300, Total: 12, Silent: 1, Progressing: 2}}
	for _, tracker := range []*Tracker{a, b, late} {
		require.Equal(t, want, tracker.Counts(now))
	}
}

// TestCountsAreBounded: a day of counts is kept, in a row of at most 32 KiB, also of the largest fleet.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	a := NewTracker(Config{Store: store})
	for range 1000 {
		now = now.Add(CountInterval)
		a.RecordCount(StateCount{Total: 50_000, Failed: 50_000, Silent: 50_000, Progressing: 50_000}, now)
	}
	require.Len(t, a.Counts(now), CountHistory)
	row, ok := a.counts.encode(now)
	require.True(t, ok)
	require.Less(t, len(row.Body), 32<<10)
}

// TestBadCountsAreIgnored: rows that no process of this version writes do not reach the answer, and are replaced.
func TestBadCountsAreIgnored(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	for _, body := range []string{"", "{", "null", `[{"at":1}]`, `[{"at":99999999999}]`, `[{"at":1767323041,"failed":5}]`} {
		a := NewTracker(Config{})
		a.counts.merge(Row{Cluster: storeID, Subject: countsSubject, Body: body, ObservedAt: now}, now)
		require.Empty(t, a.Counts(now), body)
		a.RecordCount(StateCount{Total: 1}, now)
		require.Len(t, a.Counts(now), 1)
		row, ok := a.counts.encode(now)
		require.True(t, ok)
		require.True(t, row.ObservedAt.After(now))
	}
}
