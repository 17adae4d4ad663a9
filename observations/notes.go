package observations

import (
	"strings"
	"time"

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

// Given records what is in the list that a cluster was served. Receipts of what is not in it any more do not count from then on, also
// when it is in it again later: see receiptCounts.
func (b *Book) Given(id string, asked fleet.Asked, now time.Time) {
	c, at := b.of(id), now.UnixMilli()
	c.mu.Lock()
	c.asked(asked, at)
	voids := c.invalidate(asked.List, at)
	c.mu.Unlock()
	b.tell(c, sortPoll, aboutOf(asked.List, ""))
	for _, on := range voids {
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
