package clusterstatus

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// early is how much longer a receipt is held back; it is not noted.
func (t *Tracker) early(id, list, input string, r fleet.Receipt, now time.Time) time.Duration {
	_, wait := t.cluster(id).receiptCounts(newInputKey(list, input), receipt{r, now.UnixMilli()}, true)
	return wait
}

// many is a list of so many inputs, those of a turn unlike those of another one.
func longList(turn, n int) (fleet.Asked, func(i int) fleet.Receipt) {
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

// TestRemovedInputsBounded: however much is changed, what is kept of it is bounded, and too much of it holds more back, not less.
func TestRemovedInputsBounded(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book := NewTracker(Config{Store: table})
	at := noon
	give := func(turn int) func(int) fleet.Receipt {
		list, receipt := longList(turn, 3000)
		at = at.Add(time.Second)
		require.True(t, book.RecordPoll("x", list.List, list.ETag, "", at))
		book.RecordServed("x", list, at)
		return receipt
	}
	first := give(1)
	for turn := 2; turn < 8; turn++ {
		give(turn)
	}
	give(1)
	require.LessOrEqual(t, len(book.cluster("x").poll("components").removed.byInput), maxRemoved)
	require.Positive(t, book.receive("x", "components", "c0", first(0), at))
	at = at.Add(settleTime)
	require.Zero(t, book.receive("x", "components", "c0", first(0), at))
	book.Sync(t.Context(), at)
	for _, row := range table.content() {
		require.Less(t, len(row.Body), 8<<10)
	}
}

// TestUnreadablePollRowsIgnored say nothing of what is asked, and harm nothing.
func TestUnreadablePollRowsIgnored(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "?", "=?", "=AAAA", "=AAAAAAAAAAA=", tooMany, "=" + string(make([]byte, 1<<20))} {
		require.False(t, decodeInputs(text).known, "%.20q", text)
	}
	require.Equal(t, inputSet{known: true}, decodeInputs("="))
	all, _ := longList(1, maxSharedInputs)
	require.Equal(t, all.Receipts, decodeInputs(inputSet{all.Receipts, true}.encode()).receipts)
	all, _ = longList(1, maxSharedInputs+1)
	require.Equal(t, tooMany, inputSet{all.Receipts, true}.encode())
	require.Empty(t, inputSet{}.encode())
	for _, text := range []string{"", "?", "=?", "=AAAA"} {
		var w removedInputs
		w.decode(text, 1)
		require.Zero(t, w, text)
	}
}

// TestRejectedForSettleTimeOnly: what is held back is so for 45 s from when it was withdrawn, however often what others are told of it goes to
// and fro between processes while other inputs change.
func TestRejectedForSettleTimeOnly(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	books := []*Tracker{p.a, p.b}
	give := func(book *Tracker, n byte, receipts ...byte) {
		p.at = p.at.Add(time.Second)
		if etag := fmt.Sprint(n); book.RecordPoll("x", "components", etag, "", p.at) {
			book.RecordServed("x", desiredLists(etag, receipts...)[0], p.at)
		}
		p.sync()
	}
	give(p.a, 1, 1, 100)
	give(p.b, 2, 2, 100)
	withdrawn := p.at
	give(p.a, 3, 1, 101)
	for n := byte(4); p.at.Before(withdrawn.Add(settleTime)); n++ {
		wait := books[n%2].early("x", "components", "c0", rcpt(1), p.at)
		require.InDelta(t, withdrawn.Add(settleTime).Sub(p.at), wait, float64(1500*time.Millisecond), n)
		p.at = p.at.Add(7 * time.Second)
		give(books[n%2], n, 1, 100+n)
	}
	p.at = withdrawn.Add(settleTime + time.Second)
	for _, book := range books {
		require.Zero(t, book.receive("x", "components", "c0", rcpt(1), p.at))
	}
}

// TestReconcileRemotePoll: what another process gave, and this one took back before it heard of that, is withdrawn as well.
func TestReconcileRemotePoll(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.serve(p.b, "2", 2)
	p.serve(p.a, "1", 1)
	p.sync()
	p.at = p.at.Add(5 * time.Second)
	p.serve(p.a, "2", 2)
	p.sync()
	for _, book := range []*Tracker{p.a, p.b} {
		require.Positive(t, book.receive("x", "components", "c0", rcpt(2), p.at.Add(time.Second)))
	}
}

// TestSyncBetweenPolls: a row that is written between the two halves of noting a poll says nothing that is not so.
func TestSyncBetweenPolls(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.at = p.at.Add(time.Second)
	require.True(t, p.a.RecordPoll("x", "components", "2", "", p.at))
	p.a.resyncAll()
	p.sync()
	p.a.RecordServed("x", desiredLists("2", 2)[0], p.at)
	p.sync()
	p.serve(p.b, "2", 2)
	p.serve(p.b, "1", 1)
	p.serve(p.b, "2", 2)
	require.Positive(t, p.b.receive("x", "components", "c0", rcpt(2), p.at))
}

// TestConcurrentPolls: the one that is noted last need not be the one whose list is.
func TestConcurrentPolls(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	require.True(t, p.a.RecordPoll("x", "components", "2", "", p.at))
	require.True(t, p.a.RecordPoll("x", "components", "3", "", p.at))
	p.a.RecordServed("x", desiredLists("3", 3)[0], p.at)
	p.a.RecordServed("x", desiredLists("2", 2)[0], p.at)
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(1), p.at))
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(2), p.at))
	require.Zero(t, p.a.receive("x", "components", "c0", rcpt(3), p.at))
}

// TestLongListRejectedByAllProcesses: where it is too long to be told, one that starts knows that there was something.
func TestLongListRejectedByAllProcesses(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book := NewTracker(Config{Store: table})
	first, receipt := longList(1, maxSharedInputs+1)
	second, _ := longList(2, maxSharedInputs+1)
	for i, list := range []fleet.Asked{first, second, first} {
		at := noon.Add(time.Duration(i) * time.Second)
		require.True(t, book.RecordPoll("x", list.List, list.ETag, "", at))
		book.RecordServed("x", list, at)
	}
	book.Sync(t.Context(), noon.Add(3*time.Second))
	restarted := NewTracker(Config{Store: table})
	restarted.Sync(t.Context(), noon.Add(3*time.Second))
	require.Positive(t, restarted.receive("x", "components", "c0", receipt(0), noon.Add(4*time.Second)))
}

// TestClockAhead: what another process says was withdrawn in a moment from now is.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.at = p.at.Add(3 * time.Second)
	p.serve(p.b, "2", 2)
	p.sync()
	p.at = p.at.Add(-3 * time.Second)
	p.serve(p.a, "1", 1)
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(1), p.at))
}
