package clusterstatus

import (
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// State is the status of an input on a cluster, or of a cluster as a whole. No state means healthy: a cluster that has applied
// an input need not go on running it.
type State string

// The states, the best first.
const (
	// Confirmed: the cluster sent, with its own credential, a receipt that it has applied exactly this input and found it
	// ready, once.
	Confirmed State = "confirmed"
	// Delivered: the cluster was served the input, and has sent no receipt or event for it yet.
	Delivered State = "delivered"
	// Progressing: the list changed, and the cluster's next poll is not overdue yet.
	Progressing State = "progressing"
	// Behind: the list changed, and the cluster's next poll is overdue by its own interval.
	Behind State = "behind"
	// Unknown: the cluster sends no receipts, or has not polled for too long.
	Unknown State = "unknown"
	// Failed: the cluster sent an event that it failed at exactly this input, and neither a receipt nor a success since.
	Failed State = "failed"
	// Silent: the cluster has missed several polls, by its own interval. Only clusters have this state.
	Silent State = "silent"
	// Never: the cluster has never polled. Only clusters have this state.
	Never State = "never"
	// Superseded: later revisions changed all inputs of the cluster that a revision changed. Only the progress of a revision
	// has this state, so it is not one of States.
	Superseded State = "superseded"
)

var states = []State{Confirmed, Delivered, Progressing, Behind, Unknown, Failed, Silent, Never}

// States returns all states of clusters and inputs, the best first.
func States() []State { return slices.Clone(states) }

// ClustersOnly reports whether a cluster can have this state and an input cannot.
func (s State) ClustersOnly() bool { return s == Silent || s == Never }

// rank returns the index of a state in states; that of Superseded follows.
func (s State) rank() int {
	switch s { //nolint:exhaustive // Superseded is no state of a cluster
	case Confirmed:
		return 0
	case Delivered:
		return 1
	case Progressing:
		return 2
	case Behind:
		return 3
	case Unknown:
		return 4
	case Failed:
		return 5
	case Silent:
		return 6
	case Never:
		return 7
	}
	return len(states)
}

// StateCounts are numbers of inputs by state. It is an array, because a list of all clusters has one for each.
type StateCounts [9]int32

// Set sets the number of inputs in a state.
func (n *StateCounts) Set(s State, inputs int) { n[s.rank()] = int32(inputs) }

// Each yields the states with inputs, the best first; Superseded is last.
func (n *StateCounts) Each(yield func(State, int) bool) {
	for rank, inputs := range n {
		state := Superseded
		if rank < len(states) {
			state = states[rank]
		}
		if inputs > 0 && !yield(state, int(inputs)) {
			return
		}
	}
}

func worse(a, b State) State {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// InputStatus is the status of one input.
type InputStatus struct {
	List, ID string
	Enabled  bool
	Receipt  fleet.Receipt // of the desired input; zero when it has none
	State    State
	Since    time.Time // when the cluster confirmed it, failed at it, or was served it; zero when it did not
	Failure  *Event    // the last failure at this input; nil: none, or it is over
	// ByDelivery: it is Confirmed because the cluster was served it, and its resource type makes no receipts.
	ByDelivery bool
}

// ListStatus is the status of one list.
type ListStatus struct {
	List  string
	State State     // Delivered, Progressing, Behind, or Never
	Since time.Time // when the last answer was first served
}

// pendingState returns the state of an input of a list that changed and was not served again yet.
func (l ListStatus) pendingState() State {
	if l.State == Progressing {
		return Progressing
	}
	return Behind
}

// Status is the status of a cluster.
type Status struct {
	State    State
	LastSeen time.Time // its last poll; zero: never
	Offline  bool      // it has not polled for Query.OfflineAfter
	Agent    string
	// SharedTokenAt is its last poll with a token that other clusters may use too; zero: never.
	SharedTokenAt time.Time
	Interval      time.Duration // between two polls of a list; 0: not known
	Counts        StateCounts   // of inputs
	Failure       *Event        // of the first input that failed; nil: none did
	Desired       int           // number of enabled inputs
	// FailedList and FailedID name the input that Failure is about.
	FailedList, FailedID string
	Failures             []InputStatus // all inputs that failed
	Drifts               []Drift       // the newest first
	Reached              bool          // with Query.Revision: the cluster was served that revision or a later one
	// The fields below are set with Query.Details.
	Lists  []ListStatus
	Inputs []InputStatus
	Events []ObjectEvent // events about objects, not inputs, the newest first
}

// sharedTokenWindow is the time for which a poll with a shared token is remembered. It exceeds the delay with which other
// processes learn of the poll.
const sharedTokenWindow = time.Hour

// SharedToken reports whether the cluster polled with a shared token within an hour.
func (s *Status) SharedToken(now time.Time) bool {
	return !s.SharedTokenAt.IsZero() && now.Sub(s.SharedTokenAt) <= sharedTokenWindow
}

// States returns State, and Failed beside a state that would hide it: a cluster that stopped polling may have failed before.
func (s *Status) States() []State {
	if s.Failure != nil && s.State != Failed {
		return []State{s.State, Failed}
	}
	return []State{s.State}
}

// StateOfInput returns the state of the cluster with regard to one of its inputs, as if it had only this one.
func (s *Status) StateOfInput(state State, enabled bool) State {
	switch {
	case s.LastSeen.IsZero():
		return Never
	case s.State == Silent:
		return Silent
	case s.Offline:
		return Unknown
	case !enabled && state == Delivered: // a disabled input sends no receipts
		return Confirmed
	}
	return state
}

// SilenceDetector finds out whether all of several clusters are silent. Then the cause is likely the address of the service,
// which all of them poll, and not a cluster. The zero value has no clusters.
type SilenceDetector struct {
	polling, silent int
	last            time.Time
}

// Add adds one cluster.
func (s *SilenceDetector) Add(known *Status) {
	switch {
	case known.State == Never:
		return
	case known.State == Silent, known.State == Unknown && known.Offline:
		s.silent++
	default:
		s.polling++
	}
	if known.LastSeen.After(s.last) {
		s.last = known.LastSeen
	}
}

// Since returns the time of the last poll of any of the clusters; not ok when one of them still polls, or when fewer than two
// have ever polled.
func (s *SilenceDetector) Since() (last time.Time, ok bool) {
	return s.last, s.polling == 0 && s.silent > 1
}

// ObjectEvent is an event about an object, under the name that RecordEvent was given.
type ObjectEvent struct {
	Name string
	Event
}
