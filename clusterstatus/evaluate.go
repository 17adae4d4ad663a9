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
	// CreatedAt is when the cluster was created; zero: unknown. Earlier observations are of a deleted cluster of the same id, and
	// are removed.
	CreatedAt time.Time
	Desired   []fleet.DesiredInputs
	// DesiredVersion identifies Desired: queries about one cluster with equal values have the same Desired. nil: it is not known.
	DesiredVersion any
	Now            time.Time
	// OfflineAfter is the time without a poll after which the states of a cluster are Unknown.
	OfflineAfter time.Duration
	Details      bool
	// OwnCredential: only reports with the cluster's own token or certificate count; reports with the shared token do not.
	OwnCredential bool
	// IncludeInput restricts the evaluation to the inputs for which it returns true; nil: all.
	IncludeInput func(list, id string) bool
	// IncludeList, with IncludeInput, selects lists whose own state counts, for inputs that were removed from them.
	IncludeList func(list string) bool
	// Revision, with IncludeInput: whether the cluster was served this revision or a later one, by the lists that ChangedList returns
	// true for, see Status.Reached. 0: it is not asked for.
	Revision    int64
	ChangedList func(list string) bool
	// EachInput, without Details and IncludeInput, is called with the state of each input, in the order of the lists; nil: not.
	EachInput func(list string, enabled bool, state State)
	// Names speeds up the evaluation of many clusters; share one among them. nil is allowed.
	Names NameCache
}

// includesAllInputs reports whether the query is about all inputs of the cluster, without details.
func (q *Query) includesAllInputs() bool { return !q.Details && q.IncludeInput == nil }

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
	c, sharedAt := t.lock(&q)
	defer c.mu.Unlock()
	return c.evaluate(q, sharedAt)
}

// EvaluateClassified is Evaluate without Desired; not ok if it is needed, because since the last evaluation of the cluster the
// DesiredVersion or an observation changed, or because the query is not about all inputs.
func (t *Tracker) EvaluateClassified(q Query) (status Status, ok bool) {
	if !q.includesAllInputs() || q.DesiredVersion == nil {
		return status, false
	}
	c, sharedAt := t.lock(&q)
	defer c.mu.Unlock()
	if c.classified == nil || c.classified.desiredVersion != q.DesiredVersion {
		return status, false
	}
	return c.evaluate(q, sharedAt), true
}

// evaluation holds the query about one cluster and the result so far.
type evaluation struct {
	*cluster
	Query
	status Status
	inputs int
}

func (c *cluster) evaluate(q Query, sharedAt int64) Status {
	e := evaluation{cluster: c, Query: q, status: Status{Agent: c.agent, Interval: c.interval, State: Confirmed, Drifts: c.drifts(q.Now)}}
	if c.seen > 0 {
		e.status.LastSeen = time.UnixMilli(c.seen)
	}
	if sharedAt > 0 {
		e.status.SharedTokenAt = time.UnixMilli(sharedAt)
	}
	e.status.Reached = q.Revision > 0 && c.seen > 0
	e.status.Offline = q.Now.Sub(e.status.LastSeen) > q.OfflineAfter
	if q.includesAllInputs() {
		e.addClassified(c.classify(&q))
	} else {
		for _, desired := range q.Desired {
			e.addList(desired)
		}
	}
	if q.IncludeInput != nil {
		e.status.Drifts = slices.DeleteFunc(e.status.Drifts, func(d Drift) bool { return !q.IncludeInput(d.List, d.ID) })
	}
	if len(e.status.Failures) > 0 {
		first := &e.status.Failures[0]
		e.status.Failure, e.status.FailedList, e.status.FailedID = first.Failure, first.List, first.ID
	}
	switch {
	case c.seen == 0:
		e.status.State = Never
	case c.interval > 0 && q.Now.Sub(e.status.LastSeen) > max(silentIntervals*c.interval, minSilence):
		e.status.State = Silent
	case e.status.Offline:
		e.status.State = Unknown
	case e.inputs == 0: // a cluster without inputs sends no receipts
		e.status.State = worse(e.status.State, Delivered)
	}
	if q.Details {
		e.status.Events = c.objectEvents()
	}
	return e.status
}

// addClassified adds the inputs of all lists.
func (e *evaluation) addClassified(all *classifiedInputs) {
	for i := range all.lists {
		l := &all.lists[i]
		list := e.listStatus(l.list, l.delivered, e.Now)
		e.addListState(list)
		var inputs [inputClasses]int
		for _, class := range l.inputs {
			inputs[class]++
		}
		var states [inputClasses]State
		for class, n := range inputs {
			if n > 0 {
				states[class], _ = e.inputState(inputClass(class), list, l.noReceipts)
				e.addInputs(inputClass(class), states[class], n)
			}
		}
		if e.EachInput == nil {
			continue
		}
		for _, class := range l.inputs {
			e.EachInput(l.list, class&enabledInput != 0, states[class])
		}
	}
	e.status.Failures = all.failures
}

// addListState adds the state of a list to that of the cluster: it may still run inputs that were removed from the list.
func (e *evaluation) addListState(list ListStatus) {
	switch {
	case e.IncludeInput != nil && (e.IncludeList == nil || !e.IncludeList(list.List)):
	case list.State == Behind || list.State == Progressing:
		e.status.State = worse(e.status.State, list.State)
	case list.State == Never && e.IncludeInput != nil: // it may have polled, unknown to this process
		e.status.State = worse(e.status.State, list.pendingState())
	}
}

// addInputs adds a number of inputs of one class to the counts, and to the state of the cluster.
func (e *evaluation) addInputs(class inputClass, state State, n int) {
	e.inputs += n
	e.status.Counts[state.rank()] += int32(n)
	if class&enabledInput != 0 {
		e.status.Desired += n
	}
	if class&enabledInput != 0 || state != Delivered { // a disabled input sends no receipts
		e.status.State = worse(e.status.State, state)
	}
}

// inputState returns the state of an input of a list. byDelivery: see InputStatus.
func (e *evaluation) inputState(class inputClass, list ListStatus, noReceipts bool) (state State, byDelivery bool) {
	pending := Delivered
	if list.State != Delivered {
		pending = list.pendingState()
	}
	switch {
	case class&failedInput != 0: // also when the cluster is silent: its last failure is not over
		return Failed, false
	case e.status.Offline:
		return Unknown, false
	case class&confirmedInput != 0:
		return Confirmed, false
	case noReceipts && class&enabledInput != 0: // it is confirmed once it is delivered
		if pending == Delivered {
			return Confirmed, true
		}
		return pending, false
	case !e.sendsReceipts:
		return Unknown, false
	}
	return pending, false
}

// addList adds the inputs of a list that the query includes, with details.
func (e *evaluation) addList(desired fleet.DesiredInputs) {
	list := e.listStatus(desired.List, e.delivered(desired), e.Now)
	e.addListState(list)
	if e.Revision > 0 && e.ChangedList(desired.List) && list.State != Delivered {
		p := e.poll(desired.List)
		e.status.Reached = e.status.Reached && p != nil && p.revision >= e.Revision
	}
	if e.Details {
		e.status.Lists = append(e.status.Lists, list)
	}
	l := e.classifier(desired, list.State == Delivered, e.Names)
	i := 0
	for id, enabled := range desired.Inputs {
		i++
		if e.IncludeInput != nil && !e.IncludeInput(desired.List, id) {
			continue
		}
		in, class := l.classify(i-1, id, enabled)
		if in.State, in.ByDelivery = e.inputState(class, list, desired.NoReceipts); in.State == Unknown && e.status.Offline {
			in.Since = time.Time{}
		} else if class&(failedInput|confirmedInput) == 0 {
			in.Since = list.Since
		}
		e.addInputs(class, in.State, 1)
		if in.State == Failed {
			e.status.Failures = append(e.status.Failures, in)
		}
		if e.Details {
			e.status.Inputs = append(e.status.Inputs, in)
		}
	}
}

// listStatus returns the state of a list; delivered: the cluster was served the desired answer last. A cluster polls each list by
// itself, so one list may be overdue while the cluster polls the others: its time counts from the first evaluation that found it
// changed, since no record has the time at which the desired list changed.
func (c *cluster) listStatus(list string, delivered bool, now time.Time) ListStatus {
	p := c.poll(list)
	if p == nil || p.etag == "" {
		return ListStatus{List: list, State: Never}
	}
	out := ListStatus{List: list, State: Progressing, Since: time.UnixMilli(p.since)}
	if delivered {
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

// delivered reports whether the cluster was served the desired answer last.
func (c *cluster) delivered(desired fleet.DesiredInputs) bool {
	p := c.poll(desired.List)
	return p != nil && p.etag != "" && desired.Matches(p.etag, p.served.receipts)
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
