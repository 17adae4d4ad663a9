package clusterstatus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// revisions are desired lists of one cluster, with random changes from each to the next.
type revisions struct {
	*rand.Rand
	lists []desiredList
	n     int
}

type desiredList struct {
	name       string
	inputs     []fleet.Receipt // in the order of their ids; the first byte is 0 for a disabled input
	noReceipts bool
}

func (r *revisions) upTo(most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

func (r *revisions) change() {
	r.n++
	l := &r.lists[r.IntN(len(r.lists))]
	switch r.IntN(6) {
	case 0: // of no input
	case 1:
		l.inputs = append(slices.Clone(l.inputs), rcpt(byte(r.IntN(3))))
	case 2:
		l.inputs = slices.Clone(l.inputs[:len(l.inputs)/2])
	case 3:
		l.noReceipts = !l.noReceipts
	default:
		l.inputs = slices.Clone(l.inputs)
		for i := range l.inputs {
			l.inputs[i] = rcpt(byte(r.IntN(3)))
		}
	}
}

// desired returns the lists of the current revision.
func (r *revisions) desired() (out []fleet.DesiredInputs) {
	for _, l := range r.lists {
		inputs := l.inputs
		d := fleet.DesiredInputs{List: l.name, ETag: fmt.Sprint(inputs), Receipts: inputs, NoReceipts: l.noReceipts, Inputs: func(yield func(string, bool) bool) {
			for i, receipt := range inputs {
				if !yield(fmt.Sprint("c", i), receipt[0] != 0) {
					return
				}
			}
		}}
		out = append(out, d)
	}
	return out
}

// TestClassesAreCurrent: over random polls, receipts, events, rows of another process, changes and times, an evaluation that uses the
// classes of an earlier one equals an evaluation from the observations.
func TestClassesAreCurrent(t *testing.T) {
	t.Parallel()
	used := 0
	for seed := range uint64(60) {
		r := &revisions{Rand: rand.New(rand.NewPCG(seed, 2)), lists: []desiredList{{name: "components"}, {name: "namespaces"}}}
		store := newFakeStore()
		trackers := []*Tracker{NewTracker(Config{Store: store}), NewTracker(Config{Store: store})}
		now, created := noon, noon.Add(-time.Hour)
		var earlier []fleet.DesiredInputs
		for step := range 1500 {
			tracker := trackers[r.IntN(10)/9] // mostly the first
			lists := r.desired()
			if len(earlier) > 0 && r.IntN(8) == 0 {
				lists = earlier
			}
			list := lists[r.IntN(len(lists))]
			id, input := fmt.Sprint("c", r.IntN(4)), rcpt(byte(r.IntN(3)))
			now = now.Add(time.Duration(r.IntN(9000)) * time.Millisecond)
			switch r.IntN(16) {
			case 0, 1, 2:
				if tracker.RecordPoll(Poll{Cluster: "x", List: list.List, ETag: list.ETag, Agent: "flux-operator/v1"}, now) && r.IntN(9) > 0 {
					tracker.RecordServed("x", list, now)
				}
			case 3, 4, 5:
				if !tracker.RecordRepeatedReceipt("x", list.List, id, input, now) {
					tracker.RecordReceipt("x", list, id, input, now)
				}
			case 6, 7:
				of, severity := list.List, []string{"error", "info"}[r.IntN(2)]
				tracker.RecordEvent("x", of, id, Event{Input: input.String(), Severity: severity, Reason: successReasons[0], At: now.Add(-r.upTo(time.Minute))}, now)
			case 8:
				tracker.RecordPoll(Poll{Cluster: "x", List: list.List, ETag: list.ETag, Revision: int64(step), Shared: true, Uncounted: true}, now)
			case 9:
				if r.IntN(20) == 0 {
					created = now.Add(-r.upTo(time.Minute))
				}
			case 10:
				now = now.Add(r.upTo(20 * time.Minute))
			case 11:
				earlier = r.desired()
				r.change()
			case 12, 13:
				for _, tracker := range trackers {
					tracker.Sync(t.Context(), now)
				}
			case 14:
				if r.IntN(50) == 0 {
					tracker.Forget(func(string) bool { return true })
				}
			default: // nothing changes but the time
			}
			for _, tracker := range trackers {
				if r.IntN(3) == 0 {
					used += requireCurrent(t, tracker, r, Query{Cluster: "x", CreatedAt: created, Now: now, OfflineAfter: OfflineAfter}, fmt.Sprintf("seed %d, step %d", seed, step))
				}
			}
		}
	}
	require.Greater(t, used, 10_000, "evaluations used earlier classes")
}

// requireCurrent compares an evaluation with one that cannot use earlier classes, and returns 1 if it used some.
func requireCurrent(t *testing.T, tracker *Tracker, r *revisions, q Query, step string) (used int) {
	t.Helper()
	type input struct {
		list    string
		enabled bool
		state   State
	}
	var got, want []input
	q.DesiredVersion, q.EachInput = r.n, func(list string, enabled bool, state State) { got = append(got, input{list, enabled, state}) }
	c := tracker.cluster("x")
	polls := slices.Clone(c.polls) // an evaluation records since when a list is outdated
	status, ok := tracker.EvaluateClassified(q)
	if ok {
		used = 1
	} else {
		before := c.classified
		q.Desired = r.desired()
		if status = tracker.Evaluate(q); before != nil && c.classified == before {
			used = 1
		}
	}
	for i := range polls {
		c.polls[i].outdatedSince = polls[i].outdatedSince
	}
	q.Desired, q.DesiredVersion, q.EachInput = r.desired(), nil, func(list string, enabled bool, state State) { want = append(want, input{list, enabled, state}) }
	require.Equal(t, tracker.Evaluate(q), status, step)
	require.Equal(t, want, got, step)

	q.EachInput, q.Details = nil, true
	detailed := tracker.Evaluate(q)
	require.Equal(t, detailed.Counts, status.Counts, step)
	require.Equal(t, detailed.State, status.State, step)
	require.Equal(t, detailed.Failures, status.Failures, step)
	return used
}
