package clusterstatus

import (
	"math"
	"math/rand/v2"
	"slices"
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
		return func(b *Tracker, now time.Time) {
			b.RecordPoll(Poll{Cluster: "x", List: "components", ETag: etag, Agent: "flux-operator/v1"}, now)
		}
	}
	give := func(etag string, receipts ...byte) step {
		return func(b *Tracker, now time.Time) {
			if b.RecordPoll(Poll{Cluster: "x", List: "components", ETag: etag, Agent: "flux-operator/v1"}, now) {
				b.RecordServed("x", desiredLists(etag, receipts...)[0], now)
			}
		}
	}
	// late dates an event before the step before, by a cluster clock of whole seconds.
	late := func(s step) step {
		return func(b *Tracker, now time.Time) { s(b, now.Add(-900*time.Millisecond)) }
	}
	// settled delays a step until the cluster has applied its last list.
	settled := func(s step) step {
		return func(b *Tracker, now time.Time) { s(b, now.Add(settleTime)) }
	}
	receipt := func(n byte) step {
		return func(b *Tracker, now time.Time) { b.receive("x", "components", "c0", rcpt(n), now) }
	}
	// other confirms an input of another list.
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
		want  []fleet.DesiredInputs
		state State
	}{
		"never polled":                                             {nil, 0, desiredLists("1", 1), Never},
		"no receipts ever":                                         {[]step{poll("1")}, 0, desiredLists("1", 1), Unknown},
		"delivered":                                                {[]step{other, poll("1")}, 0, desiredLists("1", 1), Delivered},
		"progressing":                                              {[]step{other, poll("1")}, 0, desiredLists("2", 1), Progressing},
		"behind, with the assumed interval":                        {[]step{other, poll("1")}, 8 * time.Minute, desiredLists("2", 1), Behind},
		"behind, by its own interval":                              {[]step{other, poll("1"), poll("1")}, 100 * time.Second, desiredLists("2", 1), Behind},
		"confirmed":                                                {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1), Confirmed},
		"confirmed, and the list changed":                          {[]step{poll("1"), receipt(1)}, 0, desiredLists("2", 1), Progressing},
		"a receipt of an older input":                              {[]step{poll("2"), receipt(1)}, 0, desiredLists("2", 2), Delivered},
		"a receipt of a newer input":                               {[]step{poll("1"), receipt(2)}, 0, desiredLists("1", 1), Delivered},
		"failed":                                                   {[]step{other, poll("1"), failure(1)}, 0, desiredLists("1", 1), Failed},
		"failed, no receipts ever":                                 {[]step{poll("1"), failure(1)}, 0, desiredLists("1", 1), Failed},
		"failed at an older input":                                 {[]step{other, poll("2"), failure(1)}, 0, desiredLists("2", 2), Delivered},
		"failed after it was confirmed":                            {[]step{poll("1"), receipt(1), failure(1)}, 0, desiredLists("1", 1), Failed},
		"confirmed after it failed":                                {[]step{poll("1"), failure(1), receipt(1)}, 0, desiredLists("1", 1), Confirmed},
		"progress does not clear a failure":                        {[]step{other, poll("1"), failure(1), event(1, "info", "Progressing")}, 0, desiredLists("1", 1), Failed},
		"a rollback does not clear a failure":                      {[]step{other, poll("1"), failure(1), event(1, "info", "RollbackSucceeded")}, 0, desiredLists("1", 1), Failed},
		"success clears a failure, without confirming":             {[]step{other, poll("1"), failure(1), event(1, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Delivered},
		"success of another input":                                 {[]step{other, poll("1"), failure(1), event(2, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Failed},
		"failed right after the receipt":                           {[]step{poll("1"), receipt(1), late(failure(1))}, 0, desiredLists("1", 1), Failed},
		"another input invalidates the receipt":                    {[]step{give("1", 1), receipt(1), give("2", 2)}, 0, desiredLists("1", 1), Progressing},
		"previous input served again":                              {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"previous input served again, later receipt":               {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1), settled(receipt(1))}, 0, desiredLists("1", 1), Confirmed},
		"late receipt of a removed input":                          {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1)}, 0, desiredLists("1", 1), Progressing},
		"late receipt, previous input served again":                {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"late receipt, previous input served again, later receipt": {[]step{give("1", 1), receipt(1), give("2", 2), receipt(1), give("1", 1), settled(receipt(1))}, 0, desiredLists("1", 1), Confirmed},
		"previous input served a third time":                       {[]step{give("1", 1), receipt(1), give("2", 2), give("1", 1), settled(receipt(1)), settled(give("2", 2)), settled(receipt(1)), settled(give("1", 1))}, 0, desiredLists("1", 1), Delivered},
		"early receipt":                                            {[]step{give("1", 1), give("2", 2), give("1", 1), receipt(1)}, 0, desiredLists("1", 1), Unknown},
		"receipt of a new input counts at once":                    {[]step{give("1", 1), give("2", 2), receipt(2)}, 0, desiredLists("2", 2), Confirmed},
		"removed input served again":                               {[]step{give("1", 1, 2), receipt(1), give("2"), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"disabled input enabled again":                             {[]step{give("1", 1), receipt(1), give("2", 0), give("1", 1)}, 0, desiredLists("1", 1), Delivered},
		"other inputs stay confirmed":                              {[]step{give("1", 1, 2), receipt(1), give("2", 1, 3)}, 0, desiredLists("2", 1), Confirmed},
		"success without a receipt":                                {[]step{other, poll("1"), event(1, "info", "UpgradeSucceeded")}, 0, desiredLists("1", 1), Delivered},
		"the worst input counts":                                   {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1, 2), Delivered},
		"disabled inputs do not count":                             {[]step{poll("1"), receipt(1)}, 0, desiredLists("1", 1, 0), Confirmed},
		"no inputs":                                                {[]step{poll("1")}, 0, desiredLists("1"), Delivered},
		"no inputs, and the list changed":                          {[]step{poll("1")}, 0, desiredLists("2"), Progressing},
		"offline":                                                  {[]step{poll("1"), receipt(1)}, 61 * time.Minute, desiredLists("1", 1), Unknown},
		"silent, by its own interval":                              {[]step{poll("1"), poll("1"), receipt(1)}, 4 * time.Minute, desiredLists("1", 1), Silent},
		"not silent yet":                                           {[]step{poll("1"), poll("1"), receipt(1)}, 2 * time.Minute, desiredLists("1", 1), Confirmed},
		"a receipt before the input was served":                    {[]step{give("1", 2), receipt(1), give("2", 1)}, 0, desiredLists("2", 1), Unknown},
		"receipts without polls":                                   {[]step{receipt(1)}, 0, desiredLists("1", 1), Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker, now := NewTracker(Config{}), noon
			for _, s := range c.steps {
				s(tracker, now)
				now = now.Add(second)
			}
			require.Equal(t, c.state, tracker.stateOf("x", now.Add(c.after), c.want))
		})
	}
}

// TestSilentByOwnInterval: a cluster that polls every ten minutes is not silent after twenty.
func TestSilentByOwnInterval(t *testing.T) {
	t.Parallel()
	tracker, now := NewTracker(Config{}), noon
	for range 5 {
		now = now.Add(10 * time.Minute)
		tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
		tracker.RecordPoll(Poll{Cluster: "x", List: "namespaces", ETag: "1"}, now.Add(time.Second))
	}
	tracker.receive("x", "components", "c0", rcpt(1), now)
	require.Equal(t, Confirmed, tracker.stateOf("x", now.Add(20*time.Minute), desiredLists("1", 1)))
	require.Equal(t, Silent, tracker.stateOf("x", now.Add(31*time.Minute), desiredLists("1", 1)))
}

// TestShortGapsBetweenPolls: a few polls that came early, such as after manual reconciliations, do not make the next one overdue
// early; shorter gaps that stay do.
func TestShortGapsBetweenPolls(t *testing.T) {
	t.Parallel()
	const usual = 10 * time.Minute
	for name, tc := range map[string]struct {
		gaps    []time.Duration
		overdue time.Duration // after the last poll
	}{
		"one, among steady ones":         {[]time.Duration{usual, usual, usual, usual, 5 * time.Second}, 15 * time.Minute},
		"one, early":                     {[]time.Duration{usual, 5 * time.Second}, 15 * time.Minute},
		"one, at first":                  {[]time.Duration{5 * time.Second, usual, usual}, 15 * time.Minute},
		"two in a row":                   {[]time.Duration{usual, usual, usual, usual, usual, usual, 5 * time.Second, 5 * time.Second}, 15 * time.Minute},
		"an outage":                      {[]time.Duration{usual, usual, usual, 8 * time.Hour}, 15 * time.Minute},
		"every other one, two processes": {[]time.Duration{2 * usual, usual, 2 * usual, usual, 2 * usual, usual, 2 * usual, usual}, 15 * time.Minute},
		"from now on": {
			[]time.Duration{usual, usual, usual, usual, usual, usual, usual, usual, time.Minute, time.Minute, time.Minute, time.Minute}, 2 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker, now := NewTracker(Config{}), noon
			tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
			for _, gap := range tc.gaps {
				now = now.Add(gap)
				tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
			}
			tracker.receive("x", "components", "c0", rcpt(1), now)
			require.Equal(t, Progressing, tracker.stateOf("x", now.Add(tc.overdue-time.Second), desiredLists("2", 2)))
			require.Equal(t, Behind, tracker.stateOf("x", now.Add(tc.overdue+time.Minute), desiredLists("2", 2)))
		})
	}
}

// TestNoReceiptConfirmsNothing: the zero receipt does not confirm a disabled input, which has none.
func TestNoReceiptConfirmsNothing(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, noon)
	tracker.receive("x", "components", "c0", fleet.Receipt{}, noon)
	want := desiredLists("1", 1)
	want[0].Receipts = nil // as for a list that is too long
	require.Equal(t, Unknown, tracker.stateOf("x", noon, want))
}

// TestSuccessClearsFailure: a Kustomization that applies its previous content again does not clear the failure of its source,
// although its event names the new input.
func TestSuccessClearsFailure(t *testing.T) {
	t.Parallel()
	tracker, now := NewTracker(Config{}), noon
	tell := func(object, severity, reason string) State {
		now = now.Add(3 * time.Second)
		tracker.RecordEvent("x", "components", "c0", Event{Input: rcpt(1).String(), Object: object, Severity: severity, Reason: reason, At: now}, now)
		return tracker.stateOf("x", now, desiredLists("1", 1))
	}
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
	tracker.receive("x", "components", "other", rcpt(9), now)
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

// TestBehindWhenPollOverdue: during a routine change, clusters that poll on schedule are progressing. A cluster is behind when
// its poll is overdue by its own interval, and when it goes on polling other lists and leaves out this one.
func TestBehindWhenPollOverdue(t *testing.T) {
	t.Parallel()
	tracker, now := NewTracker(Config{}), noon
	poll := func(lists ...string) {
		for _, list := range lists {
			tracker.RecordPoll(Poll{Cluster: "x", List: list, ETag: "1"}, now)
		}
	}
	at := func(d time.Duration) State { return tracker.stateOf("x", now.Add(d), desiredLists("2", 1)) }
	for range 4 {
		now = now.Add(10 * time.Minute)
		poll("components", "namespaces")
	}
	tracker.receive("x", "components", "c0", rcpt(9), now)
	require.Equal(t, Progressing, at(time.Second))
	require.Equal(t, Progressing, at(14*time.Minute), "half an interval more than its own ten minutes")
	require.Equal(t, Behind, at(16*time.Minute))

	now = now.Add(10 * time.Minute)
	poll("namespaces")
	require.Equal(t, Progressing, at(time.Second), "the list was found changed 10 min ago")
	now = now.Add(10 * time.Minute)
	poll("namespaces")
	require.Equal(t, Behind, at(time.Second), "other lists are polled, and this one is not")
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "3"}, now)
	require.Equal(t, Progressing, at(time.Second), "it was served another list, which changed again")
}

// TestRemovalNeedsPoll: inputs that were removed from a list are gone once the cluster has polled the list without them. Polls
// of other lists do not prove this, and neither does a list without known polls, such as after a loss of the status.
func TestRemovalNeedsPoll(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	removed := func(list string) State {
		return tracker.Evaluate(Query{
			Cluster: "x", Desired: desiredLists("2", 1), Now: noon, OfflineAfter: OfflineAfter,
			IncludeInput: func(string, string) bool { return false }, IncludeList: func(l string) bool { return l == list },
		}).State
	}
	tracker.RecordPoll(Poll{Cluster: "x", List: "namespaces", ETag: "1"}, noon)
	require.Equal(t, Behind, removed("components"))
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, noon)
	require.Equal(t, Progressing, removed("components"))
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "2"}, noon)
	require.Equal(t, Delivered, removed("components"))
}

func TestSmallest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		values := make([]uint32, 3+r.IntN(6))
		for i := range values {
			values[i] = math.MaxUint32 - r.Uint32N(5)
		}
		for i := range 3 {
			require.Equal(t, slices.Sorted(slices.Values(values))[i], smallest(values, i), values)
		}
	}
}
