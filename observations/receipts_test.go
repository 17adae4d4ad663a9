package observations

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestReceiptAfterALearnedRemovalDoesNotCount: one process serves an input, another one serves the list without it, and the first accepts a
// receipt before it has learned that. The input is desired again, and served again, soon or much later.
func TestReceiptAfterALearnedRemovalDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]time.Duration{"at once": time.Second, "after the settle time": 2 * settle} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.give(p.a, "1", 1)
			p.exchange()
			p.give(p.b, "2", 2)
			p.at = p.at.Add(30 * time.Millisecond)
			p.a.receive("x", "components", "c0", rcpt(1), p.at)
			p.exchange()
			p.at = p.at.Add(apart)
			for _, book := range []*Book{p.a, p.b} {
				require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)), "x is desired again")
			}
			p.give(p.b, "1", 1)
			p.exchange()
			restarted := NewBook(Config{Table: p.table})
			restarted.Exchange(t.Context(), p.at)
			for _, book := range []*Book{p.a, p.b, restarted} {
				require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)), "x is served again")
			}
		})
	}
}

// TestReceiptBeforeServedDoesNotCount, nor is it kept until then.
func TestReceiptBeforeServedDoesNotCount(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.receive(p.a, 1)
	p.give(p.a, "1", 1)
	p.exchange()
	for _, book := range []*Book{p.a, p.b} {
		require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)))
	}
}

// TestReceiptAfterARestart counts: what was served before it is in the table.
func TestReceiptAfterARestart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	restarted := NewBook(Config{Table: p.table})
	restarted.Exchange(t.Context(), p.at)
	p.receive(restarted, 1)
	require.Equal(t, Confirmed, restarted.state("x", p.at, asked("1", 1)))

	// A list that is too long for the table is known by its ETag.
	list, receipt := many(1, maxTold+1)
	require.True(t, p.a.Polled("long", list.List, list.ETag, "", p.at))
	p.a.Given("long", list, p.at)
	p.exchange()
	restarted = NewBook(Config{Table: p.table})
	restarted.Exchange(t.Context(), p.at)
	require.Zero(t, restarted.Received("long", list, "c0", receipt(0), p.at.Add(time.Second)))
	require.Equal(t, 1, restarted.Judge(Question{Cluster: "long", Asked: []fleet.Asked{list}, Now: p.at, OfflineAfter: OfflineAfter}).Counts[Confirmed])
}

// TestEarlierRemovalKeepsTheLater: a removal that is learned late does not shorten the time for which receipts do not count.
func TestEarlierRemovalKeepsTheLater(t *testing.T) {
	t.Parallel()
	var w withdrawn
	for _, at := range []int64{100, 50, 100} {
		w.keep(rcpt(1), at)
		require.Equal(t, 100+settle.Milliseconds(), w.until(receipt{rcpt(1), 0}))
	}
}

// TestRemovalBetweenTwoPolls: another process served something else between two polls that this one answered alike.
func TestRemovalBetweenTwoPolls(t *testing.T) {
	t.Parallel()
	book := NewBook(Config{})
	for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		book.Polled("x", "components", "1", "", noon.Add(after))
		book.Given("x", asked("1", 1, 3)[0], noon.Add(after))
	}
	for i, r := range []byte{1, 3} {
		require.Zero(t, book.receive("x", "components", fmt.Sprint("c", i), rcpt(r), noon.Add(12*time.Second)))
	}
	c, other := book.of("x"), inputs{[]fleet.Receipt{rcpt(2), rcpt(3)}, true}
	c.mergePoll("components", fmt.Sprintf(`{"etag":"2","asked":%q}`, other.text()), noon.Add(15*time.Second).UnixMilli())
	p := c.poll("components")
	require.Equal(t, noon.Add(15*time.Second+settle).UnixMilli(), p.withdrawn.until(receipt{input: rcpt(1)}), "removed when the other process served its list")
	require.Equal(t, noon.Add(20*time.Second+settle).UnixMilli(), p.withdrawn.until(receipt{input: rcpt(2)}), "removed when this process served its list last")
	require.Zero(t, p.withdrawn.until(receipt{input: rcpt(3)}), "in both")
	got := book.Judge(Question{Cluster: "x", Asked: asked("1", 1, 3), Now: noon.Add(21 * time.Second), OfflineAfter: OfflineAfter})
	require.Equal(t, map[State]int{Confirmed: 1, Delivered: 1}, got.Counts)
	require.True(t, book.Polled("x", "components", "1", "", noon.Add(30*time.Second)), "so that this process records again that its list is the current one")
}

// TestReceiptAcceptedWithoutKnowingTheRemoval for longer than the settle time: the process that served the removal does not exchange it meanwhile.
func TestReceiptAcceptedWithoutKnowingTheRemoval(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	p.give(p.b, "2", 2)
	p.at = p.at.Add(settle + time.Second)
	p.receive(p.a, 1)
	p.a.Exchange(t.Context(), p.at)
	p.exchange()
	p.at = p.at.Add(2 * settle)
	p.give(p.b, "1", 1)
	p.exchange()
	restarted := NewBook(Config{Table: p.table})
	restarted.Exchange(t.Context(), p.at)
	for i, book := range []*Book{p.a, p.b, restarted} {
		require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)), i)
	}
}
