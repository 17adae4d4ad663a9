package clusterstatus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProcessesAgree: an observation of one process is known to the other within two syncs, and the later one wins.
func TestProcessesAgree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, tracker := range []*Tracker{a, b} {
			running.Go(func() { tracker.Run(ctx) })
		}
		want := desiredLists(`"2"`, 2)
		a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"2"`, Agent: "flux-operator/v1"}, time.Now())
		a.RecordServed("x", want[0], time.Now())
		require.Equal(t, receiptRetryAfter, b.receive("x", "components", "c0", rcpt(2), time.Now()), "it does not know yet that the input was served")
		time.Sleep(2*syncInterval + time.Millisecond)
		for _, tracker := range []*Tracker{a, b} {
			require.Equal(t, Unknown, tracker.stateOf("x", time.Now(), want))
		}
		// Both record it at about the same time, and write in either order.
		require.Positive(t, a.receive("x", "components", "c0", rcpt(1), time.Now()))
		require.Zero(t, a.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(time.Millisecond)
		require.Zero(t, b.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(2*syncInterval + time.Millisecond)
		for _, tracker := range []*Tracker{a, b} {
			require.Equal(t, Confirmed, tracker.stateOf("x", time.Now(), want))
		}
		b.RecordEvent("x", "components", "c0", Event{Input: rcpt(2).String(), Severity: "error", Reason: "UpgradeFailed", At: time.Now()}, time.Now())
		time.Sleep(2*syncInterval + time.Millisecond)
		require.Equal(t, Failed, a.stateOf("x", time.Now(), want))
		// The failure is over, so the same receipt is written again.
		time.Sleep(time.Minute)
		a.receive("x", "components", "c0", rcpt(2), time.Now())
		time.Sleep(2*syncInterval + time.Millisecond)
		require.Equal(t, Confirmed, b.stateOf("x", time.Now(), want))

		cancel()
		running.Wait()
		restarted := NewTracker(Config{Store: store})
		restarted.Sync(t.Context(), time.Now())
		require.Equal(t, Confirmed, restarted.stateOf("x", time.Now(), want))
	})
}

// TestProcessesConverge: a failure that one process recorded a moment before the other recorded a receipt, and a cluster that
// is new to the Store, are known to both.
func TestProcessesConverge(t *testing.T) {
	t.Parallel()
	store, want := newFakeStore(), desiredLists(`"1"`, 1)
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), noon.Add(time.Minute))
			b.Sync(t.Context(), noon.Add(time.Minute))
		}
	}
	exchange()
	a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, noon)
	a.receive("x", "components", "c0", rcpt(1), noon)
	exchange()
	require.Equal(t, Confirmed, b.stateOf("x", noon, want), "also before the minute in which it is written that it was seen")
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(time.Second)}, noon.Add(time.Second))
	a.receive("x", "components", "c0", rcpt(1), noon.Add(2*time.Second))
	exchange()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", noon.Add(3*time.Second), want))
	}
	// A late event about an older input does not hide a failure.
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(20 * time.Second)}, noon.Add(20*time.Second))
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(7).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(15 * time.Second)}, noon.Add(21*time.Second))
	exchange()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Failed, tracker.stateOf("x", noon.Add(22*time.Second), want))
	}
}

// twoProcesses share a Store and serve one cluster in turn.
type twoProcesses struct {
	t     *testing.T
	store Store
	a, b  *Tracker
	at    time.Time
}

func newTwoProcesses(t *testing.T) *twoProcesses {
	t.Helper()
	store := newFakeStore()
	return &twoProcesses{t, store, NewTracker(Config{Store: store}), NewTracker(Config{Store: store}), noon}
}

// sync makes the observations of each process known to the other.
func (p *twoProcesses) sync() {
	for range 3 {
		p.a.Sync(p.t.Context(), p.at)
		p.b.Sync(p.t.Context(), p.at)
	}
}

// serve is a poll of one process, a second later.
func (p *twoProcesses) serve(tracker *Tracker, etag string, receipt byte) {
	p.at = p.at.Add(time.Second)
	if tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: etag, Agent: "flux-operator/v1"}, p.at) {
		tracker.RecordServed("x", desiredLists(etag, receipt)[0], p.at)
	}
}

// receive is a receipt to one process, a second later.
func (p *twoProcesses) receive(tracker *Tracker, receipt byte) {
	p.at = p.at.Add(time.Second)
	tracker.receive("x", "components", "c0", rcpt(receipt), p.at)
}

// TestReceiptAtOtherProcess: a process that serves the same answer after another process accepted its receipt does not
// invalidate the receipt; an invalidation by one process counts in all.
func TestReceiptAtOtherProcess(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	a, b := p.a, p.b
	p.serve(a, "1", 1)
	p.receive(a, 1)
	p.sync()
	p.serve(a, "2", 2)
	p.receive(a, 2)
	p.serve(b, "2", 2) // b knows neither
	p.sync()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("2", 2)))
	}
	p.serve(b, "3", 3)
	p.sync()
	restarted := NewTracker(Config{Store: p.store})
	restarted.Sync(t.Context(), p.at)
	for _, tracker := range []*Tracker{a, b, restarted} {
		require.Equal(t, Progressing, tracker.stateOf("x", p.at, desiredLists("2", 2)), "it has gone on to another one since")
	}
	p.serve(a, "2", 2)
	p.receive(a, 2)
	p.sync()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Delivered, tracker.stateOf("x", p.at, desiredLists("2", 2)), "that may be of before")
	}
	p.at = p.at.Add(settleTime)
	p.receive(a, 2)
	p.sync()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("2", 2)), "it has come back")
	}
}

// TestEarlyReceiptRejectedByAllProcesses: an input is removed and served again before the cluster has confirmed it. Its next
// receipt may be of the first time, whichever processes served the lists and receive it, also one that started since.
func TestEarlyReceiptRejectedByAllProcesses(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][3]int{"by one": {0, 0, 0}, "by both": {0, 1, 0}, "by both, the other way": {0, 1, 1}, "by the other": {0, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTwoProcesses(t)
			trackers := []*Tracker{p.a, p.b}
			for i, receipt := range []byte{1, 2, 1} {
				p.serve(trackers[order[i]], fmt.Sprint(receipt), receipt)
				p.sync()
			}
			restarted := NewTracker(Config{Store: p.store})
			restarted.Sync(t.Context(), p.at)
			trackers = append(trackers, restarted)
			for i, tracker := range trackers {
				p.at = p.at.Add(time.Second)
				wait := tracker.receive("x", "components", "c0", rcpt(1), p.at)
				require.Greater(t, wait, settleTime/2, i)
				require.LessOrEqual(t, wait, settleTime, i)
			}
			p.sync()
			for _, tracker := range trackers {
				require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)))
			}
			p.at = p.at.Add(settleTime)
			p.receive(trackers[order[2]], 1)
			p.sync()
			restarted.Sync(t.Context(), p.at)
			for i, tracker := range trackers {
				require.Equal(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)), i)
			}
		})
	}
}

// TestLateReceiptIgnored: a receipt that arrives after another process removed its input does not count, however much later
// the input is served again.
func TestLateReceiptIgnored(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.sync()
	p.receive(p.a, 1)
	p.serve(p.b, "2", 2)
	p.sync()
	p.serve(p.a, "2", 2)
	p.at = p.at.Add(2 * settleTime)
	p.serve(p.a, "1", 1)
	p.sync()
	for _, tracker := range []*Tracker{p.a, p.b} {
		require.NotEqual(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)))
	}
	p.receive(p.b, 1)
	p.sync()
	for _, tracker := range []*Tracker{p.a, p.b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)))
	}
}

// TestRecreatedCluster: objects of the deleted cluster may go on sending receipts.
func TestRecreatedCluster(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.serve(p.a, "2", 2)
	p.at = p.at.Add(time.Second)
	p.a.cluster("x").reset(p.at.UnixMilli())
	require.Equal(t, Never, p.a.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1), Now: p.at, OfflineAfter: OfflineAfter, Details: true}).Lists[0].State)
	p.sync()
	p.serve(p.a, "1", 1)
	for _, receipt := range []byte{1, 2} {
		require.Positive(t, p.a.receive("x", "components", "c0", rcpt(receipt), p.at))
	}
	p.at = p.at.Add(settleTime)
	p.receive(p.a, 1)
	require.Equal(t, Confirmed, p.a.stateOf("x", p.at, desiredLists("1", 1)))
}

// TestFutureRowClamped: a row of the future is taken for one of now.
func TestFutureRowClamped(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	for subject, body := range map[string]string{
		"seen": `{"agent":"x"}`, "poll/components": `{"etag":"1"}`, "receipt/components/c0": `{"input":"` + rcpt(1).String() + `"}`,
		"void/components/c1": `{"input":"` + rcpt(2).String() + `","again":true}`, "event/components/c2": `{"severity":"error","reason":"UpgradeFailed"}`,
	} {
		require.NoError(t, p.store.Put(t.Context(), []Row{{Cluster: "x", Subject: subject, Body: body, ObservedAt: noon.AddDate(9000, 0, 0)}}))
	}
	p.sync()
	got := p.a.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1, 2, 3), Now: p.at, OfflineAfter: OfflineAfter, Details: true})
	require.False(t, got.LastSeen.After(noon))
	for _, in := range got.Inputs {
		require.False(t, in.Since.After(noon), in)
	}
	p.at = p.at.Add(time.Second)
	p.a.receive("x", "components", "c1", rcpt(2), p.at)
	require.Equal(t, Confirmed, p.a.stateOf("x", p.at, desiredLists("1", 1, 2)))
}

// TestProcessesServeDifferentLists: one process served the next list and the other the previous one again, before it learned
// of the next. Both arrive at the same state, and confirm the list once the cluster sends its receipt.
func TestProcessesServeDifferentLists(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	a, b := p.a, p.b
	p.serve(a, "1", 1)
	p.receive(a, 1)
	p.serve(b, "1", 1)
	p.sync()
	p.serve(a, "2", 2)
	p.serve(b, "1", 1) // reverted
	p.sync()
	p.serve(b, "1", 1)
	p.sync()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Delivered, tracker.stateOf("x", p.at, desiredLists("1", 1)), "it may have begun with the other one")
	}
	p.at = p.at.Add(settleTime)
	p.receive(a, 1)
	p.sync()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", p.at, desiredLists("1", 1)))
	}
}

// TestOtherClusterWithSameID: a new cluster does not inherit the observations of a deleted one in any process, and its own
// count at once.
func TestOtherClusterWithSameID(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	want, at := desiredLists("1", 1), noon
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), at)
			b.Sync(t.Context(), at)
		}
	}
	a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1", Agent: "flux-operator/v1"}, at)
	a.receive("x", "components", "c0", rcpt(1), at)
	a.RecordEvent("x", "", "HelmRelease/a/b", Event{Severity: "error", Message: "old", At: at}, at)
	exchange()
	at = at.Add(time.Minute)
	late := NewTracker(Config{Store: store}) // reads the rows when the new cluster exists already
	late.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1", Agent: "flux-operator/v1"}, noon)
	late.cluster("x").reset(at.UnixMilli())
	late.Sync(t.Context(), at)
	for _, tracker := range []*Tracker{a, b, late} {
		tracker.cluster("x").reset(at.UnixMilli())
		got := tracker.Evaluate(Query{Cluster: "x", Desired: want, Now: at, OfflineAfter: OfflineAfter, Details: true})
		require.Equal(t, Never, got.State)
		require.Equal(t, Never, got.Lists[0].State)
		require.Empty(t, got.Events)
		require.Zero(t, got.LastSeen)
	}
	exchange()
	at = at.Add(time.Second)
	require.True(t, a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1", Agent: "flux-operator/v1"}, at), "the same answer is another one for it")
	exchange()
	require.Equal(t, Unknown, b.stateOf("x", at, want), "it was given it, and has confirmed nothing")
	at = at.Add(settleTime)
	a.receive("x", "components", "c0", rcpt(1), at)
	exchange()
	for _, tracker := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, tracker.stateOf("x", at, want))
	}
}
