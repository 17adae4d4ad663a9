package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiltersShared: filters of one process reach the others, also those that start later.
func TestFiltersShared(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	require.True(t, a.Filters().Unknown, "nobody has read yet")
	exchange := func(trackers ...*Tracker) {
		for range 3 {
			for _, tracker := range trackers {
				now = now.Add(2 * time.Second)
				tracker.Sync(t.Context(), now)
			}
		}
	}
	filters := func(tracker *Tracker) []string {
		var out []string
		for _, f := range tracker.Filters().Filters {
			out = append(out, f.String())
		}
		return out
	}
	a.RecordFilter("prod", "", now)
	a.RecordFilter("", "b=c,a=b", now)
	b.RecordFilter("", "a=b,b=c", now) // equal to an earlier one
	b.RecordFilter("", "x in (y)", now)
	b.RecordFilter("", "not a selector ((", now)
	b.RecordFilter("", "", now) // the whole list
	exchange(a, b)
	late := NewTracker(Config{Store: store})
	exchange(late)
	all := []string{"environment=prod", "selector=a=b,b=c", "selector=x in (y)"}
	for _, tracker := range []*Tracker{a, b, late} {
		require.Equal(t, all, filters(tracker))
		require.False(t, tracker.Filters().Unknown)
	}
	now = now.Add(60 * 24 * time.Hour)
	late.RecordFilter("prod", "", now)
	exchange(late, a, b)
	now = now.Add(60 * 24 * time.Hour)
	exchange(a, b, late)
	for _, tracker := range []*Tracker{a, b, late} {
		require.Equal(t, []string{"environment=prod"}, filters(tracker), "the others were not polled for 90 days")
	}
}
