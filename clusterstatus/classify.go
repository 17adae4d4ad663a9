package clusterstatus

import (
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// An inputClass is what the observations of a cluster and its desired inputs determine about the state of one input. The rest
// depends on the time: whether the list is overdue, and whether the cluster is offline. So classes are kept until an observation
// or the desired inputs change, and an evaluation of all clusters does not compare every receipt again.
type inputClass uint8

const (
	enabledInput   inputClass = 1 << iota
	confirmedInput            // a receipt of it counts
	failedInput               // a failure at it is not over
	inputClasses   = 1 << iota
)

// classifiedInputs are the classes of all desired inputs of a cluster.
type classifiedInputs struct {
	desiredVersion any // see Query
	lists          []classifiedList
	failures       []InputStatus // of the failed inputs
}

type classifiedList struct {
	list, etag string // etag is that of the desired answer; empty: not known
	noReceipts bool
	delivered  bool // the cluster was served the desired answer last
	inputs     []inputClass
}

// classify returns the classes of all desired inputs, and keeps them.
func (c *cluster) classify(q *Query) *classifiedInputs {
	if old := c.classified; old != nil && q.DesiredVersion != nil && (old.desiredVersion == q.DesiredVersion || old.describe(q.Desired)) {
		old.desiredVersion = q.DesiredVersion
		return old
	}
	all := &classifiedInputs{desiredVersion: q.DesiredVersion, lists: make([]classifiedList, len(q.Desired))}
	n := 0
	for _, desired := range q.Desired {
		for range desired.Inputs {
			n++
		}
	}
	classes := make([]inputClass, 0, n)
	for i, desired := range q.Desired {
		list := classifiedList{list: desired.List, etag: desired.ETag, noReceipts: desired.NoReceipts, delivered: c.delivered(desired)}
		l, first := c.classifier(desired, list.delivered, q.Names), len(classes)
		for id, enabled := range desired.Inputs {
			in, class := l.classify(len(classes)-first, id, enabled)
			if classes = append(classes, class); class&failedInput != 0 {
				in.State = Failed
				all.failures = append(all.failures, in)
			}
		}
		list.inputs = classes[first:len(classes):len(classes)]
		all.lists[i] = list
	}
	if q.DesiredVersion != nil {
		c.classified = all
	}
	return all
}

// describe reports whether the classes are certainly those of these inputs: answers with the same ETag have the same inputs.
func (all *classifiedInputs) describe(desired []fleet.DesiredInputs) bool {
	if len(all.lists) != len(desired) {
		return false
	}
	for i := range desired {
		l, d := &all.lists[i], &desired[i]
		if d.ETag == "" || l.etag != d.ETag || l.list != d.List || l.noReceipts != d.NoReceipts {
			return false
		}
	}
	return true
}

// classifier classifies the inputs of one list.
type classifier struct {
	*cluster
	desired   fleet.DesiredInputs
	delivered bool
	names     NameCache
	name      unique.Handle[string]
	// served are the inputs of the list as it was served last; nil until isServed needs them.
	served map[fleet.Receipt]struct{}
}

func (c *cluster) classifier(desired fleet.DesiredInputs, delivered bool, names NameCache) classifier {
	return classifier{cluster: c, desired: desired, delivered: delivered, names: names, name: names.of(desired.List)}
}

// classify returns the class of one input, and its status without State. Since is set if it is confirmed or failed.
func (l *classifier) classify(i int, id string, enabled bool) (in InputStatus, class inputClass) {
	in = InputStatus{List: l.desired.List, ID: id, Enabled: enabled}
	if i < len(l.desired.Receipts) {
		in.Receipt = l.desired.Receipts[i]
	}
	if enabled {
		class = enabledInput
	}
	key := inputKey{l.name, l.names.of(id)}
	at, confirmed := l.confirmedAt(key, in.Receipt, l.isServed)
	if confirmed {
		class |= confirmedInput
		in.Since = time.UnixMilli(at)
	}
	failure := l.events[key]
	if failure != nil && failure.isFailure() && failure.Input == in.Receipt.String() && (!confirmed || failure.At.UnixMilli() > at) {
		class |= failedInput
		in.Since, in.Failure = failure.At, failure
	}
	return in, class
}

// isServed reports whether an input is in the current list as the cluster was served it last.
func (l *classifier) isServed(r fleet.Receipt) bool {
	if l.delivered {
		return true
	}
	if p := l.poll(l.desired.List); l.served == nil && p != nil {
		l.served = p.served.set()
	}
	_, served := l.served[r]
	return served
}
