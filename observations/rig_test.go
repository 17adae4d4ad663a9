package observations

import (
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// receive has a cluster send a receipt of an input that is desired, as the server does it. Where a test did not state what is in
// the list that the cluster polled, it is this input.
func (b *Book) receive(id, list, input string, r fleet.Receipt, now time.Time) (again time.Duration) {
	if b.Repeated(id, list, input, r, now) {
		return 0
	}
	desired := fleet.Asked{List: list, Inputs: func(yield func(string, bool) bool) { yield(input, true) }}
	c := b.of(id)
	c.mu.Lock()
	if p := c.poll(list); p != nil && !p.asked.known {
		desired.ETag, desired.Receipts = p.etag, []fleet.Receipt{r}
	}
	c.mu.Unlock()
	return b.Received(id, desired, input, r, now)
}

// confirm has a cluster send a receipt of an input that it was served.
func (b *Book) confirm(id, list, input string, r fleet.Receipt, now time.Time) {
	c := b.of(id)
	c.mu.Lock()
	if c.poll(list) == nil {
		c.polls = append(c.polls, polled{list: list, etag: `"1"`, since: now.UnixMilli(), last: now.UnixMilli(), asked: inputs{known: true}})
	}
	p := c.poll(list)
	if !c.polls.serve(list, r) {
		p.asked = inputs{append(slices.Clone(p.asked.receipts), r), true}
		defer b.tell(c, sortPoll, aboutOf(list, ""))
	}
	c.mu.Unlock()
	if again := b.receive(id, list, input, r, now); again != 0 {
		panic("the receipt was not recorded")
	}
}
