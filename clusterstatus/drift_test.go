package clusterstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDrift: a drift is known until Flux corrects it, the cluster applies another input, or nothing has reported it for a day. It is no
// failure, and neither hides one nor is hidden by one.
func TestDrift(t *testing.T) {
	t.Parallel()
	const second = 3 * time.Second // more than the resolution of events
	type step func(b *Tracker, now time.Time)
	event := func(n byte, severity, reason string) step {
		return func(b *Tracker, now time.Time) {
			b.RecordEvent("x", "components", "c0", Event{Input: rcpt(n).String(), Object: "HelmRelease/flux-system/platform-c0", Severity: severity, Reason: reason, At: now}, now)
		}
	}
	receipt := func(n byte) step {
		return func(b *Tracker, now time.Time) { b.confirm("x", "components", "c0", rcpt(n), now) }
	}
	object := func(b *Tracker, now time.Time) {
		b.RecordEvent("x", "", "HelmRelease/a/b", Event{Severity: "error", Reason: reasonDriftDetected, At: now}, now)
	}
	detected, corrected, failed := event(1, "error", reasonDriftDetected), event(1, "info", reasonDriftCorrected), event(1, "error", reasonDriftCorrectionFailed)
	for name, tc := range map[string]struct {
		steps []step
		after time.Duration
		want  string // the reason of the last report
		state State
	}{
		"none":                             {[]step{receipt(1)}, 0, "", Confirmed},
		"detected":                         {[]step{receipt(1), detected}, 0, reasonDriftDetected, Confirmed},
		"before the first receipt":         {[]step{detected, receipt(1)}, 0, reasonDriftDetected, Confirmed},
		"corrected":                        {[]step{receipt(1), detected, corrected}, 0, reasonDriftCorrected, Confirmed},
		"correction failed":                {[]step{receipt(1), detected, failed}, 0, reasonDriftCorrectionFailed, Confirmed},
		"drifts again":                     {[]step{receipt(1), detected, corrected, detected}, 0, reasonDriftDetected, Confirmed},
		"a repeated receipt corrects none": {[]step{receipt(1), detected, receipt(1)}, 0, reasonDriftDetected, Confirmed},
		"another input was applied since":  {[]step{receipt(1), detected, receipt(2)}, 0, "", Delivered},
		"the failure before stays":         {[]step{receipt(1), event(1, "error", "UpgradeFailed"), detected}, 0, reasonDriftDetected, Failed},
		"the success before stays":         {[]step{receipt(1), event(1, "error", "UpgradeFailed"), event(1, "info", "UpgradeSucceeded"), detected}, 0, reasonDriftDetected, Confirmed},
		"a failure does not hide it":       {[]step{receipt(1), detected, event(1, "error", "UpgradeFailed")}, 0, reasonDriftDetected, Failed},
		"within a day":                     {[]step{receipt(1), detected}, driftLifetime - time.Minute, reasonDriftDetected, ""},
		"not reported for more than a day": {[]step{receipt(1), detected}, driftLifetime + time.Minute, "", ""},
		"an object that is of no input":    {[]step{receipt(1), object}, 0, "", Confirmed},
		"without the receipt of an old chart": {[]step{receipt(1), func(b *Tracker, now time.Time) {
			b.RecordEvent("x", "components", "c0", Event{Severity: "error", Reason: reasonDriftDetected, At: now}, now)
		}, receipt(1)}, 0, reasonDriftDetected, Confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newFakeStore()
			a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
			now := noon
			a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
			for _, s := range tc.steps {
				now = now.Add(second)
				s(a, now)
			}
			now = now.Add(second + tc.after)
			a.Sync(t.Context(), now)
			b.Sync(t.Context(), now)
			for _, tracker := range []*Tracker{a, b} { // also as another process knows it
				status := tracker.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1), Now: now, OfflineAfter: OfflineAfter})
				drifts := tracker.Drifts(Query{Cluster: "x", Now: now, OfflineAfter: OfflineAfter})
				require.Equal(t, drifts, status.Drifts)
				if tc.want == "" {
					require.Empty(t, drifts)
				} else {
					require.Len(t, drifts, 1)
					require.Equal(t, []string{"components", "c0", tc.want}, []string{drifts[0].List, drifts[0].ID, drifts[0].Reason})
				}
			}
			if tc.state != "" {
				require.Equal(t, tc.state, a.stateOf("x", now, desiredLists("1", 1)))
			}
		})
	}
}

// TestDriftKeepsFailures: however much drift a cluster reports, and however often, its failures are kept, and so are the limits.
func TestDriftKeepsFailures(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{"many": "x", "long": strings.Repeat("x", MaxMessage)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newFakeStore()
			a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
			now := noon
			a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "1"}, now)
			report := func(id, reason string) {
				now = now.Add(5 * time.Second)
				a.RecordEvent("x", "components", id, Event{Input: rcpt(1).String(), Severity: "error", Reason: reason, Message: message, At: now}, now)
			}
			report("c0", "UpgradeFailed")
			for range 3 {
				for i := range 2 * maxEvents {
					report(fmt.Sprint("c", i), reasonDriftDetected)
				}
				a.Sync(t.Context(), now)
				b.Sync(t.Context(), now)
				for _, tracker := range []*Tracker{a, b} {
					require.Equal(t, Failed, tracker.stateOf("x", now, desiredLists("1", 1)))
					require.NotEmpty(t, tracker.Drifts(Query{Cluster: "x", Now: now, OfflineAfter: OfflineAfter}))
					require.LessOrEqual(t, len(tracker.cluster("x").events), maxEvents)
					require.LessOrEqual(t, tracker.cluster("x").eventBytes, maxEventBytes)
				}
			}
			for i := range 2 * maxEvents {
				report(fmt.Sprint("c", i), "UpgradeFailed")
			}
			report("c0", reasonDriftDetected)
			require.Empty(t, a.Drifts(Query{Cluster: "x", Now: now, OfflineAfter: OfflineAfter}), "no room beside failures")
		})
	}
}
