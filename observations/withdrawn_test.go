package observations

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

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
	require.LessOrEqual(t, len(book.of("x").poll("components").withdrawn.at), maxWithdrawn)
	require.Positive(t, book.Received("x", "components", "c0", first(0), at))
	at = at.Add(settle)
	require.Zero(t, book.Received("x", "components", "c0", first(0), at))
	book.Exchange(t.Context(), at)
	for _, row := range table.content() {
		require.Less(t, len(row.Body), 8<<10)
	}
}

// TestRowsOfPollsThatCannotBeRead say nothing of what is asked, and harm nothing.
func TestRowsOfPollsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"?", "AAAA", "AAAAAAAAAAA=", string(make([]byte, 1<<20))} {
		require.False(t, heard(&text).known, "%.20q", text)
	}
	none := ""
	require.Equal(t, inputs{known: true}, heard(&none))
	all, _ := many(1, maxTold)
	require.Equal(t, all.Receipts, heard(inputs{all.Receipts, true}.told()).receipts)
	all, _ = many(1, maxTold+1)
	require.Nil(t, inputs{all.Receipts, true}.told())
	require.Nil(t, inputs{}.told())
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
	require.Positive(t, p.a.Received("x", "components", "c0", rcpt(1), p.at))
}
