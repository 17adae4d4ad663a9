package observations

import (
	"encoding/json"
	"strings"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Sorts of subjects, as they stand before their first slash.
const (
	sortSeen    = "seen"
	sortPoll    = "poll"
	sortReceipt = "receipt"
	sortVoid    = "void"
	sortEvent   = "event"
)

// subject is what a row is about.
type subject struct {
	sort string
	on   about
}

func (s subject) String() string {
	switch s.sort {
	case sortSeen:
		return s.sort
	case sortPoll:
		return s.sort + "/" + s.on.list.Value()
	}
	return s.sort + "/" + s.on.list.Value() + "/" + s.on.id.Value()
}

func parseSubject(text string) (s subject, ok bool) {
	sort, rest, _ := strings.Cut(text, "/")
	list, id, two := strings.Cut(rest, "/")
	s = subject{sort, aboutOf(list, id)}
	switch sort {
	case sortSeen:
		return s, rest == ""
	case sortPoll:
		return s, !two && list != ""
	case sortReceipt, sortVoid, sortEvent:
		return s, two && id != ""
	}
	return s, false
}

// subjects are all that there is of a cluster.
func (c *cluster) subjects() []subject {
	var out []subject
	if c.seen > 0 {
		out = append(out, subject{sort: sortSeen, on: aboutOf("", "")})
	}
	for _, p := range c.polls {
		if p.etag == "" {
			continue
		}
		out = append(out, subject{sortPoll, aboutOf(p.list, "")})
	}
	for on := range c.receipts {
		out = append(out, subject{sortReceipt, on})
	}
	for on := range c.voids {
		out = append(out, subject{sortVoid, on})
	}
	for on := range c.events {
		out = append(out, subject{sortEvent, on})
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
		Asked     string `json:"asked,omitempty"`
		Withdrawn string `json:"withdrawn,omitempty"`
	}
	receiptBody struct {
		Input string `json:"input"`
	}
	voidBody struct {
		Input string `json:"input"`
		Again bool   `json:"again,omitempty"` // true, for processes of the version before: receipts of later count
	}
)

// row is what the table is to keep of a subject; not ok when it was forgotten meanwhile.
func (c *cluster) row(s subject) (Row, bool) {
	var body any
	var said int64
	switch s.sort {
	case sortSeen:
		body, said = seenBody{c.agent, c.interval.Seconds()}, c.seen
	case sortPoll:
		p := c.poll(s.on.list.Value())
		if p == nil || p.etag == "" {
			return Row{}, false
		}
		body, said = pollBody{p.etag, p.revision, p.asked.text(), p.withdrawn.text(p.since)}, p.since
	case sortReceipt:
		r, ok := c.receipts[s.on]
		if !ok {
			return Row{}, false
		}
		body, said = receiptBody{r.input.String()}, r.at
	case sortVoid:
		v, ok := c.voids[s.on]
		if !ok {
			return Row{}, false
		}
		body, said = voidBody{v.input.String(), true}, v.at
	case sortEvent:
		e, ok := c.events[s.on]
		if !ok {
			return Row{}, false
		}
		body, said = e, e.At.UnixMilli()
	}
	text, err := json.Marshal(body)
	return Row{Cluster: c.id, Subject: s.String(), Body: string(text), Said: time.UnixMilli(said)}, err == nil
}

// merge takes over what another process wrote. What was said later wins, whoever heard it. What cannot be read is left out.
// A clock that is ahead of ours is not believed. outdated: it is of a failure, and this process has a receipt since, which others may not know.
func (c *cluster) merge(s subject, r Row, now time.Time) (outdated bool) {
	if r.Said.After(now) {
		r.Said = now
	}
	at := r.Said.UnixMilli()
	if at < c.born {
		return false
	}
	switch s.sort {
	case sortSeen:
		if at <= c.kept && c.agent != "" { // it is what this process wrote, or has read already
			return false
		}
		var body seenBody
		if json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if c.kept = max(c.kept, at); at > c.seen || c.agent == "" {
			c.seen, c.agent = max(c.seen, at), unique.Make(body.Agent).Value()
		}
		if body.Interval > 0 && (c.interval == 0 || body.Interval < c.interval.Seconds()) {
			c.interval = time.Duration(body.Interval * float64(time.Second))
		}
	case sortPoll:
		c.mergePoll(s.on.list.Value(), r.Body, at)
	case sortReceipt:
		var body receiptBody
		if c.receipts[s.on].at >= at || json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if input, ok := fleet.ParseReceipt(body.Input); ok {
			c.seen = max(c.seen, at)
			c.received(s.on, input, at)
		}
	case sortVoid:
		var body voidBody
		if c.voids[s.on].at >= at || json.Unmarshal([]byte(r.Body), &body) != nil {
			return false
		}
		if input, ok := fleet.ParseReceipt(body.Input); ok {
			c.void(s.on, receipt{input, at})
		}
	case sortEvent:
		e := &Event{At: r.Said}
		if json.Unmarshal([]byte(r.Body), e) != nil {
			return false
		}
		if old := c.events[s.on]; old == nil || old.At.Before(r.Said) {
			return c.said(s.on, e) && e.failed() && c.receipts[s.on].at > at
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
	given := readInputs(body.Asked)
	p := c.poll(list)
	if p == nil {
		c.polls = append(c.polls, polled{list: list, etag: body.ETag, since: at, asked: given})
		c.poll(list).withdrawn.read(body.Withdrawn, at)
		return
	}
	p.withdrawn.read(body.Withdrawn, at)
	p.overtaken(body.ETag, given, at)
	// The same answer may have been given by us a moment later than by the other; the first time counts.
	switch {
	case at > max(p.since, p.last):
		if p.etag != body.ETag {
			p.asked, p.before, p.outdated = inputs{}, inputs{}, 0
		}
		p.etag, p.since = body.ETag, at
	case p.etag == body.ETag:
		p.since = min(p.since, at)
	default:
		c.contest(list, at)
	}
	if p.etag == body.ETag && !p.asked.known && given.known {
		p.withdrawn.add(p.before, given, p.since)
		p.asked, p.before = given, inputs{}
	}
}

// contest notes that another process gave the cluster something else, at a time. Where this one has given it the same before and
// after, that is to be looked at again.
func (c *cluster) contest(list string, at int64) {
	if p := c.poll(list); p != nil && p.since < at && at <= p.last {
		p.contested = true
	}
}
