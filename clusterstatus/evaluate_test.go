package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

func TestStates(t *testing.T) {
	t.Parallel()
	const second = time.Second
	type step func(b *Tracker, now time.Time)
	poll := func(etag string) step {
		return func(b *Tracker, now time.Time) { b.RecordPoll("x", "components", etag, "flux-operator/v1", now) }
	}
	give := func(etag string, receipts ...byte) step {
		return func(b *Tracker, now time.Time) {
			if b.RecordPoll("x", "components", etag, "flux-operator/v1", now) {
				b.RecordServed("x", desiredLists(etag, receipts...)[0], now)
			}
		}
	}
	// late is what happened, by the cluster's clock of whole seconds, before what arrived just before.
	late := func(s step) step {
		return func(b *Tracker, now time.Time) { s(b, now.Add(-900*time.Millisecond)) }
	}
	// settled is what happens when the cluster had time to become what it was asked to be.
	settled := func(s step) step {
		return func(b *Tracker, now time.Time) { s(b, now.Add(settleTime)) }
	}
	receipt := func(n byte) step {
		return func(b *Tracker, now time.Time) { b.receive("x", "components", "c0", rcpt(n), now) }
	}
	// other has the cluster confirm something in another list.
	other := func(b *Tracker, now time.Time) { b.confirm("x", "namespaces", "n0", rcpt(9), now) }
	event := func(n byte, severity, reason string) step {
		return func(b *Tracker, now time.Time) {
			b.RecordEvent("x", "components", "c0", Event{Input: rcpt(n).String(), Severity: severity, Reason: reason, At: now}, now)
		}
	}
	failure := func(n byte) step { return event(n, "error", "UpgradeFailed") }
	cases := map[string]struct {
		steps []step // a second apart
		after time.Duration
		want  []fleet.Asked
		state State
	}{
		"never polled":                                {nil, 0, desiredLists("1", 1), Never},
		"no receipts ever":                            {[]step{poll("1")}, 0, desiredLists("1", 1), Unknown},
		"delivered":                                   {[]step{other, poll("1")}, 0, desiredLists("1", 1), Delivered},
		"progressing":                                 {[]step{other, poll("1")}, 0, desiredLists("2", 1), Progressing},
		"behind, with the assumed interval":           {[]step{other, poll("1")}, 8 * time.Minute, desiredLists("2", 1), Behind},
		"behind, by its own interval":                 {[]step{other, poll("1"), poll("1")}, 100 * time.Second, desiredLists("2", 1), Behind},
		"confirmed":                                   {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1), Confirmed},
		"confirmed, but for what is gone":             {[]step{poll("1"), receipt(1)}, 0, desiredLists("2", 1), Progressing},
		"a receipt of an older input":                 {[]step{poll("2"), receipt(1)}, 0, desiredLists("2", 2), Delivered},
		"a receipt of a newer input":                  {[]step{poll("1"), receipt(2)}, 0, desiredLists("1", 1), Delivered},
		"failed":                                      {[]step{other, poll("1"), failure(1)}, 0, desiredLists("1", 1), Failed},
		"failed, where there are no receipts":         {[]step{poll("1"), failure(1)}, 0, desiredLists("1", 1), Failed},
		"failed at an older input":                    {[]step{other, poll("2"), failure(1)}, 0, desiredLists("2", 2), Delivered},
		"failed after it was confirmed":               {[]step{poll("1"), receipt(1), failure(1)}, 0, desiredLists("1", 1), Failed},
		"confirmed after it failed":                   {[]step{poll("1"), failure(1), receipt(1)}, 0, desiredLists("1", 1), Confirmed},
		"going on is no success":                      {[]step{other, poll("1"), failure(1), event(1, "info", "Progressing")}, 0, desiredLists("1", 1), Failed},
		"nor is rolling back":                         {[]step{other, poll("1"), failure(1), event(1, "info", "RollbackSucceeded")}, 0, desiredLists("1", 1), Failed},
		"success takes it back, and confirms nothing": {[]step{other, poll("1"), failure(1), event(1, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Delivered},
		"success of another input takes nothing back": {[]step{other, poll("1"), failure(1), event(2, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Failed},
		"failed as soon as it was confirmed":          {[]step{poll("1"), receipt(1), late(failure(1))}, 0, desiredLists("1", 1), Failed},
		"going on to another input voids the receipt": {[]step{give("1", 1), receipt(1), give("2", 2)}, 0, desiredLists("1", 1), Progressing},
		"and coming back to it is not confirmed":      {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"until it says so again, when it has settled": {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1), settled(receipt(1))}, 0, desiredLists("1", 1), Confirmed},
		"saying it late does not help":                {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1)}, 0, desiredLists("1", 1), Progressing},
		"nor when it is asked for again":              {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"but then it does":                            {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1), give("1", 1), settled(receipt(1))}, 0, desiredLists("1", 1), Confirmed},
		"also the third time":                         {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1), settled(receipt(1)), settled(give("2", 2)), settled(receipt(1)), settled(give("1", 1))}, 0, desiredLists("1", 1), Delivered},
		"its own of before came too late":             {[]step{give("1", 1), give("2", 2), give("1", 1), receipt(1)}, 0, desiredLists("1", 1), Unknown},
		"what was new in between counts at once":      {[]step{give("1", 1), give("2", 2), receipt(2)}, 0, desiredLists("2", 2), Confirmed},
		"what was taken off has to be confirmed anew": {[]step{give("1", 1, 2), receipt(1), give("2"), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"what was switched off, too":                  {[]step{give("1", 1), receipt(1), give("2", 0), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"other inputs of the list stay confirmed":     {[]step{give("1", 1, 2), receipt(1), give("2", 1, 3)}, 0, desiredLists("2", 1), Confirmed},
		"a success confirms nothing":                  {[]step{other, poll("1"), event(1, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Delivered},
		"the worst of its inputs":                     {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1, 2), Delivered},
		"what is off sends nothing":                   {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1, 0), Confirmed},
		"nothing at all":                              {[]step{poll("1")}, 0, desiredLists("1"), Delivered},
		"nothing any more":                            {[]step{poll("1")}, 0, desiredLists("2"), Progressing},
		"not seen for long":                           {[]step{poll("1"), receipt(1)}, 61 * time.Minute, desiredLists("1", 1), Unknown},
		"silent, by its own measure":                  {[]step{poll("1"), poll("1"), receipt(1)}, 4 * time.Minute, desiredLists("1", 1), Silent},
		"not silent yet":                              {[]step{poll("1"), poll("1"), receipt(1)}, 2 * time.Minute, desiredLists("1", 1), Confirmed},
		"a receipt before the input was served":       {[]step{give("1", 2), receipt(1), give("2", 1)}, 0, desiredLists("2", 1), Unknown},
		"receipts without polls":                      {[]step{receipt(1)}, 0, desiredLists("1", 1), Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book, now := NewTracker(Config{}), noon
			for _, s := range c.steps {
				s(book, now)
				now = now.Add(second)
			}
			require.Equal(t, c.state, book.stateOf("x", now.Add(c.after), c.want))
		})
	}
}

// A cluster that polls each ten minutes is not silent after an hour's third.
func TestSilentByOwnInterval(t *testing.T) {
	t.Parallel()
	book, now := NewTracker(Config{}), noon
	for range 5 {
		now = now.Add(10 * time.Minute)
		book.RecordPoll("x", "components", "1", "", now)
		book.RecordPoll("x", "namespaces", "1", "", now.Add(time.Second))
	}
	book.receive("x", "components", "c0", rcpt(1), now)
	require.Equal(t, Confirmed, book.stateOf("x", now.Add(20*time.Minute), desiredLists("1", 1)))
	require.Equal(t, Silent, book.stateOf("x", now.Add(31*time.Minute), desiredLists("1", 1)))
}

// A disabled input without a receipt in the answer is not confirmed by a receipt of nothing.
func TestNoReceiptConfirmsNothing(t *testing.T) {
	t.Parallel()
	book := NewTracker(Config{})
	book.RecordPoll("x", "components", "1", "", noon)
	book.receive("x", "components", "c0", fleet.Receipt{}, noon)
	want := desiredLists("1", 1)
	want[0].Receipts = nil // the list is too long for them
	require.Equal(t, Unknown, book.stateOf("x", noon, want))
}

// A source that fails is not mended by a Kustomization that goes on applying what it had, though that says the new input.
func TestSuccessClearsFailure(t *testing.T) {
	t.Parallel()
	book, now := NewTracker(Config{}), noon
	tell := func(object, severity, reason string) State {
		now = now.Add(3 * time.Second)
		book.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Object: object, Severity: severity, Reason: reason, At: now}, now)
		return book.stateOf("x", now, desiredLists("1", 1))
	}
	book.RecordPoll("x", "components", "1", "", now)
	book.receive("x", "components", "other", rcpt(9), now)
	require.Equal(t, Failed, tell("OCIRepository/flux-system/charts-c0", "error", "OCIArtifactPullFailed"))
	require.Equal(t, Failed, tell("Kustomization/flux-system/platform-c0", "info", "ReconciliationSucceeded"))
	require.Equal(t, Delivered, tell("OCIRepository/flux-system/charts-c0", "info", "NewArtifact"))
	require.Equal(t, Failed, tell("Kustomization/flux-system/platform-c0", "error", "BuildFailed"))
	require.Equal(t, Failed, tell("OCIRepository/flux-system/charts-c0", "info", "NewArtifact"))
	require.Equal(t, Delivered, tell("Kustomization/flux-system/platform-c0", "info", "ReconciliationSucceeded"))
}

func TestStateOrder(t *testing.T) {
	t.Parallel()
	for i, state := range states {
		require.Equal(t, i, state.rank(), state)
	}
}

// During a routine change, clusters that poll on schedule are progressing. A cluster is behind when its poll is overdue by its own
// interval, and when it goes on polling other lists and leaves out this one.
func TestBehindWhenPollOverdue(t *testing.T) {
	t.Parallel()
	book, now := NewTracker(Config{}), noon
	poll := func(lists ...string) {
		for _, list := range lists {
			book.RecordPoll("x", list, "1", "", now)
		}
	}
	at := func(d time.Duration) State { return book.stateOf("x", now.Add(d), desiredLists("2", 1)) }
	for range 4 {
		now = now.Add(10 * time.Minute)
		poll("components", "namespaces")
	}
	book.receive("x", "components", "c0", rcpt(9), now)
	require.Equal(t, Progressing, at(time.Second))
	require.Equal(t, Progressing, at(14*time.Minute), "half an interval more than its own ten minutes")
	require.Equal(t, Behind, at(16*time.Minute))

	now = now.Add(10 * time.Minute)
	poll("namespaces")
	require.Equal(t, Progressing, at(time.Second), "the list was found changed 10 min ago")
	now = now.Add(10 * time.Minute)
	poll("namespaces")
	require.Equal(t, Behind, at(time.Second), "other lists are polled, and this one is not")
	book.RecordPoll("x", "components", "3", "", now)
	require.Equal(t, Progressing, at(time.Second), "it was served another list, which changed again")
}
