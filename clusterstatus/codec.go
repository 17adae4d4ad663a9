package clusterstatus

import (
	"encoding/json"
	"strings"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Sorts of subjects, as they stand before their first slash.
const (
	kindSeen         = "seen"
	kindPoll         = "poll"
	kindReceipt      = "receipt"
	kindInvalidation = "void"
	kindEvent        = "event"
)

// subject is what a row is about.
type subject struct {
	kind string
	key  inputKey
}

func (s subject) String() string {
	switch s.kind {
	case kindSeen:
		return s.kind
	case kindPoll:
		return s.kind + "/" + s.key.list.Value()
	}
	return s.kind + "/" + s.key.list.Value() + "/" + s.key.id.Value()
}

func parseSubject(text string) (s subject, ok bool) {
	sort, rest, _ := strings.Cut(text, "/")
	list, id, two := strings.Cut(rest, "/")
	s = subject{sort, newInputKey(list, id)}
	switch sort {
	case kindSeen:
		return s, rest == ""
	case kindPoll:
		return s, !two && list != ""
	case kindReceipt, kindInvalidation, kindEvent:
		return s, two && id != ""
	}
	return s, false
}

// subjects are all that there is of a cluster.
func (c *cluster) subjects() []subject {
	var out []subject
	if c.seen > 0 {
		out = append(out, subject{kind: kindSeen, key: newInputKey("", "")})
	}
	for _, p := range c.polls {
		if p.etag == "" {
			continue
		}
		out = append(out, subject{kindPoll, newInputKey(p.list, "")})
	}
	for key := range c.receipts {
		out = append(out, subject{kindReceipt, key})
	}
	for key := range c.invalidations {
		out = append(out, subject{kindInvalidation, key})
	}
	for key := range c.events {
		out = append(out, subject{kindEvent, key})
	}
	return out
}

// The bodies of rows.
type (
	seenBody struct {
		Agent    string  `json:"agent,omitempty"`
		Interval float64 `json:"interval,omitempty"` // seconds
	}
	pollBody struct {
		ETag     string `json:"etag"`
		Revision int64  `json:"revision,omitempty"` // that it was first served from
		// The receipts of what is in it, and of what the cluster was asked for shortly before, packed.
		Served  string `json:"asked,omitempty"`
		Removed string `json:"withdrawn,omitempty"`
	}
	receiptBody struct {
		Input string `json:"input"`
	}
	invalidationBody struct {
		Input string `json:"input"`
		Again bool   `json:"again,omitempty"` // true, for processes of the version before: receipts of later count
	}
)

// row is what the table is to keep of a subject; not ok when it was forgotten meanwhile.
func (c *cluster) encodeRow(s subject) (Row, bool) {
	var body any
	var said int64
	switch s.kind {
	case kindSeen:
		body, said = seenBody{c.agent, c.interval.Seconds()}, c.seen
	case kindPoll:
		p := c.poll(s.key.list.Value())
		if p == nil || p.etag == "" {
			return Row{}, false
		}
		body, said = pollBody{p.etag, p.revision, p.served.encode(), p.removed.encode(p.since)}, p.since
	case kindReceipt:
		r, ok := c.receipts[s.key]
		if !ok {
			return Row{}, false
		}
		body, said = receiptBody{r.input.String()}, r.at
	case kindInvalidation:
		v, ok := c.invalidations[s.key]
		if !ok {
			return Row{}, false
		}
		body, said = invalidationBody{v.input.String(), true}, v.at
	case kindEvent:
		e, ok := c.events[s.key]
		if !ok {
			return Row{}, false
		}
		body, said = e, e.At.UnixMilli()
	}
	text, err := json.Marshal(body)
	return Row{Cluster: c.id, Subject: s.String(), Body: string(text), ObservedAt: time.UnixMilli(said)}, err == nil
}

// merge takes over what another process wrote. What was said later wins, whoever heard it. What cannot be read is left out.
// A clock that is ahead of ours is not believed. outdated: it is of a failure, and this process has a receipt since, which others may not know.
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
		if at <= c.storedSeen && c.agent != "" { // it is what this process wrote, or has read already
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
	c.seen = max(c.seen, at)
	given := decodeInputs(body.Served)
	p := c.poll(list)
	if p == nil {
		c.polls = append(c.polls, listPoll{list: list, etag: body.ETag, since: at, served: given})
		c.poll(list).removed.decode(body.Removed, at)
		return
	}
	p.removed.decode(body.Removed, at)
	p.reconcileRemotePoll(body.ETag, given, at)
	// The same answer may have been given by us a moment later than by the other; the first time counts.
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

// contest notes that another process gave the cluster something else, at a time. Where this one has given it the same before and
// after, that is to be looked at again.
func (c *cluster) markConflict(list string, at int64) {
	if p := c.poll(list); p != nil && p.since < at && at <= p.last {
		p.conflict = true
	}
}
