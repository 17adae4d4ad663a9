package observations

import (
	"cmp"
	"slices"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// State is what is known of an input on a cluster, or of a cluster as a whole. No state says that something is healthy: a
// cluster that has applied an input need not go on running it.
type State string

// States, the worst last.
const (
	// Confirmed: the cluster said, with its own credential, that it has applied exactly this input and found it ready, once.
	Confirmed State = "confirmed"
	// Delivered: the cluster was given the input, and has said nothing about it yet.
	Delivered State = "delivered"
	// Behind: the cluster has not asked since the list changed.
	Behind State = "behind"
	// Unknown: the cluster sends no receipts, or was not seen for too long.
	Unknown State = "unknown"
	// Failed: the cluster said that it failed at exactly this input, and nothing better since.
	Failed State = "failed"
	// Silent: the cluster does not poll any more, by its own measure. Of clusters only.
	Silent State = "silent"
	// Never: the cluster has never polled. Of clusters only.
	Never State = "never"
)

var states = []State{Confirmed, Delivered, Behind, Unknown, Failed, Silent, Never}

// States are all there are, the best first.
func States() []State { return slices.Clone(states) }

// OfClusters tells whether only a cluster can be in this state, and no input.
func (s State) OfClusters() bool { return s == Silent || s == Never }

func worse(a, b State) State {
	if slices.Index(states, b) > slices.Index(states, a) {
		return b
	}
	return a
}

// OfflineAfter is for how long a cluster that is not seen is believed, unless it is configured.
const OfflineAfter = time.Hour

// silence is how many of its own intervals a cluster may miss, and the least that is waited for.
const (
	silence      = 3
	leastSilence = 3 * time.Minute
)

// InputStatus is what is known of one input.
type InputStatus struct {
	List, ID string
	Enabled  bool
	Receipt  fleet.Receipt // of the input that is asked for now; zero when it has none
	State    State
	Since    time.Time // when the cluster said so, or was given it; zero when it did not
	Failure  *Event    // the last that went wrong with this input
}

// ListStatus is what is known of one list.
type ListStatus struct {
	List  string
	State State     // Delivered, Behind, or Never
	Since time.Time // when the answer that the cluster has was first given to it
}

// Status is what is known of a cluster.
type Status struct {
	State    State
	Seen     time.Time // zero: never
	Agent    string
	Interval time.Duration // between two polls of a list; 0: not known
	Counts   map[State]int // of inputs
	Failure  *Event        // of the first input that failed; nil: none did
	Asked    int           // inputs that are to be there
	// What follows is there when it was asked for.
	Lists  []ListStatus
	Inputs []InputStatus
	Events []NamedEvent // that are about no input, the newest first
}

// NamedEvent is an event that is about an object.
type NamedEvent struct {
	Name string
	Event
}

// Question is what Judge is asked.
type Question struct {
	Cluster string
	Asked   []fleet.Asked
	Now     time.Time
	// OfflineAfter is for how long a cluster that is not seen is believed.
	OfflineAfter time.Duration
	Detail       bool
	// Input judges those inputs only; nil is all.
	Input func(list, id string) bool
}

// Judge says what is known of a cluster.
func (b *Book) Judge(q Question) Status {
	b.mu.RLock()
	c := b.clusters[q.Cluster]
	b.mu.RUnlock()
	if c == nil {
		c = &cluster{id: q.Cluster}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judge(q)
}

func (c *cluster) judge(q Question) Status {
	out := Status{Agent: c.agent, Interval: c.interval, State: Confirmed, Counts: map[State]int{}}
	if c.seen > 0 {
		out.Seen = time.UnixMilli(c.seen)
	}
	inputs := 0
	offline := q.Now.Sub(out.Seen) > q.OfflineAfter
	for _, asked := range q.Asked {
		list := c.list(asked)
		if q.Detail {
			out.Lists = append(out.Lists, list)
		}
		if list.State == Behind && q.Input == nil { // it may have things that are in it no more
			out.State = worse(out.State, Behind)
		}
		name := unique.Make(asked.List)
		i := -1
		for id, enabled := range asked.Inputs {
			i++
			if q.Input != nil && !q.Input(asked.List, id) {
				continue
			}
			in := InputStatus{List: asked.List, ID: id, Enabled: enabled}
			if i < len(asked.Receipts) {
				in.Receipt = asked.Receipts[i]
			}
			c.input(&in, about{name, unique.Make(id)}, list, offline)
			out.Counts[in.State]++
			if in.State == Failed && out.Failure == nil {
				out.Failure = in.Failure
			}
			inputs++
			if enabled {
				out.Asked++
			}
			if enabled || in.State != Delivered { // one that is off sends nothing
				out.State = worse(out.State, in.State)
			}
			if q.Detail {
				out.Inputs = append(out.Inputs, in)
			}
		}
	}
	switch {
	case c.seen == 0:
		out.State = Never
	case c.interval > 0 && q.Now.Sub(out.Seen) > max(silence*c.interval, leastSilence):
		out.State = Silent
	case offline:
		out.State = Unknown
	case inputs == 0: // that it has nothing, nobody confirms
		out.State = worse(out.State, Delivered)
	}
	if q.Detail {
		out.Events = c.named()
	}
	return out
}

// list is what is known of a list.
func (c *cluster) list(asked fleet.Asked) ListStatus {
	out := ListStatus{List: asked.List, State: Never}
	for _, p := range c.polls {
		if p.list != asked.List {
			continue
		}
		out.Since, out.State = time.UnixMilli(p.since), Behind
		if p.etag == asked.ETag {
			out.State = Delivered
		}
	}
	return out
}

// input is the rule for one input.
func (c *cluster) input(in *InputStatus, on about, list ListStatus, offline bool) {
	at, confirmed := c.confirmed(on, in.Receipt)
	failure := c.events[on]
	if failure != nil && (!failure.failed() || failure.Input != in.Receipt.String() || confirmed && failure.At.UnixMilli() <= at) {
		failure = nil
	}
	switch {
	case offline:
		in.State = Unknown
	case failure != nil:
		in.State, in.Since = Failed, failure.At
	case confirmed:
		in.State, in.Since = Confirmed, time.UnixMilli(at)
	case list.State == Behind, list.State == Never:
		in.State, in.Since = Behind, list.Since
	default:
		in.State, in.Since = Delivered, list.Since
	}
	if (in.State == Delivered || in.State == Behind) && len(c.receipts) == 0 {
		in.State = Unknown
	}
	in.Failure = failure
}

func (c *cluster) named() []NamedEvent {
	var out []NamedEvent
	for on, e := range c.events {
		if on.list.Value() == "" {
			out = append(out, NamedEvent{on.id.Value(), *e})
		}
	}
	slices.SortFunc(out, func(a, b NamedEvent) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name, b.Name)) })
	return out
}
