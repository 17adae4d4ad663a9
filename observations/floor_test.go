package observations

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is behind learns that another one has served a cluster something newer, and must not serve it what was before.
func TestFloorOfAnotherProcess(t *testing.T) {
	t.Parallel()
	table := newShared()
	a, b := NewBook(Config{Table: table}), NewBook(Config{Table: table})
	const list = "components"
	now := noon
	serve := func(book *Book, id, etag string, revision int64) {
		if book.Polled(id, list, etag, "flux-operator/v1", now) {
			book.ServedFrom(id, list, revision)
		}
	}
	exchange := func() {
		now = now.Add(exchangeEvery)
		for range 2 {
			a.Exchange(t.Context(), now)
			b.Exchange(t.Context(), now)
		}
	}
	serve(a, "x", `"1"`, 5)
	serve(b, "y", `"1"`, 5)
	exchange()
	require.False(t, b.Behind("x", list, 5, now))
	require.True(t, b.Behind("x", list, 4, now))

	// The list became another one. For as long as it stays the same, no later revision matters.
	serve(a, "x", `"2"`, 7)
	serve(a, "x", `"2"`, 9)
	require.False(t, b.Behind("x", list, 6, now), "it does not know yet")
	exchange()
	require.True(t, b.Behind("x", list, 6, now))
	require.False(t, b.Behind("x", list, 7, now), "it has the same list")
	require.False(t, b.Behind("y", list, 6, now), "no process has served this cluster anything newer: it stays with the one it has")
	require.False(t, b.Behind("x", "namespaces", 6, now))
	require.False(t, b.Behind("unknown", list, 6, now))

	// The store's history was replaced by a shorter one, which an operator accepted: what is served last counts.
	serve(a, "x", `"3"`, 2)
	exchange()
	require.False(t, b.Behind("x", list, 2, now))
	require.True(t, b.Behind("x", list, 1, now))
	require.False(t, b.Behind("x", list, 1, now.Add(floorFor)), "a floor does not outlive what it is for")
	restarted := NewBook(Config{Table: table})
	restarted.Exchange(t.Context(), now)
	require.True(t, restarted.Behind("x", list, 1, now))
}
