package clusterstatus

import (
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// receive has a cluster send a receipt of an input that is desired, as the server does it. Where a test did not state what is in
// the list that the cluster polled, it is this input.
func (t *Tracker) receive(id, list, input string, r fleet.Receipt, now time.Time) (again time.Duration) {
	if t.RecordRepeatedReceipt(id, list, input, r, now) {
		return 0
	}
	desired := fleet.Asked{List: list, Inputs: func(yield func(string, bool) bool) { yield(input, true) }}
	c := t.cluster(id)
	c.mu.Lock()
	if p := c.poll(list); p != nil && !p.served.known {
		desired.ETag, desired.Receipts = p.etag, []fleet.Receipt{r}
	}
	c.mu.Unlock()
	return t.RecordReceipt(id, desired, input, r, now)
}

// confirm has a cluster send a receipt of an input that it was served.
func (t *Tracker) confirm(id, list, input string, r fleet.Receipt, now time.Time) {
	c := t.cluster(id)
	c.mu.Lock()
	if c.poll(list) == nil {
		c.polls = append(c.polls, listPoll{list: list, etag: `"1"`, since: now.UnixMilli(), last: now.UnixMilli(), served: inputSet{known: true}})
	}
	p := c.poll(list)
	if !c.polls.serves(list, r) {
		p.served = inputSet{append(slices.Clone(p.served.receipts), r), true}
		defer t.enqueue(c, kindPoll, newInputKey(list, ""))
	}
	c.mu.Unlock()
	if again := t.receive(id, list, input, r, now); again != 0 {
		panic("the receipt was not recorded")
	}
}
