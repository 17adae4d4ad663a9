package observations

import (
	"strings"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Polled notes that a cluster itself asked for a list, and was given the answer of that ETag. It tells whether Given has to say
// what is in it: that is another one than before, or nobody knows.
func (b *Book) Polled(id, list, etag, agent string, now time.Time) (say bool) {
	c := b.of(id)
	c.mu.Lock()
	changed, known := c.polled(list, etag, agent, now)
	c.mu.Unlock()
	if changed {
		b.tell(c, sortPoll, aboutOf(list, ""))
	}
	return changed || !known
}

// Given voids the receipts of what a cluster was asked for before and is not any more: it goes on to something else, and that it
// once had what it may be asked for again says nothing by then, however often it repeats that until it has changed. When it is
// given that again, what it says from then on counts. A void is of one receipt: another process may have had that of what is given
// here already, and not have told yet.
//
// What is not asked for any more is also remembered as withdrawn: Received.
func (b *Book) Given(id string, asked fleet.Asked, now time.Time) {
	c, list := b.of(id), unique.Make(asked.List)
	valid := map[about]fleet.Receipt{}
	i := 0
	for input, enabled := range asked.Inputs {
		if enabled && i < len(asked.Receipts) {
			valid[about{list, unique.Make(input)}] = asked.Receipts[i]
		}
		i++
	}
	c.mu.Lock()
	at := now.UnixMilli()
	c.asked(asked, at)
	changed := c.given(list, valid, at)
	c.mu.Unlock()
	b.tell(c, sortPoll, aboutOf(asked.List, ""))
	for _, on := range changed {
		b.tell(c, sortVoid, on)
	}
}

// Begins says since when there is a cluster of that id: what was said before was said by another one, and is forgotten.
func (b *Book) Begins(id string, at time.Time) {
	b.mu.RLock()
	c := b.clusters[id]
	b.mu.RUnlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	c.begins(at.UnixMilli())
	c.mu.Unlock()
}

// Received notes that a cluster itself said that it has applied an input. early is not 0 when that is not noted, because the input
// was withdrawn and came back shortly before, so that the receipt may be of before: the cluster is to say it again after that time.
func (b *Book) Received(id, list, input string, r fleet.Receipt, now time.Time) (early time.Duration) {
	c, on := b.of(id), aboutOf(list, input)
	c.mu.Lock()
	at := now.UnixMilli()
	c.seen = max(c.seen, at)
	if early = c.early(on, r, at); early > 0 {
		c.mu.Unlock()
		return early
	}
	old, known := c.receipts[on]
	if (!known || old.input != r) && !c.fresh.take(now, receiptBurst, receiptEvery) {
		c.mu.Unlock()
		b.dropped.Add(1)
		return 0
	}
	changed := c.received(on, r, at)
	c.mu.Unlock()
	if changed {
		b.tell(c, sortReceipt, on)
	}
	return 0
}

// Happened notes an event of a cluster. It is about an input of a list or, where list is empty, about the object that id names.
// Not ok when the cluster sends too many: this one is lost then.
//
// The event says when it happened by the clock of a cluster. Since it arrives within seconds or never, its word counts for
// as long as that, and ours for everything before and after.
func (b *Book) Happened(id, list, input string, e Event, now time.Time) (ok bool) {
	if e.At.After(now.Add(-eventStep)) { // its clock has whole seconds: what arrives now happened after what arrived before
		e.At = now
	}
	if earliest := now.Add(-eventDelay); e.At.Before(earliest) {
		e.At = earliest
	}
	e.Message, e.Reason, e.Object, e.Revision, e.Severity = clean(e.Message, MaxMessage), clean(e.Reason, 256), clean(e.Object, 512), clean(e.Revision, 256), clean(e.Severity, 16)
	c, on := b.of(id), aboutOf(list, input)
	c.mu.Lock()
	ok = c.flood.take(now, eventBurst, eventEvery)
	kept := ok && c.said(on, &e)
	c.mu.Unlock()
	if kept {
		b.tell(c, sortEvent, on)
	}
	if !ok {
		b.dropped.Add(1)
	}
	return ok
}

// eventStep is how exact an event's time is, and the way here.
const eventStep = 2 * time.Second

// eventDelay is within what an event arrives: Flux tries four times in 15 seconds.
const eventDelay = 30 * time.Second

// clean makes a text from outside one that every store can keep.
func clean(text string, most int) string {
	return strings.Clone(cut(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"), most))
}
