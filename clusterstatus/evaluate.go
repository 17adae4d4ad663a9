package clusterstatus

import (
	"cmp"
	"slices"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// OfflineAfter is the default of Query.OfflineAfter.
const OfflineAfter = time.Hour

// A cluster is silent after this many of its own intervals without a poll, and after minSilence at the earliest.
const (
	silentIntervals = 3
	minSilence      = 3 * time.Minute
)

// assumedInterval is the interval of polls until it is known: the default of the cluster chart.
const assumedInterval = 5 * time.Minute

// overdueAfter returns how long after a poll of a list the next one is overdue. Half an interval more than it takes, and at
// least a minute, covers the jitter and a restart of Flux Operator.
func overdueAfter(interval time.Duration) time.Duration {
	interval = cmp.Or(interval, assumedInterval)
	return interval + max(interval/2, time.Minute)
}

// Query is the input of Evaluate.
type Query struct {
	Cluster string
	Desired []fleet.DesiredInputs
	Now     time.Time
	// OfflineAfter is the time without a poll after which the states of a cluster are Unknown.
	OfflineAfter time.Duration
	Details      bool
	// IncludeInput restricts the evaluation to the inputs for which it returns true; nil: all.
	IncludeInput func(list, id string) bool
	// EachInput is called with each evaluated input, in the order of the lists; nil: not.
	EachInput func(InputStatus)
	// IncludeList, with IncludeInput, selects lists whose own state counts, for inputs that were removed from them.
	IncludeList func(list string) bool
	// Names speeds up the evaluation of many clusters; share one among them. nil is allowed.
	Names NameCache
}

// NameCache maps the ids of inputs, which most clusters have in common, to interned handles.
type NameCache map[string]unique.Handle[string]

// maxNames is the limit of a NameCache: where clusters have no ids in common it does not help.
const maxNames = 10_000

func (n NameCache) of(id string) unique.Handle[string] {
	name, known := n[id]
	if !known {
		if name = unique.Make(id); n != nil && len(n) < maxNames {
			n[id] = name
		}
	}
	return name
}

// Evaluate returns the status of a cluster.
func (t *Tracker) Evaluate(q Query) Status {
	t.mu.RLock()
	c := t.clusters[q.Cluster]
	t.mu.RUnlock()
	if c == nil {
		c = &cluster{id: q.Cluster, receiptCount: &t.receiptCount}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evaluate(q)
}

// evaluation holds the query about one cluster and the result so far. It is one struct, so that the callback of the loop over
// inputs needs no allocation of its own.
type evaluation struct {
	*cluster
	Query
	status  Status
	counts  [8]int // by rank
	inputs  int
	offline bool

	desired fleet.DesiredInputs // the current list
	name    unique.Handle[string]
	list    ListStatus
	index   int // of the current input
	// servedSet are the inputs of the current list as it was served last; nil until isServed needs them.
	servedSet map[fleet.Receipt]struct{}
}

func (c *cluster) evaluate(q Query) Status {
	e := evaluation{cluster: c, Query: q, status: Status{Agent: c.agent, Interval: c.interval, State: Confirmed}}
	if c.seen > 0 {
		e.status.LastSeen = time.UnixMilli(c.seen)
	}
	if c.sharedSeen > 0 {
		e.status.SharedTokenAt = time.UnixMilli(c.sharedSeen)
	}
	e.offline = q.Now.Sub(e.status.LastSeen) > q.OfflineAfter
	e.status.Offline = e.offline
	for _, desired := range q.Desired {
		e.addList(desired)
	}
	e.status.Counts = make(map[State]int, 1)
	for rank, n := range e.counts {
		if n > 0 {
			e.status.Counts[states[rank]] = n
		}
	}
	switch {
	case c.seen == 0:
		e.status.State = Never
	case c.interval > 0 && q.Now.Sub(e.status.LastSeen) > max(silentIntervals*c.interval, minSilence):
		e.status.State = Silent
	case e.offline:
		e.status.State = Unknown
	case e.inputs == 0: // a cluster without inputs sends no receipts
		e.status.State = worse(e.status.State, Delivered)
	}
	if q.Details {
		e.status.Events = c.objectEvents()
	}
	return e.status
}

func (e *evaluation) addList(desired fleet.DesiredInputs) {
	e.desired, e.name, e.index, e.list, e.servedSet = desired, e.Names.of(desired.List), 0, e.listStatus(desired, e.Now), nil
	if e.Details {
		e.status.Lists = append(e.status.Lists, e.list)
	}
	switch { // the cluster may still run inputs that were removed from the list
	case e.IncludeInput != nil && (e.IncludeList == nil || !e.IncludeList(desired.List)):
	case e.list.State == Behind || e.list.State == Progressing:
		e.status.State = worse(e.status.State, e.list.State)
	case e.list.State == Never && e.IncludeInput != nil: // it may have polled, unknown to this process
		e.status.State = worse(e.status.State, e.list.pendingState())
	}
	desired.Inputs(e.addInput)
}

// addInput evaluates one input of the current list.
func (e *evaluation) addInput(id string, enabled bool) bool {
	i := e.index
	e.index++
	if e.IncludeInput != nil && !e.IncludeInput(e.desired.List, id) {
		return true
	}
	in := InputStatus{List: e.desired.List, ID: id, Enabled: enabled}
	if i < len(e.desired.Receipts) {
		in.Receipt = e.desired.Receipts[i]
	}
	e.setState(&in, inputKey{e.name, e.Names.of(id)}, e.list, e.offline)
	if e.desired.NoReceipts && !e.offline {
		in.confirmByDelivery(e.list)
	}
	e.counts[in.State.rank()]++
	if in.State == Failed {
		if e.status.Failure == nil {
			e.status.Failure, e.status.FailedList, e.status.FailedID = in.Failure, in.List, in.ID
		}
		e.status.Failures = append(e.status.Failures, in)
	}
	e.inputs++
	if enabled {
		e.status.Desired++
	}
	if enabled || in.State != Delivered { // a disabled input sends no receipts
		e.status.State = worse(e.status.State, in.State)
	}
	if e.Details {
		e.status.Inputs = append(e.status.Inputs, in)
	}
	if e.EachInput != nil {
		e.EachInput(in)
	}
	return true
}

// listStatus returns the state of a list. A cluster polls each list by itself, so one list may be overdue while the cluster
// polls the others: its time counts from the first evaluation that found it changed, since no record has the time at which the
// desired list changed.
func (c *cluster) listStatus(desired fleet.DesiredInputs, now time.Time) ListStatus {
	p := c.poll(desired.List)
	if p == nil || p.etag == "" {
		return ListStatus{List: desired.List, State: Never}
	}
	out := ListStatus{List: desired.List, State: Progressing, Since: time.UnixMilli(p.since)}
	if desired.HasETag(p.etag) {
		p.outdatedSince, out.State = 0, Delivered
		return out
	}
	if p.outdatedSince == 0 {
		p.outdatedSince = now.UnixMilli()
	}
	late := func(since int64, interval time.Duration) bool {
		return now.Sub(time.UnixMilli(since)) > overdueAfter(interval)
	}
	if late(c.seen, c.interval) || late(p.outdatedSince, max(c.interval, p.interval)) {
		out.State = Behind
	}
	return out
}

// isServed reports whether an input is in the current list as the cluster was served it last.
func (e *evaluation) isServed(r fleet.Receipt) bool {
	if e.list.State == Delivered {
		return true
	}
	if p := e.poll(e.desired.List); e.servedSet == nil && p != nil {
		e.servedSet = p.served.set()
	}
	_, is := e.servedSet[r]
	return is
}

// setState sets the state of one input.
func (e *evaluation) setState(in *InputStatus, key inputKey, list ListStatus, offline bool) {
	at, confirmed := e.confirmedAt(key, in.Receipt, e.isServed)
	failure := e.events[key]
	if failure != nil && (!failure.isFailure() || failure.Input != in.Receipt.String() || confirmed && failure.At.UnixMilli() <= at) {
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
		in.State, in.Since = list.pendingState(), list.Since
	default:
		in.State, in.Since = Delivered, list.Since
	}
	if (in.State == Delivered || in.State == Progressing || in.State == Behind) && !e.sendsReceipts {
		in.State = Unknown
	}
	in.Failure = failure
}

func (c *cluster) objectEvents() []ObjectEvent {
	var out []ObjectEvent
	for key, e := range c.events {
		if key.list.Value() == "" {
			out = append(out, ObjectEvent{key.id.Value(), *e})
		}
	}
	slices.SortFunc(out, func(a, b ObjectEvent) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name, b.Name)) })
	return out
}
