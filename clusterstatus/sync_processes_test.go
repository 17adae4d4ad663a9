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

// TestProcessesAgree: what one hears the other knows within two exchanges, and what was said last counts wherever it was heard.
func TestProcessesAgree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newFakeStore()
		a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, book := range []*Tracker{a, b} {
			running.Go(func() { book.Run(ctx) })
		}
		want := desiredLists(`"2"`, 2)
		a.RecordPoll("x", "components", `"2"`, "flux-operator/v1", time.Now())
		a.RecordServed("x", want[0], time.Now())
		require.Equal(t, receiptRetryAfter, b.receive("x", "components", "c0", rcpt(2), time.Now()), "it does not know yet that the input was served")
		time.Sleep(2*syncInterval + time.Millisecond)
		for _, book := range []*Tracker{a, b} {
			require.Equal(t, Unknown, book.stateOf("x", time.Now(), want))
		}
		// Both hear of it at about the same time, and write in either order.
		require.Positive(t, a.receive("x", "components", "c0", rcpt(1), time.Now()))
		require.Zero(t, a.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(time.Millisecond)
		require.Zero(t, b.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(2*syncInterval + time.Millisecond)
		for _, book := range []*Tracker{a, b} {
			require.Equal(t, Confirmed, book.stateOf("x", time.Now(), want))
		}
		b.RecordEvent("x", "components", "c0", Event{Input: rcpt(2).String(), Severity: "error", Reason: "UpgradeFailed", At: time.Now()}, time.Now())
		time.Sleep(2*syncInterval + time.Millisecond)
		require.Equal(t, Failed, a.stateOf("x", time.Now(), want))
		// It works again: the same receipt is news now.
		time.Sleep(time.Minute)
		a.receive("x", "components", "c0", rcpt(2), time.Now())
		time.Sleep(2*syncInterval + time.Millisecond)
		require.Equal(t, Confirmed, b.stateOf("x", time.Now(), want))

		cancel()
		running.Wait()
		restarted := NewTracker(Config{Store: table})
		restarted.Sync(t.Context(), time.Now())
		require.Equal(t, Confirmed, restarted.stateOf("x", time.Now(), want))
	})
}

// TestProcessesConverge: a failure that one heard a moment before the other had a receipt, and that a cluster is new to
// the table, are known to both.
func TestProcessesConverge(t *testing.T) {
	t.Parallel()
	table, want := newFakeStore(), desiredLists(`"1"`, 1)
	a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), noon.Add(time.Minute))
			b.Sync(t.Context(), noon.Add(time.Minute))
		}
	}
	exchange()
	a.RecordPoll("x", "components", `"1"`, "flux-operator/v1", noon)
	a.receive("x", "components", "c0", rcpt(1), noon)
	exchange()
	require.Equal(t, Confirmed, b.stateOf("x", noon, want), "also before the minute in which it is written that it was seen")
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(time.Second)}, noon.Add(time.Second))
	a.receive("x", "components", "c0", rcpt(1), noon.Add(2*time.Second))
	exchange()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, book.stateOf("x", noon.Add(3*time.Second), want))
	}
	// A late word about something older does not hide a failure.
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(20 * time.Second)}, noon.Add(20*time.Second))
	b.RecordEvent("x", "components", "c0", Event{Input: rcpt(7).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(15 * time.Second)}, noon.Add(21*time.Second))
	exchange()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Failed, book.stateOf("x", noon.Add(22*time.Second), want))
	}
}

// pair is two processes with a table in common, between which a cluster goes to and fro.
type twoProcesses struct {
	t     *testing.T
	table Store
	a, b  *Tracker
	at    time.Time
}

func newTwoProcesses(t *testing.T) *twoProcesses {
	t.Helper()
	table := newFakeStore()
	return &twoProcesses{t, table, NewTracker(Config{Store: table}), NewTracker(Config{Store: table}), noon}
}

// exchange has both know what the other one knows.
func (p *twoProcesses) sync() {
	for range 3 {
		p.a.Sync(p.t.Context(), p.at)
		p.b.Sync(p.t.Context(), p.at)
	}
}

// give has the cluster poll one of them, a second later.
func (p *twoProcesses) serve(book *Tracker, etag string, receipt byte) {
	p.at = p.at.Add(time.Second)
	if book.RecordPoll("x", "components", etag, "flux-operator/v1", p.at) {
		book.RecordServed("x", desiredLists(etag, receipt)[0], p.at)
	}
}

// receive has the cluster tell one of them that it has applied what it was given, a second later.
func (p *twoProcesses) receive(book *Tracker, receipt byte) {
	p.at = p.at.Add(time.Second)
	book.receive("x", "components", "c0", rcpt(receipt), p.at)
}

// TestReceiptAtOtherProcess: the process that gives an answer last, before it has heard that the cluster has applied it,
// takes that back for nobody; and what one voids is void for all.
func TestReceiptAtOtherProcess(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	a, b := p.a, p.b
	p.serve(a, "1", 1)
	p.receive(a, 1)
	p.sync()
	p.serve(a, "2", 2)
	p.receive(a, 2)
	p.serve(b, "2", 2) // which has heard of neither
	p.sync()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, book.stateOf("x", p.at, desiredLists("2", 2)))
	}
	p.serve(b, "3", 3)
	p.sync()
	restarted := NewTracker(Config{Store: p.table})
	restarted.Sync(t.Context(), p.at)
	for _, book := range []*Tracker{a, b, restarted} {
		require.Equal(t, Progressing, book.stateOf("x", p.at, desiredLists("2", 2)), "it has gone on to another one since")
	}
	p.serve(a, "2", 2)
	p.receive(a, 2)
	p.sync()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Delivered, book.stateOf("x", p.at, desiredLists("2", 2)), "that may be of before")
	}
	p.at = p.at.Add(settleTime)
	p.receive(a, 2)
	p.sync()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, book.stateOf("x", p.at, desiredLists("2", 2)), "it has come back")
	}
}

// TestEarlyReceiptRejectedByAllProcesses: an input is taken back and made again before the cluster has confirmed it. What it then says
// may be of the first time, whichever process gave it what, and whichever hears it, one that started since included.
func TestEarlyReceiptRejectedByAllProcesses(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][3]int{"by one": {0, 0, 0}, "by both": {0, 1, 0}, "by both, the other way": {0, 1, 1}, "by the other": {0, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTwoProcesses(t)
			books := []*Tracker{p.a, p.b}
			for i, receipt := range []byte{1, 2, 1} {
				p.serve(books[order[i]], fmt.Sprint(receipt), receipt)
				p.sync()
			}
			restarted := NewTracker(Config{Store: p.table})
			restarted.Sync(t.Context(), p.at)
			books = append(books, restarted)
			for i, book := range books {
				p.at = p.at.Add(time.Second)
				wait := book.receive("x", "components", "c0", rcpt(1), p.at)
				require.Greater(t, wait, settleTime/2, i)
				require.LessOrEqual(t, wait, settleTime, i)
			}
			p.sync()
			for _, book := range books {
				require.NotEqual(t, Confirmed, book.stateOf("x", p.at, desiredLists("1", 1)))
			}
			p.at = p.at.Add(settleTime)
			p.receive(books[order[2]], 1)
			p.sync()
			restarted.Sync(t.Context(), p.at)
			for i, book := range books {
				require.Equal(t, Confirmed, book.stateOf("x", p.at, desiredLists("1", 1)), i)
			}
		})
	}
}

// TestLateReceiptIgnored, after another process gave the cluster something else, is of before, however much later the input
// is made again.
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
	for _, book := range []*Tracker{p.a, p.b} {
		require.NotEqual(t, Confirmed, book.stateOf("x", p.at, desiredLists("1", 1)))
	}
	p.receive(p.b, 1)
	p.sync()
	for _, book := range []*Tracker{p.a, p.b} {
		require.Equal(t, Confirmed, book.stateOf("x", p.at, desiredLists("1", 1)))
	}
}

// TestRecreatedCluster: what the one before was given may go on sending receipts.
func TestRecreatedCluster(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	p.serve(p.a, "1", 1)
	p.serve(p.a, "2", 2)
	p.at = p.at.Add(time.Second)
	p.a.ResetCluster("x", p.at)
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

// TestFutureRowClamped is taken for one of now: it can neither be told from what is to come nor shown.
func TestFutureRowClamped(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	for subject, body := range map[string]string{
		"seen": `{"agent":"x"}`, "poll/components": `{"etag":"1"}`, "receipt/components/c0": `{"input":"` + rcpt(1).String() + `"}`,
		"void/components/c1": `{"input":"` + rcpt(2).String() + `","again":true}`, "event/components/c2": `{"severity":"error","reason":"UpgradeFailed"}`,
	} {
		require.NoError(t, p.table.Put(t.Context(), []Row{{Cluster: "x", Subject: subject, Body: body, ObservedAt: noon.AddDate(9000, 0, 0)}}))
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

// TestProcessesServeDifferentLists: one process has given the next answer and the other one the old one again, without having heard of
// that; both end up saying the same, and that the cluster has it when it says so.
func TestProcessesServeDifferentLists(t *testing.T) {
	t.Parallel()
	p := newTwoProcesses(t)
	a, b := p.a, p.b
	p.serve(a, "1", 1)
	p.receive(a, 1)
	p.serve(b, "1", 1)
	p.sync()
	p.serve(a, "2", 2)
	p.serve(b, "1", 1) // it was taken back
	p.sync()
	p.serve(b, "1", 1)
	p.sync()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Delivered, book.stateOf("x", p.at, desiredLists("1", 1)), "it may have begun with the other one")
	}
	p.at = p.at.Add(settleTime)
	p.receive(a, 1)
	p.sync()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, book.stateOf("x", p.at, desiredLists("1", 1)))
	}
}

// TestOtherClusterWithSameID does not inherit what the one before said, whichever process heard it, and speaks for itself at once.
func TestOtherClusterWithSameID(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
	want, at := desiredLists("1", 1), noon
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), at)
			b.Sync(t.Context(), at)
		}
	}
	a.RecordPoll("x", "components", "1", "flux-operator/v1", at)
	a.receive("x", "components", "c0", rcpt(1), at)
	a.RecordEvent("x", "", "HelmRelease/a/b", Event{Severity: "error", Message: "old", At: at}, at)
	exchange()
	at = at.Add(time.Minute)
	late := NewTracker(Config{Store: table}) // reads it when there is another one already
	late.RecordPoll("x", "components", "1", "flux-operator/v1", noon)
	late.ResetCluster("x", at)
	late.Sync(t.Context(), at)
	for _, book := range []*Tracker{a, b, late} {
		book.ResetCluster("x", at)
		got := book.Evaluate(Query{Cluster: "x", Desired: want, Now: at, OfflineAfter: OfflineAfter, Details: true})
		require.Equal(t, Never, got.State)
		require.Equal(t, Never, got.Lists[0].State)
		require.Empty(t, got.Events)
		require.Zero(t, got.LastSeen)
	}
	exchange()
	at = at.Add(time.Second)
	require.True(t, a.RecordPoll("x", "components", "1", "flux-operator/v1", at), "the same answer is another one for it")
	exchange()
	require.Equal(t, Unknown, b.stateOf("x", at, want), "it was given it, and has confirmed nothing")
	at = at.Add(settleTime)
	a.receive("x", "components", "c0", rcpt(1), at)
	exchange()
	for _, book := range []*Tracker{a, b} {
		require.Equal(t, Confirmed, book.stateOf("x", at, want))
	}
}
