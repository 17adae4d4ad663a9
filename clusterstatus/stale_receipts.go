package clusterstatus

import (
	"bytes"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// settleTime is how long receipts of a removed input may still arrive: until the cluster has applied the list without it, and
// its Flux has collected the objects that send them. A receipt names content and not time, so within this time a receipt of an
// input that was removed and served again may be of its first time. The provider that receives a 409 for it retries after 0.75
// s and then twice as long each time; the seventh retry is after 47 s.
const settleTime = 45 * time.Second

// maxRemoved is the limit of removed inputs of a list that are tracked one by one. Beyond it all inputs of the list count as
// removed.
const maxRemoved = 10_000 // the size of the largest list

// inputSet is the receipts of the inputs of a list, if they are known.
type inputSet struct {
	receipts []fleet.Receipt // shared with the answer to the poll; not to be changed
	known    bool
}

func (in inputSet) without(other inputSet) []fleet.Receipt {
	kept := other.set()
	return slices.DeleteFunc(slices.Clone(in.receipts), func(r fleet.Receipt) bool { _, ok := kept[r]; return ok || r == fleet.Receipt{} })
}

func (in inputSet) set() map[fleet.Receipt]struct{} {
	out := make(map[fleet.Receipt]struct{}, len(in.receipts))
	for _, r := range in.receipts {
		out[r] = struct{}{}
	}
	return out
}

// removedInputs are the inputs that were removed from a list that a cluster was served, within the last settleTime.
type removedInputs struct {
	byInput []receipt // sorted by input, each with the time of its removal
	allAt   int64     // when inputs beyond maxRemoved were removed; 0: never
}

func (w *removedInputs) find(r fleet.Receipt) (int, bool) {
	return slices.BinarySearchFunc(w.byInput, r, func(one receipt, r fleet.Receipt) int { return bytes.Compare(one.input[:], r[:]) })
}

// addDifference records that a cluster was served one list and then another: the inputs of the first that are not in the
// second were removed. A list whose inputs are not known counts as empty.
func (w *removedInputs) addDifference(before, after inputSet, at int64) {
	w.addAll(before.without(after), at)
}

func (w *removedInputs) addAll(receipts []fleet.Receipt, at int64) {
	w.expire(at)
	for _, r := range receipts {
		w.add(r, at)
	}
}

func (w *removedInputs) add(r fleet.Receipt, at int64) {
	switch i, there := w.find(r); {
	case there:
		w.byInput[i].at = max(w.byInput[i].at, at)
	case len(w.byInput) < maxRemoved:
		w.byInput = slices.Insert(w.byInput, i, receipt{r, at})
	default:
		w.allAt = max(w.allAt, at)
	}
}

// expire drops the removals that are older than settleTime, and reports whether there were any.
func (w *removedInputs) expire(at int64) (dropped bool) {
	before, n := at-settleTime.Milliseconds(), len(w.byInput)
	w.byInput = slices.DeleteFunc(w.byInput, func(one receipt) bool { return one.at < before })
	dropped = len(w.byInput) < n
	if len(w.byInput) == 0 {
		w.byInput = nil
	}
	if w.allAt != 0 && w.allAt < before {
		w.allAt, dropped = 0, true
	}
	return dropped
}

// blockedUntil returns the time up to which receipts of an input do not count, because the input was removed. After more
// removals than maxRemoved any input may have been one of them.
func (w *removedInputs) blockedUntil(r receipt) (at int64) {
	if w.allAt > 0 && r.at >= w.allAt {
		at = w.allAt + settleTime.Milliseconds()
	}
	if i, there := w.find(r.input); there {
		at = max(at, w.byInput[i].at+settleTime.Milliseconds())
	}
	return at
}

// recordServed records the inputs of the list that the cluster was served last, or that it was served before another process
// served a newer one.
func (c *cluster) recordServed(list fleet.DesiredInputs, at int64) {
	c.classified = nil
	p, now := c.poll(list.List), inputSet{list.Receipts, true}
	switch {
	case p == nil:
	case p.etag != list.ETag:
		p.removed.addDifference(now, p.served, at)
	case !p.served.known:
		p.removed.addDifference(p.previous, now, at)
		p.served, p.previous = now, inputSet{}
	}
}

// reconcileRemotePoll records that another process served the cluster another answer at a time, before or after the last one
// of this process: the inputs that are in one of them only were removed when the other was served.
func (p *listPoll) reconcileRemotePoll(etag string, other inputSet, at int64) {
	if p.etag == etag {
		return
	}
	ours := p.lastKnown()
	switch {
	case at < p.since:
		p.removed.addDifference(other, ours, p.since)
	case at <= p.last: // between two polls that this process answered alike
		p.removed.addDifference(ours, other, at)
		p.removed.addDifference(other, ours, p.last)
	default:
		p.removed.addDifference(ours, other, at)
	}
}
