package clusterstatus

import (
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Polled notes that a cluster itself asked for a list, and was given the answer of that ETag. It tells whether Given has to say
// what is in it: that is another one than before, or nobody knows.
func (t *Tracker) RecordPoll(id, list, etag, agent string, now time.Time) (needServed bool) {
	c := t.cluster(id)
	c.mu.Lock()
	changed, known := c.recordPoll(list, etag, agent, now)
	c.mu.Unlock()
	if changed {
		t.enqueue(c, kindPoll, newInputKey(list, ""))
	}
	return changed || !known
}

// Given records what is in the list that a cluster was served. Receipts of what is not in it any more do not count from then on, also
// when it is in it again later: see receiptCounts.
func (t *Tracker) RecordServed(id string, desired fleet.Asked, now time.Time) {
	c, at := t.cluster(id), now.UnixMilli()
	c.mu.Lock()
	c.recordServed(desired, at)
	invalidated := c.invalidateReceipts(desired.List, at)
	c.mu.Unlock()
	t.enqueue(c, kindPoll, newInputKey(desired.List, ""))
	for _, key := range invalidated {
		t.enqueue(c, kindInvalidation, key)
	}
}

// Begins says since when there is a cluster of that id: what was said before was said by another one, and is forgotten.
func (t *Tracker) ResetCluster(id string, at time.Time) {
	t.mu.RLock()
	c := t.clusters[id]
	t.mu.RUnlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	c.reset(at.UnixMilli())
	c.mu.Unlock()
}

// Happened notes an event of a cluster. It is about an input of a list or, where list is empty, about the object that id names.
// Not ok when the cluster sends too many: this one is lost then.
//
// The event says when it happened by the clock of a cluster. Since it arrives within seconds or never, its word counts for
// as long as that, and ours for everything before and after.
func (t *Tracker) RecordEvent(id, list, input string, e Event, now time.Time) (ok bool) {
	if e.At.After(now.Add(-eventResolution)) { // its clock has whole seconds: what arrives now happened after what arrived before
		e.At = now
	}
	if earliest := now.Add(-maxEventDelay); e.At.Before(earliest) {
		e.At = earliest
	}
	e.Message, e.Reason, e.Object, e.Revision, e.Severity = cleanText(e.Message, MaxMessage), cleanText(e.Reason, 256), cleanText(e.Object, 512), cleanText(e.Revision, 256), cleanText(e.Severity, 16)
	c, key := t.cluster(id), newInputKey(list, input)
	c.mu.Lock()
	ok = c.eventLimit.allow(now, eventBurst, eventEvery)
	kept := ok && c.addEvent(key, &e)
	c.mu.Unlock()
	if kept {
		t.enqueue(c, kindEvent, key)
	}
	if !ok {
		t.dropped.Add(1)
	}
	return ok
}

// eventStep is how exact an event's time is, and the way here.
const eventResolution = 2 * time.Second

// eventDelay is within what an event arrives: Flux tries four times in 15 seconds.
const maxEventDelay = 30 * time.Second

// clean makes a text from outside one that every store can keep.
func cleanText(text string, most int) string {
	return strings.Clone(truncate(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"), most))
}
