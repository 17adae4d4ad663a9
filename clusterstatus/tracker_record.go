package clusterstatus

import (
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Poll is a poll of one list of a cluster by its Flux, and the answer that it was served.
type Poll struct {
	Cluster string // its id
	// Created is the time at which the cluster was created. Earlier observations are of a deleted cluster of the same id, and are removed.
	Created    time.Time
	List, ETag string
	Agent      string // the User-Agent
	Revision   int64  // of the State that the answer is from
	Shared     bool   // the token is not the cluster's own: the poll belongs to the record [WithSharedToken]
	// Uncounted: the poll does not change the state of the cluster. Its answer is recorded only so that the next one, by any process and
	// for any token, is not older: see [Tracker.ServedNewer].
	Uncounted bool
}

// RecordPoll records a poll. needServed: the caller has to call RecordServed, because the answer differs from the last one or the
// inputs of the answer are not known.
func (t *Tracker) RecordPoll(p Poll, now time.Time) (needServed bool) {
	name, kind := p.Cluster, kindPoll
	if p.Shared && !p.Uncounted {
		name = WithSharedToken(name)
	}
	c := t.cluster(name)
	c.mu.Lock()
	if !p.Created.IsZero() {
		c.reset(p.Created.UnixMilli())
	}
	if p.Uncounted && p.Shared {
		c.sharedSeen = max(c.sharedSeen, now.UnixMilli())
	}
	var changed bool
	if p.Uncounted {
		kind, changed = kindUncounted, c.recordUncountedPoll(&p, now.UnixMilli())
	} else {
		changed, needServed = c.recordPoll(&p, now.UnixMilli())
	}
	c.mu.Unlock()
	if changed {
		t.enqueue(c, kind, newInputKey(p.List, ""))
	}
	return needServed
}

// RecordServed records the inputs of the list that a cluster was served. Receipts of inputs that are no longer in it do not
// count from then on, also when the inputs are served again later: see receiptCounts.
func (t *Tracker) RecordServed(id string, desired fleet.DesiredInputs, now time.Time) {
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

// RecordEvent records an event of a cluster. It is about an input of a list or, where list is empty, about the object that id
// names. Not ok when the cluster exceeds its rate limit; the event is dropped then.
//
// The time of an event is by the clock of the cluster. Since an event arrives within maxEventDelay or never, its time is
// clamped to that long before now.
func (t *Tracker) RecordEvent(id, list, input string, e Event, now time.Time) (ok bool) {
	if e.At.After(now.Add(-eventResolution)) { // its clock has whole seconds: an event that arrives now happened after one that arrived before
		e.At = now
	}
	if earliest := now.Add(-maxEventDelay); e.At.Before(earliest) {
		e.At = earliest
	}
	e.Message, e.Reason, e.Object, e.Revision, e.Severity = cleanText(e.Message, MaxMessage), cleanText(e.Reason, 256), cleanText(e.Object, 512), cleanText(e.Revision, 256), cleanText(e.Severity, 16)
	if list != "" && e.isDrift() {
		list = driftPrefix + list
	}
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

// eventResolution is the resolution of an event's time, plus the time of transport.
const eventResolution = 2 * time.Second

// maxEventDelay is the longest time from an event to its arrival: Flux tries four times in 15 seconds.
const maxEventDelay = 30 * time.Second

// cleanText returns untrusted text as valid UTF-8 without NUL bytes, which Postgres refuses, of at most that many bytes.
func cleanText(text string, most int) string {
	return strings.Clone(truncate(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"), most))
}
