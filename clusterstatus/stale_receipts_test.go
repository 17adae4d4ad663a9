package clusterstatus

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// early returns for how much longer a receipt is early; it does not record it.
func (t *Tracker) early(id, list, input string, r fleet.Receipt, now time.Time) time.Duration {
	_, wait := t.cluster(id).receiptCounts(newInputKey(list, input), receipt{r, now.UnixMilli()}, true)
	return wait
}

// longList returns a list of n inputs; lists of different turns have no input in common.
func longList(turn, n int) (fleet.DesiredInputs, func(i int) fleet.Receipt) {
	receipt := func(i int) (r fleet.Receipt) {
		binary.BigEndian.PutUint64(r[:], uint64(turn)<<32|uint64(i+1))
		return r
	}
	list := fleet.DesiredInputs{List: "components", ETag: fmt.Sprint(turn), Inputs: func(yield func(string, bool) bool) {
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

// TestRemovedInputsBounded: the removals in memory are bounded, and beyond the limit more receipts are early, not fewer.
func TestRemovedInputsBounded(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker := NewTracker(Config{Store: store})
	at := noon
	give := func(turn int) func(int) fleet.Receipt {
		list, receipt := longList(turn, 3000)
		at = at.Add(time.Second)
		require.True(t, tracker.RecordPoll(Poll{Cluster: "x", List: list.List, ETag: list.ETag}, at))
		tracker.RecordServed("x", list, at)
		return receipt
	}
	first := give(1)
	for turn := 2; turn < 8; turn++ {
		give(turn)
	}
	give(1)
	require.LessOrEqual(t, len(tracker.cluster("x").poll("components").removed.byInput), maxRemoved)
	require.Positive(t, tracker.receive("x", "components", "c0", first(0), at))
	at = at.Add(settleTime)
	require.Zero(t, tracker.receive("x", "components", "c0", first(0), at))
	tracker.Sync(t.Context(), at)
	for _, row := range store.content() {
		require.Less(t, len(row.Body), 8<<10)
	}
}

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

// TestRejectedForSettleTimeOnly: receipts of a removed input are early for 45 s after the removal, however often the removal
// is exchanged between processes while other inputs change.
func TestRejectedForSettleTimeOnly(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	trackers := []*Tracker{p.a, p.b}
	give := func(tracker *Tracker, n byte, receipts ...byte) {
		p.at = p.at.Add(time.Second)
		if etag := fmt.Sprint(n); tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: etag}, p.at) {
			tracker.RecordServed("x", desiredLists(etag, receipts...)[0], p.at)
		}
		p.sync()
	}
	give(p.a, 1, 1, 100)
	give(p.b, 2, 2, 100)
	withdrawn := p.at
	give(p.a, 3, 1, 101)
	for n := byte(4); p.at.Before(withdrawn.Add(settleTime)); n++ {
		wait := trackers[n%2].early("x", "components", "c0", rcpt(1), p.at)
		require.InDelta(t, withdrawn.Add(settleTime).Sub(p.at), wait, float64(1500*time.Millisecond), n)
		p.at = p.at.Add(7 * time.Second)
		give(trackers[n%2], n, 1, 100+n)
	}
	p.at = withdrawn.Add(settleTime + time.Second)
	for _, tracker := range trackers {
		require.Zero(t, tracker.receive("x", "components", "c0", rcpt(1), p.at))
	}
}

// TestReconcileRemotePoll: inputs that another process served, and that this one removed before it learned of them, count as
// removed.
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
	for _, tracker := range []*Tracker{p.a, p.b} {
		require.Positive(t, tracker.receive("x", "components", "c0", rcpt(2), p.at.Add(time.Second)))
	}
}

// TestSyncBetweenPolls: a row that is written between RecordPoll and RecordServed removes no input.
func TestSyncBetweenPolls(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.at = p.at.Add(time.Second)
	require.True(t, p.a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "2"}, p.at))
	p.a.resyncAll()
	p.sync()
	p.a.RecordServed("x", desiredLists("2", 2)[0], p.at)
	p.sync()
	p.serve(p.b, "2", 2)
	p.serve(p.b, "1", 1)
	p.serve(p.b, "2", 2)
	require.Positive(t, p.b.receive("x", "components", "c0", rcpt(2), p.at))
}

// TestConcurrentPolls: RecordServed calls may arrive in another order than their RecordPoll calls.
func TestConcurrentPolls(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	require.True(t, p.a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "2"}, p.at))
	require.True(t, p.a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "3"}, p.at))
	p.a.RecordServed("x", desiredLists("3", 3)[0], p.at)
	p.a.RecordServed("x", desiredLists("2", 2)[0], p.at)
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(1), p.at))
	require.Positive(t, p.a.receive("x", "components", "c0", rcpt(2), p.at))
	require.Zero(t, p.a.receive("x", "components", "c0", rcpt(3), p.at))
}

// TestLongListRejectedByAllProcesses: a process that starts learns that inputs of a list too long for a row were removed.
func TestLongListRejectedByAllProcesses(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker := NewTracker(Config{Store: store})
	first, receipt := longList(1, maxSharedInputs+1)
	second, _ := longList(2, maxSharedInputs+1)
	for i, list := range []fleet.DesiredInputs{first, second, first} {
		at := noon.Add(time.Duration(i) * time.Second)
		require.True(t, tracker.RecordPoll(Poll{Cluster: "x", List: list.List, ETag: list.ETag}, at))
		tracker.RecordServed("x", list, at)
	}
	tracker.Sync(t.Context(), noon.Add(3*time.Second))
	restarted := NewTracker(Config{Store: store})
	restarted.Sync(t.Context(), noon.Add(3*time.Second))
	require.Positive(t, restarted.receive("x", "components", "c0", receipt(0), noon.Add(4*time.Second)))
}

// TestClockAhead: a removal that another process dates in the future counts as of now.
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
