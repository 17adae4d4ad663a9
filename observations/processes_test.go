package observations

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
		table := newShared()
		a, b := NewBook(Config{Table: table}), NewBook(Config{Table: table})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, book := range []*Book{a, b} {
			running.Go(func() { book.Run(ctx) })
		}
		want := asked(`"2"`, 2)
		a.Polled("x", "components", `"2"`, "flux-operator/v1", time.Now())
		a.Given("x", want[0], time.Now())
		require.Equal(t, retryReceipt, b.receive("x", "components", "c0", rcpt(2), time.Now()), "it does not know yet that the input was served")
		time.Sleep(2*exchangeEvery + time.Millisecond)
		for _, book := range []*Book{a, b} {
			require.Equal(t, Unknown, book.state("x", time.Now(), want))
		}
		// Both hear of it at about the same time, and write in either order.
		require.Positive(t, a.receive("x", "components", "c0", rcpt(1), time.Now()))
		require.Zero(t, a.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(time.Millisecond)
		require.Zero(t, b.receive("x", "components", "c0", rcpt(2), time.Now()))
		time.Sleep(2*exchangeEvery + time.Millisecond)
		for _, book := range []*Book{a, b} {
			require.Equal(t, Confirmed, book.state("x", time.Now(), want))
		}
		b.Happened("x", "components", "c0", Event{Input: rcpt(2).String(), Severity: "error", Reason: "UpgradeFailed", At: time.Now()}, time.Now())
		time.Sleep(2*exchangeEvery + time.Millisecond)
		require.Equal(t, Failed, a.state("x", time.Now(), want))
		// It works again: the same receipt is news now.
		time.Sleep(time.Minute)
		a.receive("x", "components", "c0", rcpt(2), time.Now())
		time.Sleep(2*exchangeEvery + time.Millisecond)
		require.Equal(t, Confirmed, b.state("x", time.Now(), want))

		cancel()
		running.Wait()
		restarted := NewBook(Config{Table: table})
		restarted.Exchange(t.Context(), time.Now())
		require.Equal(t, Confirmed, restarted.state("x", time.Now(), want))
	})
}

// TestProcessesDoNotGoOnDisagreeing: a failure that one heard a moment before the other had a receipt, and that a cluster is new to
// the table, are known to both.
func TestProcessesDoNotGoOnDisagreeing(t *testing.T) {
	t.Parallel()
	table, want := newShared(), asked(`"1"`, 1)
	a, b := NewBook(Config{Table: table}), NewBook(Config{Table: table})
	exchange := func() {
		for range 3 {
			a.Exchange(t.Context(), noon.Add(time.Minute))
			b.Exchange(t.Context(), noon.Add(time.Minute))
		}
	}
	exchange()
	a.Polled("x", "components", `"1"`, "flux-operator/v1", noon)
	a.receive("x", "components", "c0", rcpt(1), noon)
	exchange()
	require.Equal(t, Confirmed, b.state("x", noon, want), "also before the minute in which it is written that it was seen")
	b.Happened("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(time.Second)}, noon.Add(time.Second))
	a.receive("x", "components", "c0", rcpt(1), noon.Add(2*time.Second))
	exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Confirmed, book.state("x", noon.Add(3*time.Second), want))
	}
	// A late word about something older does not hide a failure.
	b.Happened("x", "components", "c0", Event{Input: rcpt(1).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(20 * time.Second)}, noon.Add(20*time.Second))
	b.Happened("x", "components", "c0", Event{Input: rcpt(7).String(), Severity: "error", Reason: "UpgradeFailed", At: noon.Add(15 * time.Second)}, noon.Add(21*time.Second))
	exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Failed, book.state("x", noon.Add(22*time.Second), want))
	}
}

// pair is two processes with a table in common, between which a cluster goes to and fro.
type pair struct {
	t     *testing.T
	table Table
	a, b  *Book
	at    time.Time
}

func newPair(t *testing.T) *pair {
	t.Helper()
	table := newShared()
	return &pair{t, table, NewBook(Config{Table: table}), NewBook(Config{Table: table}), noon}
}

// exchange has both know what the other one knows.
func (p *pair) exchange() {
	for range 3 {
		p.a.Exchange(p.t.Context(), p.at)
		p.b.Exchange(p.t.Context(), p.at)
	}
}

// give has the cluster poll one of them, a second later.
func (p *pair) give(book *Book, etag string, receipt byte) {
	p.at = p.at.Add(time.Second)
	if book.Polled("x", "components", etag, "flux-operator/v1", p.at) {
		book.Given("x", asked(etag, receipt)[0], p.at)
	}
}

// receive has the cluster tell one of them that it has applied what it was given, a second later.
func (p *pair) receive(book *Book, receipt byte) {
	p.at = p.at.Add(time.Second)
	book.receive("x", "components", "c0", rcpt(receipt), p.at)
}

// TestGivenByOneAndConfirmedToAnother: the process that gives an answer last, before it has heard that the cluster has applied it,
// takes that back for nobody; and what one voids is void for all.
func TestGivenByOneAndConfirmedToAnother(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a, b := p.a, p.b
	p.give(a, "1", 1)
	p.receive(a, 1)
	p.exchange()
	p.give(a, "2", 2)
	p.receive(a, 2)
	p.give(b, "2", 2) // which has heard of neither
	p.exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Confirmed, book.state("x", p.at, asked("2", 2)))
	}
	p.give(b, "3", 3)
	p.exchange()
	restarted := NewBook(Config{Table: p.table})
	restarted.Exchange(t.Context(), p.at)
	for _, book := range []*Book{a, b, restarted} {
		require.Equal(t, Progressing, book.state("x", p.at, asked("2", 2)), "it has gone on to another one since")
	}
	p.give(a, "2", 2)
	p.receive(a, 2)
	p.exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Delivered, book.state("x", p.at, asked("2", 2)), "that may be of before")
	}
	p.at = p.at.Add(settle)
	p.receive(a, 2)
	p.exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Confirmed, book.state("x", p.at, asked("2", 2)), "it has come back")
	}
}

// TestAReceiptOfBeforeIsHeldBackByAll: an input is taken back and made again before the cluster has confirmed it. What it then says
// may be of the first time, whichever process gave it what, and whichever hears it, one that started since included.
func TestAReceiptOfBeforeIsHeldBackByAll(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][3]int{"by one": {0, 0, 0}, "by both": {0, 1, 0}, "by both, the other way": {0, 1, 1}, "by the other": {0, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			books := []*Book{p.a, p.b}
			for i, receipt := range []byte{1, 2, 1} {
				p.give(books[order[i]], fmt.Sprint(receipt), receipt)
				p.exchange()
			}
			restarted := NewBook(Config{Table: p.table})
			restarted.Exchange(t.Context(), p.at)
			books = append(books, restarted)
			for i, book := range books {
				p.at = p.at.Add(time.Second)
				wait := book.receive("x", "components", "c0", rcpt(1), p.at)
				require.Greater(t, wait, settle/2, i)
				require.LessOrEqual(t, wait, settle, i)
			}
			p.exchange()
			for _, book := range books {
				require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)))
			}
			p.at = p.at.Add(settle)
			p.receive(books[order[2]], 1)
			p.exchange()
			restarted.Exchange(t.Context(), p.at)
			for i, book := range books {
				require.Equal(t, Confirmed, book.state("x", p.at, asked("1", 1)), i)
			}
		})
	}
}

// TestAReceiptThatIsHeardOfLate, after another process gave the cluster something else, is of before, however much later the input
// is made again.
func TestAReceiptThatIsHeardOfLate(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.exchange()
	p.receive(p.a, 1)
	p.give(p.b, "2", 2)
	p.exchange()
	p.give(p.a, "2", 2)
	p.at = p.at.Add(2 * settle)
	p.give(p.a, "1", 1)
	p.exchange()
	for _, book := range []*Book{p.a, p.b} {
		require.NotEqual(t, Confirmed, book.state("x", p.at, asked("1", 1)))
	}
	p.receive(p.b, 1)
	p.exchange()
	for _, book := range []*Book{p.a, p.b} {
		require.Equal(t, Confirmed, book.state("x", p.at, asked("1", 1)))
	}
}

// TestAClusterThatIsMadeAgain: what the one before was given may go on sending receipts.
func TestAClusterThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.give(p.a, "1", 1)
	p.give(p.a, "2", 2)
	p.at = p.at.Add(time.Second)
	p.a.Begins("x", p.at)
	require.Equal(t, Never, p.a.Judge(Question{Cluster: "x", Asked: asked("1", 1), Now: p.at, OfflineAfter: OfflineAfter, Detail: true}).Lists[0].State)
	p.exchange()
	p.give(p.a, "1", 1)
	for _, receipt := range []byte{1, 2} {
		require.Positive(t, p.a.receive("x", "components", "c0", rcpt(receipt), p.at))
	}
	p.at = p.at.Add(settle)
	p.receive(p.a, 1)
	require.Equal(t, Confirmed, p.a.state("x", p.at, asked("1", 1)))
}

// TestARowOfTheFuture is taken for one of now: it can neither be told from what is to come nor shown.
func TestARowOfTheFuture(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for subject, body := range map[string]string{
		"seen": `{"agent":"x"}`, "poll/components": `{"etag":"1"}`, "receipt/components/c0": `{"input":"` + rcpt(1).String() + `"}`,
		"void/components/c1": `{"input":"` + rcpt(2).String() + `","again":true}`, "event/components/c2": `{"severity":"error","reason":"UpgradeFailed"}`,
	} {
		require.NoError(t, p.table.Put(t.Context(), []Row{{Cluster: "x", Subject: subject, Body: body, Said: noon.AddDate(9000, 0, 0)}}))
	}
	p.exchange()
	got := p.a.Judge(Question{Cluster: "x", Asked: asked("1", 1, 2, 3), Now: p.at, OfflineAfter: OfflineAfter, Detail: true})
	require.False(t, got.Seen.After(noon))
	for _, in := range got.Inputs {
		require.False(t, in.Since.After(noon), in)
	}
	p.at = p.at.Add(time.Second)
	p.a.receive("x", "components", "c1", rcpt(2), p.at)
	require.Equal(t, Confirmed, p.a.state("x", p.at, asked("1", 1, 2)))
}

// TestTwoGiveDifferentAnswers: one process has given the next answer and the other one the old one again, without having heard of
// that; both end up saying the same, and that the cluster has it when it says so.
func TestTwoGiveDifferentAnswers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a, b := p.a, p.b
	p.give(a, "1", 1)
	p.receive(a, 1)
	p.give(b, "1", 1)
	p.exchange()
	p.give(a, "2", 2)
	p.give(b, "1", 1) // it was taken back
	p.exchange()
	p.give(b, "1", 1)
	p.exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Delivered, book.state("x", p.at, asked("1", 1)), "it may have begun with the other one")
	}
	p.at = p.at.Add(settle)
	p.receive(a, 1)
	p.exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Confirmed, book.state("x", p.at, asked("1", 1)))
	}
}

// TestAnotherClusterOfThatID does not inherit what the one before said, whichever process heard it, and speaks for itself at once.
func TestAnotherClusterOfThatID(t *testing.T) {
	t.Parallel()
	table := newShared()
	a, b := NewBook(Config{Table: table}), NewBook(Config{Table: table})
	want, at := asked("1", 1), noon
	exchange := func() {
		for range 3 {
			a.Exchange(t.Context(), at)
			b.Exchange(t.Context(), at)
		}
	}
	a.Polled("x", "components", "1", "flux-operator/v1", at)
	a.receive("x", "components", "c0", rcpt(1), at)
	a.Happened("x", "", "HelmRelease/a/b", Event{Severity: "error", Message: "old", At: at}, at)
	exchange()
	at = at.Add(time.Minute)
	late := NewBook(Config{Table: table}) // reads it when there is another one already
	late.Polled("x", "components", "1", "flux-operator/v1", noon)
	late.Begins("x", at)
	late.Exchange(t.Context(), at)
	for _, book := range []*Book{a, b, late} {
		book.Begins("x", at)
		got := book.Judge(Question{Cluster: "x", Asked: want, Now: at, OfflineAfter: OfflineAfter, Detail: true})
		require.Equal(t, Never, got.State)
		require.Equal(t, Never, got.Lists[0].State)
		require.Empty(t, got.Events)
		require.Zero(t, got.Seen)
	}
	exchange()
	at = at.Add(time.Second)
	require.True(t, a.Polled("x", "components", "1", "flux-operator/v1", at), "the same answer is another one for it")
	exchange()
	require.Equal(t, Unknown, b.state("x", at, want), "it was given it, and has confirmed nothing")
	at = at.Add(settle)
	a.receive("x", "components", "c0", rcpt(1), at)
	exchange()
	for _, book := range []*Book{a, b} {
		require.Equal(t, Confirmed, book.state("x", at, want))
	}
}
