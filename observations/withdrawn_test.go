package observations

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// early is how much longer a receipt is held back; it is not noted.
func (b *Book) early(id, list, input string, r fleet.Receipt, now time.Time) time.Duration {
	_, wait := b.of(id).receiptCounts(aboutOf(list, input), receipt{r, now.UnixMilli()}, true)
	return wait
}

// many is a list of so many inputs, those of a turn unlike those of another one.
func many(turn, n int) (fleet.Asked, func(i int) fleet.Receipt) {
	receipt := func(i int) (r fleet.Receipt) {
		binary.BigEndian.PutUint64(r[:], uint64(turn)<<32|uint64(i+1))
		return r
	}
	list := fleet.Asked{List: "components", ETag: fmt.Sprint(turn), Inputs: func(yield func(string, bool) bool) {
		for i := range n {
			if !yield(fmt.Sprint("c", i), true) {
				return
			}
		}
	}}
	for i := range n {
		list.Receipts = append(list.Receipts, receipt(i))
	}
	return list, receipt
}

// TestWithdrawnInputsAreBounded: however much is changed, what is kept of it is bounded, and too much of it holds more back, not less.
func TestWithdrawnInputsAreBounded(t *testing.T) {
	t.Parallel()
	table := newShared()
	book := NewBook(Config{Table: table})
	at := noon
	give := func(turn int) func(int) fleet.Receipt {
		list, receipt := many(turn, 3000)
		at = at.Add(time.Second)
		require.True(t, book.Polled("x", list.List, list.ETag, "", at))
		book.Given("x", list, at)
		return receipt
	}
	first := give(1)
	for turn := 2; turn < 8; turn++ {
		give(turn)
	}
	give(1)
	require.LessOrEqual(t, len(book.of("x").poll("components").withdrawn.one), maxWithdrawn)
	require.Positive(t, book.receive("x", "components", "c0", first(0), at))
	at = at.Add(settle)
	require.Zero(t, book.receive("x", "components", "c0", first(0), at))
	book.Exchange(t.Context(), at)
	for _, row := range table.content() {
		require.Less(t, len(row.Body), 8<<10)
	}
}

// TestRowsOfPollsThatCannotBeRead say nothing of what is asked, and harm nothing.
func TestRowsOfPollsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "?", "=?", "=AAAA", "=AAAAAAAAAAA=", tooMany, "=" + string(make([]byte, 1<<20))} {
		require.False(t, readInputs(text).known, "%.20q", text)
	}
	require.Equal(t, inputs{known: true}, readInputs("="))
	all, _ := many(1, maxTold)
	require.Equal(t, all.Receipts, readInputs(inputs{all.Receipts, true}.text()).receipts)
	all, _ = many(1, maxTold+1)
	require.Equal(t, tooMany, inputs{all.Receipts, true}.text())
	require.Empty(t, inputs{}.text())
	for _, text := range []string{"", "?", "=?", "=AAAA"} {
		var w withdrawn
		w.read(text, 1)
		require.Zero(t, w, text)
	}
}

// TestHeldBackNoLonger: what is held back is so for 45 s from when it was withdrawn, however often what others are told of it goes to
// and fro between processes while other inputs change.
func TestHeldBackNoLonger(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	books := []*Book{p.a, p.b}
	give := func(book *Book, n byte, receipts ...byte) {
		p.at = p.at.Add(time.Second)
		if etag := fmt.Sprint(n); book.Polled("x", "components", etag, "", p.at) {
			book.Given("x", asked(etag, receipts...)[0], p.at)
		}
		p.exchange()
	}
	give(p.a, 1, 1, 100)
	give(p.b, 2, 2, 100)
	withdrawn := p.at
	give(p.a, 3, 1, 101)
	for n := byte(4); p.at.Before(withdrawn.Add(settle)); n++ {
		wait := books[n%2].early("x", "components", "c0", rcpt(1), p.at)
		require.InDelta(t, withdrawn.Add(settle).Sub(p.at), wait, float64(1500*time.Millisecond), n)
		p.at = p.at.Add(7 * time.Second)
		give(books[n%2], n, 1, 100+n)
	}
	p.at = withdrawn.Add(settle + time.Second)
	for _, book := range books {
		require.Zero(t, book.receive("x", "components", "c0", rcpt(1), p.at))
	}
}

// TestOvertaken: what another process gave, and this one took back before it heard of that, is withdrawn as well.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	p.give(p.b, "2", 2)
	p.give(p.a, "1", 1)
	p.exchange()
	p.at = p.at.Add(5 * time.Second)
	p.give(p.a, "2", 2)
	p.exchange()
	for _, book := range []*Book{p.a, p.b} {
		require.Positive(t, book.receive("x", "components", "c0", rcpt(2), p.at.Add(time.Second)))
	}
}

// TestAnExchangeInBetween: a row that is written between the two halves of noting a poll says nothing that is not so.
func TestAnExchangeInBetween(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	p.at = p.at.Add(time.Second)
	require.True(t, p.a.Polled("x", "components", "2", "", p.at))
	p.a.tellAll()
	p.exchange()
	p.a.Given("x", asked("2", 2)[0], p.at)
	p.exchange()
	p.give(p.b, "2", 2)
	p.give(p.b, "1", 1)
	p.give(p.b, "2", 2)
	require.Positive(t, p.b.receive("x", "components", "c0", rcpt(2), p.at))
}

// TestTwoPollsAtOnce: the one that is noted last need not be the one whose list is.
func TestTwoPollsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	require.True(t, p.a.Polled("x", "components", "2", "", p.at))
	require.True(t, p.a.Polled("x", "components", "3", "", p.at))
	p.a.Given("x", asked("3", 3)[0], p.at)
	p.a.Given("x", asked("2", 2)[0], p.at)
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(1), p.at))
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(2), p.at))
	require.Zero(t, p.a.receive("x", "components", "c0", rcpt(3), p.at))
}

// TestALongListIsHeldBackByAll: where it is too long to be told, one that starts knows that there was something.
func TestALongListIsHeldBackByAll(t *testing.T) {
	t.Parallel()
	table := newShared()
	book := NewBook(Config{Table: table})
	first, receipt := many(1, maxTold+1)
	second, _ := many(2, maxTold+1)
	for i, list := range []fleet.Asked{first, second, first} {
		at := noon.Add(time.Duration(i) * time.Second)
		require.True(t, book.Polled("x", list.List, list.ETag, "", at))
		book.Given("x", list, at)
	}
	book.Exchange(t.Context(), noon.Add(3*time.Second))
	restarted := NewBook(Config{Table: table})
	restarted.Exchange(t.Context(), noon.Add(3*time.Second))
	require.Positive(t, restarted.receive("x", "components", "c0", receipt(0), noon.Add(4*time.Second)))
}

// TestAClockThatIsAhead: what another process says was withdrawn in a moment from now is.
func TestAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	p.at = p.at.Add(3 * time.Second)
	p.give(p.b, "2", 2)
	p.exchange()
	p.at = p.at.Add(-3 * time.Second)
	p.give(p.a, "1", 1)
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(1), p.at))
}
