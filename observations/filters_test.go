package observations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiltersAreKnownEverywhere: what one process was polled with, another one knows, and one that starts later too.
func TestFiltersAreKnownEverywhere(t *testing.T) {
	t.Parallel()
	table := newShared()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := NewBook(Config{Table: table}), NewBook(Config{Table: table})
	require.True(t, a.Filters().Unknown, "nobody has read yet")
	exchange := func(books ...*Book) {
		for range 3 {
			for _, book := range books {
				now = now.Add(2 * time.Second)
				book.Exchange(t.Context(), now)
			}
		}
	}
	filters := func(book *Book) []string {
		var out []string
		for _, f := range book.Filters().Filters {
			out = append(out, f.String())
		}
		return out
	}
	a.ListPolled("prod", "", now)
	a.ListPolled("", "b=c,a=b", now)
	b.ListPolled("", "a=b,b=c", now) // the same
	b.ListPolled("", "x in (y)", now)
	b.ListPolled("", "not a selector ((", now)
	b.ListPolled("", "", now) // the whole list
	exchange(a, b)
	late := NewBook(Config{Table: table})
	exchange(late)
	all := []string{"environment=prod", "selector=a=b,b=c", "selector=x in (y)"}
	for _, book := range []*Book{a, b, late} {
		require.Equal(t, all, filters(book))
		require.False(t, book.Filters().Unknown)
	}
	now = now.Add(60 * 24 * time.Hour)
	late.ListPolled("prod", "", now)
	exchange(late, a, b)
	now = now.Add(60 * 24 * time.Hour)
	exchange(a, b, late)
	for _, book := range []*Book{a, b, late} {
		require.Equal(t, []string{"environment=prod"}, filters(book), "the others were not polled for 90 days")
	}
}
