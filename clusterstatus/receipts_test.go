package clusterstatus

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestReceiptAfterRemoteRemovalIgnored: one process serves an input, another serves the list without it, and the first accepts
// a receipt before it has learned that. The input is desired again, and served again, soon or much later.
func TestReceiptAfterRemoteRemovalIgnored(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]time.Duration{"at once": time.Second, "after the settle time": 2 * settleTime} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTwoProcesses(t)
			p.serve(p.a, "1", 1)
			p.sync()
			p.serve(p.b, "2", 2)
			p.at = p.at.Add(30 * time.Millisecond)
			p.a.receive("x", "components", "c0", rcpt(1), p.at)
			p.sync()
			p.at = p.at.Add(apart)
			for _, tracker := range []*Tracker{p.a, p.b} {
				require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)), "x is desired again")
			}
			p.serve(p.b, "1", 1)
			p.sync()
			restarted := NewTracker(Config{Store: p.store})
			restarted.Sync(t.Context(), p.at)
			for _, tracker := range []*Tracker{p.a, p.b, restarted} {
				require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)), "x is served again")
			}
		})
	}
}

// TestReceiptBeforeServedIgnored: the receipt does not count once its input is served, either.
func TestReceiptBeforeServedIgnored(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.receive(p.a, 1)
	p.serve(p.a, "1", 1)
	p.sync()
	for _, tracker := range []*Tracker{p.a, p.b} {
		require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)))
	}
}

// TestReceiptAfterRestartCounts: a process that starts reads which inputs were served before.
func TestReceiptAfterRestartCounts(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	restarted := NewTracker(Config{Store: p.store})
	restarted.Sync(t.Context(), p.at)
	p.receive(restarted, 1)
	require.Equal(t, Confirmed, restarted.stateOf("x", p.at, desiredLists("1", 1)))

	// A list that is too long for a row is recognized by its ETag.
	list, receipt := longList(1, maxSharedInputs+1)
	require.True(t, p.a.RecordPoll(Poll{Cluster: "long", List: list.List, ETag: list.ETag}, p.at))
	p.a.RecordServed("long", list, p.at)
	p.sync()
	restarted = NewTracker(Config{Store: p.store})
	restarted.Sync(t.Context(), p.at)
	require.Zero(t, restarted.RecordReceipt("long", list, "c0", receipt(0), p.at.Add(time.Second)))
	require.EqualValues(t, 1, restarted.Evaluate(Query{Cluster: "long", Desired: []fleet.DesiredInputs{list}, Now: p.at, OfflineAfter: OfflineAfter}).Counts[Confirmed.rank()])
}

// TestLaterRemovalWins: an earlier removal that is learned late does not shorten the time for which receipts do not count.
func TestLaterRemovalWins(t *testing.T) {
	t.Parallel()
	var w removedInputs
	for _, at := range []int64{100, 50, 100} {
		w.add(rcpt(1), at)
		require.Equal(t, 100+settleTime.Milliseconds(), w.blockedUntil(receipt{rcpt(1), 0}))
	}
}

// TestRemoteRemovalBetweenPolls: another process served another list between two polls that this one answered alike.
func TestRemoteRemovalBetweenPolls(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, noon.Add(after))
		tracker.RecordServed("x", desiredLists("1", 1, 3)[0], noon.Add(after))
	}
	for i, r := range []byte{1, 3} {
		require.Zero(t, tracker.receive("x", "components", fmt.Sprint("c", i), rcpt(r), noon.Add(12*time.Second)))
	}
	c, other := tracker.cluster("x"), inputSet{[]fleet.Receipt{rcpt(2), rcpt(3)}, true}
	c.mergePoll("components", fmt.Sprintf(`{"etag":"2","asked":%q}`, other.encode()), noon.Add(15*time.Second).UnixMilli())
	p := c.poll("components")
	require.Equal(t, noon.Add(15*time.Second+settleTime).UnixMilli(), p.removed.blockedUntil(receipt{input: rcpt(1)}), "removed when the other process served its list")
	require.Equal(t, noon.Add(20*time.Second+settleTime).UnixMilli(), p.removed.blockedUntil(receipt{input: rcpt(2)}), "removed when this process served its list last")
	require.Zero(t, p.removed.blockedUntil(receipt{input: rcpt(3)}), "in both")
	got := tracker.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1, 3), Now: noon.Add(21 * time.Second), OfflineAfter: OfflineAfter})
	require.Equal(t, map[State]int{Confirmed: 1, Delivered: 1}, maps.Collect(got.Counts.Each))
	require.True(t, tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, noon.Add(30*time.Second)), "so that this process records again that its list is the current one")
}

// TestReceiptBeforeRemovalLearnedIgnored: the process that served the removal does not sync for longer than settleTime.
func TestReceiptBeforeRemovalLearnedIgnored(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.serve(p.b, "2", 2)
	p.at = p.at.Add(settleTime + time.Second)
	p.receive(p.a, 1)
	p.a.Sync(t.Context(), p.at)
	p.sync()
	p.at = p.at.Add(2 * settleTime)
	p.serve(p.b, "1", 1)
	p.sync()
	restarted := NewTracker(Config{Store: p.store})
	restarted.Sync(t.Context(), p.at)
	for i, tracker := range []*Tracker{p.a, p.b, restarted} {
		require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)), i)
	}
}
