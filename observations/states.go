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
	// Progressing: the list changed, and the cluster's next poll is not overdue yet.
	Progressing State = "progressing"
	// Behind: the list changed, and the cluster's next poll is overdue by its own interval.
	Behind State = "behind"
	// Unknown: the cluster sends no receipts, or was not seen for too long.
	Unknown State = "unknown"
	// Failed: the cluster said that it failed at exactly this input, and nothing better since.
	Failed State = "failed"
	// Silent: the cluster does not poll any more, by its own measure. Of clusters only.
	Silent State = "silent"
	// Never: the cluster has never polled. Of clusters only.
	Never State = "never"
	// Superseded: all inputs of the cluster that a revision changed were changed again by later ones. It is no state of a cluster by
	// itself, so it is not one of States; only the progress of a revision has it.
	Superseded State = "superseded"
)

var states = []State{Confirmed, Delivered, Progressing, Behind, Unknown, Failed, Silent, Never}

// States are all there are, the best first.
func States() []State { return slices.Clone(states) }

// OfClusters tells whether only a cluster can be in this state, and no input.
func (s State) OfClusters() bool { return s == Silent || s == Never }

// rank is where a state stands among states.
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

func worse(a, b State) State {
	if b.rank() > a.rank() {
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

// assumedInterval is the time between two polls of a cluster whose interval is not known yet: the default of the cluster chart.
const assumedInterval = 5 * time.Minute

// overdueAfter is how long after a poll of a list the next one is overdue. Half an interval more than it takes, and at least a minute,
// covers the jitter of Flux Operator and a restart of it.
func overdueAfter(interval time.Duration) time.Duration {
	interval = cmp.Or(interval, assumedInterval)
	return interval + max(interval/2, time.Minute)
}

// InputStatus is what is known of one input.
type InputStatus struct {
	List, ID string
	Enabled  bool
	Receipt  fleet.Receipt // of the input that is asked for now; zero when it has none
	State    State
	Since    time.Time // when the cluster said so, or was given it; zero when it did not
	Failure  *Event    // the last that went wrong with this input
	// ByDelivery: it is Confirmed because the cluster was given it, and its resource type makes no receipts.
	ByDelivery bool
}

// withoutReceipt is the rule for an input of a resource type whose template makes no receipts: it counts as confirmed when it is
// delivered.
func (in *InputStatus) withoutReceipt(list ListStatus) {
	switch {
	case in.State != Unknown && in.State != Delivered || !in.Enabled:
	case list.State == Delivered:
		in.State, in.Since, in.ByDelivery = Confirmed, list.Since, true
	default:
		in.State, in.Since = list.awaited(), list.Since
	}
}

// ListStatus is what is known of one list.
type ListStatus struct {
	List  string
	State State     // Delivered, Progressing, Behind, or Never
	Since time.Time // when the answer that the cluster has was first given to it
}

// awaited is the state of an input of the list that the cluster was not served as it is now.
func (l ListStatus) awaited() State {
	if l.State == Progressing {
		return Progressing
	}
	return Behind
}

// Status is what is known of a cluster.
type Status struct {
	State    State
	Seen     time.Time // zero: never
	Offline  bool      // it was not seen for Question.OfflineAfter
	Agent    string
	Interval time.Duration // between two polls of a list; 0: not known
	Counts   map[State]int // of inputs
	Failure  *Event        // of the first input that failed; nil: none did
	Asked    int           // inputs that are to be there
	// FailedList and FailedID name the input that Failure is about.
	FailedList, FailedID string
	// What follows is there when it was asked for.
	Lists  []ListStatus
	Inputs []InputStatus
	Events []NamedEvent // that are about no input, the newest first
}

// States returns State, and Failed beside a state that would hide it: a cluster that does not poll any more may have failed before.
func (s *Status) States() []State {
	if s.Failure != nil && s.State != Failed {
		return []State{s.State, Failed}
	}
	return []State{s.State}
}

// Silence finds out whether all of some clusters are silent. Then the cause is likely the address of the service, which all of them
// poll, and not a cluster. The zero value has no clusters.
type Silence struct {
	polling, silent int
	last            time.Time
}

// Add takes one more cluster into account.
func (s *Silence) Add(known *Status) {
	switch {
	case known.State == Never:
		return
	case known.State == Silent, known.State == Unknown && known.Offline:
		s.silent++
	default:
		s.polling++
	}
	if known.Seen.After(s.last) {
		s.last = known.Seen
	}
}

// Since returns the time of the last poll of any of the clusters; not ok when one of them still polls, or when fewer than two have
// ever polled.
func (s *Silence) Since() (last time.Time, ok bool) {
	return s.last, s.polling == 0 && s.silent > 1
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
	// List, with Input, evaluates also whether the cluster was served these lists as they are now: for inputs that were removed.
	List func(list string) bool
	// Names are for who asks about many clusters, one after the other; nil is fine.
	Names Names
}

// Names are ids of inputs, which most clusters have in common, as a Book knows them.
type Names map[string]unique.Handle[string]

// maxNames is how many are remembered: where clusters have nothing in common it is of no use.
const maxNames = 10_000

func (n Names) of(id string) unique.Handle[string] {
	name, known := n[id]
	if !known {
		if name = unique.Make(id); n != nil && len(n) < maxNames {
			n[id] = name
		}
	}
	return name
}

// Judge says what is known of a cluster.
func (b *Book) Judge(q Question) Status {
	b.mu.RLock()
	c := b.clusters[q.Cluster]
	b.mu.RUnlock()
	if c == nil {
		c = &cluster{id: q.Cluster, stored: &b.stored}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judge(q)
}

// judging is what is asked about a cluster, and the answer so far. It is one thing, since what a loop over inputs changes has to
// outlive the function that it is in.
type judging struct {
	*cluster
	Question
	out     Status
	counts  [8]int // by rank
	inputs  int
	offline bool

	asked fleet.Asked // the list that is looked at,
	name  unique.Handle[string]
	list  ListStatus
	next  int // and which of its inputs
	// serves are the inputs of that list as it was served last; nil while nothing has asked for them.
	serves map[fleet.Receipt]struct{}
}

func (c *cluster) judge(q Question) Status {
	j := judging{cluster: c, Question: q, out: Status{Agent: c.agent, Interval: c.interval, State: Confirmed}}
	if c.seen > 0 {
		j.out.Seen = time.UnixMilli(c.seen)
	}
	j.offline = q.Now.Sub(j.out.Seen) > q.OfflineAfter
	j.out.Offline = j.offline
	for _, asked := range q.Asked {
		j.lists(asked)
	}
	j.out.Counts = make(map[State]int, 1)
	for rank, n := range j.counts {
		if n > 0 {
			j.out.Counts[states[rank]] = n
		}
	}
	switch {
	case c.seen == 0:
		j.out.State = Never
	case c.interval > 0 && q.Now.Sub(j.out.Seen) > max(silence*c.interval, leastSilence):
		j.out.State = Silent
	case j.offline:
		j.out.State = Unknown
	case j.inputs == 0: // that it has nothing, nobody confirms
		j.out.State = worse(j.out.State, Delivered)
	}
	if q.Detail {
		j.out.Events = c.named()
	}
	return j.out
}

func (j *judging) lists(asked fleet.Asked) {
	j.asked, j.name, j.next, j.list, j.serves = asked, j.Names.of(asked.List), 0, j.cluster.list(asked, j.Now), nil
	if j.Detail {
		j.out.Lists = append(j.out.Lists, j.list)
	}
	if (j.list.State == Behind || j.list.State == Progressing) && (j.Input == nil || j.List != nil && j.List(asked.List)) { // it may have things that are in it no more
		j.out.State = worse(j.out.State, j.list.State)
	}
	asked.Inputs(j.each)
}

// each takes one input of the list into account.
func (j *judging) each(id string, enabled bool) bool {
	i := j.next
	j.next++
	if j.Input != nil && !j.Input(j.asked.List, id) {
		return true
	}
	in := InputStatus{List: j.asked.List, ID: id, Enabled: enabled}
	if i < len(j.asked.Receipts) {
		in.Receipt = j.asked.Receipts[i]
	}
	j.input(&in, about{j.name, j.Names.of(id)}, j.list, j.offline)
	if j.asked.NoReceipts && !j.offline {
		in.withoutReceipt(j.list)
	}
	j.counts[in.State.rank()]++
	if in.State == Failed && j.out.Failure == nil {
		j.out.Failure, j.out.FailedList, j.out.FailedID = in.Failure, in.List, in.ID
	}
	j.inputs++
	if enabled {
		j.out.Asked++
	}
	if enabled || in.State != Delivered { // one that is off sends nothing
		j.out.State = worse(j.out.State, in.State)
	}
	if j.Detail {
		j.out.Inputs = append(j.out.Inputs, in)
	}
	return true
}

// list returns the state of a list. A cluster polls each list by itself, so one list may be overdue while the cluster polls the others:
// its time counts from the first call that found it changed, since no record has the time at which the desired list changed.
func (c *cluster) list(asked fleet.Asked, now time.Time) ListStatus {
	p := c.poll(asked.List)
	if p == nil || p.etag == "" {
		return ListStatus{List: asked.List, State: Never}
	}
	out := ListStatus{List: asked.List, State: Progressing, Since: time.UnixMilli(p.since)}
	if p.etag == asked.ETag {
		p.outdated, out.State = 0, Delivered
		return out
	}
	if p.outdated == 0 {
		p.outdated = now.UnixMilli()
	}
	late := func(since int64, interval time.Duration) bool {
		return now.Sub(time.UnixMilli(since)) > overdueAfter(interval)
	}
	if late(c.seen, c.interval) || late(p.outdated, max(c.interval, p.interval)) {
		out.State = Behind
	}
	return out
}

// served reports whether an input is in the list that the cluster was served last.
func (j *judging) served(r fleet.Receipt) bool {
	if j.list.State == Delivered {
		return true
	}
	if p := j.poll(j.asked.List); j.serves == nil && p != nil {
		j.serves = p.asked.set()
	}
	_, is := j.serves[r]
	return is
}

// input is the rule for one input.
func (j *judging) input(in *InputStatus, on about, list ListStatus, offline bool) {
	at, confirmed := j.confirmed(on, in.Receipt, j.served)
	failure := j.events[on]
	if failure != nil && (!failure.failed() || failure.Input != in.Receipt.String() || confirmed && failure.At.UnixMilli() <= at) {
		failure = nil
	}
	switch {
	case failure != nil: // also when the cluster is silent: its last failure is not over
		in.State, in.Since = Failed, failure.At
	case offline:
		in.State = Unknown
	case confirmed:
		in.State, in.Since = Confirmed, time.UnixMilli(at)
	case list.State != Delivered:
		in.State, in.Since = list.awaited(), list.Since
	default:
		in.State, in.Since = Delivered, list.Since
	}
	if (in.State == Delivered || in.State == Progressing || in.State == Behind) && !j.reports {
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
