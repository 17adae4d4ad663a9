package clusterstatus

import (
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// receive sends a receipt of a desired input, as the server does. If the test has not recorded the inputs of the list that the
// cluster was served, the list has this input.
func (t *Tracker) receive(id, list, input string, r fleet.Receipt, now time.Time) (again time.Duration) {
	if t.RecordRepeatedReceipt(id, list, input, r, now) {
		return 0
	}
	desired := fleet.DesiredInputs{List: list, Inputs: func(yield func(string, bool) bool) { yield(input, true) }}
	c := t.cluster(id)
	c.mu.Lock()
	if p := c.poll(list); p != nil && !p.served.known {
		desired.ETag, desired.Receipts = p.etag, []fleet.Receipt{r}
	}
	c.mu.Unlock()
	return t.RecordReceipt(id, desired, input, r, now)
}

// confirm sends a receipt of an input that the cluster was served.
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
