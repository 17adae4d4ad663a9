package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiltersShared: what one process was polled with, another one knows, and one that starts later too.
func TestFiltersShared(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
	require.True(t, a.Filters().Unknown, "nobody has read yet")
	exchange := func(books ...*Tracker) {
		for range 3 {
			for _, book := range books {
				now = now.Add(2 * time.Second)
				book.Sync(t.Context(), now)
			}
		}
	}
	filters := func(book *Tracker) []string {
		var out []string
		for _, f := range book.Filters().Filters {
			out = append(out, f.String())
		}
		return out
	}
	a.RecordFilter("prod", "", now)
	a.RecordFilter("", "b=c,a=b", now)
	b.RecordFilter("", "a=b,b=c", now) // the same
	b.RecordFilter("", "x in (y)", now)
	b.RecordFilter("", "not a selector ((", now)
	b.RecordFilter("", "", now) // the whole list
	exchange(a, b)
	late := NewTracker(Config{Store: table})
	exchange(late)
	all := []string{"environment=prod", "selector=a=b,b=c", "selector=x in (y)"}
	for _, book := range []*Tracker{a, b, late} {
		require.Equal(t, all, filters(book))
		require.False(t, book.Filters().Unknown)
	}
	now = now.Add(60 * 24 * time.Hour)
	late.RecordFilter("prod", "", now)
	exchange(late, a, b)
	now = now.Add(60 * 24 * time.Hour)
	exchange(a, b, late)
	for _, book := range []*Tracker{a, b, late} {
		require.Equal(t, []string{"environment=prod"}, filters(book), "the others were not polled for 90 days")
	}
}
