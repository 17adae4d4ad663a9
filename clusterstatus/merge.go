package clusterstatus

import (
	"encoding/json"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// merge applies a row of another process. The later observation wins, whichever process made it; an unreadable row is ignored.
// A time in the future, by a clock that is ahead, is taken for now. outdated: the row is of a failure that a receipt of this
// process has ended, and other processes may not know the receipt.
func (c *cluster) merge(s subject, r Row, now time.Time) (outdated bool) {
	if r.ObservedAt.After(now) {
		r.ObservedAt = now
	}
	at := r.ObservedAt.UnixMilli()
	if at < c.createdAt {
		return false
	}
	switch s.kind {
	case kindSeen:
		if at <= c.storedSeen && c.agent != "" { // written by this process, or read before
			return false
		}
		var body seenBody
		if json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if c.storedSeen = max(c.storedSeen, at); at > c.seen || c.agent == "" {
			c.seen, c.agent = max(c.seen, at), unique.Make(body.Agent).Value()
		}
		if body.Interval > 0 && (c.interval == 0 || body.Interval < c.interval.Seconds()) {
			c.interval = time.Duration(body.Interval * float64(time.Second))
		}
	case kindShared:
		c.sharedSeen, c.storedShared = max(c.sharedSeen, at), max(c.storedShared, at)
	case kindPoll:
		c.mergePoll(s.key.list.Value(), r.Body, at)
	case kindReceipt:
		var body receiptBody
		if c.receipts[s.key].at >= at || json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if input, ok := fleet.ParseReceipt(body.Input); ok {
			c.seen = max(c.seen, at)
			c.storeReceipt(s.key, input, at)
		}
	case kindInvalidation:
		var body invalidationBody
		if c.invalidations[s.key].at >= at || json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if input, ok := fleet.ParseReceipt(body.Input); ok {
			c.addInvalidation(s.key, receipt{input, at})
		}
	case kindEvent:
		e := &Event{At: r.ObservedAt}
		if json.Unmarshal([]byte(r.Body), e) != nil {
			return false
		}
		if old := c.events[s.key]; old == nil || old.At.Before(r.ObservedAt) {
			return c.addEvent(s.key, e) && e.isFailure() && c.receipts[s.key].at > at
		}
	}
	return false
}

func (c *cluster) mergePoll(list, text string, at int64) {
	var body pollBody
	if json.Unmarshal([]byte(text), &body) != nil || body.ETag == "" {
		return
	}
	c.seen, c.classified = max(c.seen, at), nil
	given := decodeInputs(body.Served)
	p := c.poll(list)
	if p == nil {
		c.polls = append(c.polls, listPoll{list: list, etag: body.ETag, since: at, served: given})
		c.poll(list).removed.decode(body.Removed, at)
		return
	}
	p.removed.decode(body.Removed, at)
	p.reconcileRemotePoll(body.ETag, given, at)
	// Both processes may have served the same answer, this one a moment later; the first time counts.
	switch {
	case at > max(p.since, p.last):
		if p.etag != body.ETag {
			p.served, p.previous, p.outdatedSince = inputSet{}, inputSet{}, 0
		}
		p.etag, p.since = body.ETag, at
	case p.etag == body.ETag:
		p.since = min(p.since, at)
	default:
		c.markConflict(list, at)
	}
	if p.etag == body.ETag && !p.served.known && given.known {
		p.removed.addDifference(p.previous, given, p.since)
		p.served, p.previous = given, inputSet{}
	}
}

// markConflict records that another process served the cluster another answer at a time. If this process served one answer
// before and after it, the next poll counts as changed, so that its row is written again.
func (c *cluster) markConflict(list string, at int64) {
	if p := c.poll(list); p != nil && p.since < at && at <= p.last {
		p.conflict = true
	}
}
