package clusterstatus

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Limits of one cluster. Its events are untrusted text, so they must not fill memory.
const (
	maxEvents     = 64 // further ones replace the oldest: see firstToRemove
	maxEventBytes = 16 << 10
	// MaxMessage is the limit of an event's message in bytes; the rest is cut off.
	MaxMessage = 2 << 10

	eventBurst = 60
	eventEvery = time.Second
	// maxRows is the limit of rows of one cluster in the Store: one half for each of its two records (see shared_reports.go).
	maxRows = 2 * 2128
)

// Event is an event of Flux on a cluster.
type Event struct {
	Input    string    `json:"input,omitempty"` // the receipt of the input that it is about; empty: unknown
	Severity string    `json:"severity"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Object   string    `json:"object"`
	Revision string    `json:"revision,omitempty"`
	At       time.Time `json:"-"` // by the clock of this process
	// Since is when the failure began, in milliseconds since 1970, if it was reported more than once; 0: at At.
	Since int64 `json:"since,omitempty"`
}

// First returns when the failure was first reported.
func (e *Event) First() time.Time {
	if e.Since == 0 || e.Since > e.At.UnixMilli() {
		return e.At
	}
	return time.UnixMilli(e.Since)
}

// severityError is the severity of failures in events of Flux.
const severityError = "error"

func (e *Event) isFailure() bool { return e.Severity == severityError && !e.isDrift() }

func (e *Event) size() int { return len(e.Message) + len(e.Object) + len(e.Reason) + len(e.Revision) }

// successReasons are the reasons of events that end a failure of the same object at the same input. They are reasons of
// controllers and of sources. A successful rollback is not among them, because the input still failed.
var successReasons = []string{"InstallSucceeded", "UpgradeSucceeded", "ReconciliationSucceeded", "NewArtifact", "Succeeded", "ChartPullSucceeded"}

// inputKey identifies an input by its list and its id.
type inputKey struct{ list, id unique.Handle[string] }

func newInputKey(list, id string) inputKey { return inputKey{unique.Make(list), unique.Make(id)} }

// receipt is the digest of an input and the time at which its receipt arrived, in milliseconds since 1970 to save memory.
type receipt struct {
	input fleet.Receipt
	at    int64
}

// listPoll is the answer that a cluster was last served for a list. Times are in milliseconds since 1970.
type listPoll struct {
	list, etag    string
	since, last   int64         // first and last poll that this answer was served for; last is 0 when another process served it
	outdatedSince int64         // when an evaluation first found that another list is desired; 0: none has
	interval      time.Duration // between two polls of this list, as this process sees them; 0: not known yet
	gaps          gaps
	conflict      bool  // another process served another answer between since and last
	revision      int64 // from which this answer was first served; 0: not known
	floor         floor
	served        inputSet
	previous      inputSet // the inputs of the answer before, while served is not known yet
	removed       removedInputs
}

// lastKnown returns the inputs of the last answer whose inputs are known.
func (p *listPoll) lastKnown() inputSet {
	if p.served.known {
		return p.served
	}
	return p.previous
}

// cluster holds the observations of one cluster. Times are in milliseconds since 1970.
type cluster struct {
	mu            sync.Mutex
	id            string
	createdAt     int64 // earlier observations are of a deleted cluster of the same id
	seen          int64
	storedSeen    int64 // the value of seen in the Store
	agent         string
	interval      time.Duration // between two polls of a list; 0: not known yet
	gaps          gaps
	polls         listPolls
	uncounted     listPolls            // used only for floors: see Poll.Uncounted
	sharedSeen    int64                // last poll with a token that is not the cluster's own
	storedShared  int64                // the value of sharedSeen in the Store
	receipts      map[inputKey]receipt // at most one for each desired input: see RecordReceipt
	invalidations map[inputKey]receipt // receipts of this input up to this time do not count
	sendsReceipts bool                 // it has sent a receipt
	events        map[inputKey]*Event
	eventBytes    int
	eventLimit    bucket
	receiptCount  *atomic.Int64 // of all clusters: Tracker.receiptCount
	// classified are the classes of the inputs at the last evaluation. Each change of an observation that they depend on sets it to
	// nil; the last polls of answers do not matter to it. nil: there was no evaluation since.
	classified *classifiedInputs
}

// bucket is a token bucket: full it allows burst events, and one more each interval.
type bucket struct {
	level float64
	at    time.Time
}

func (b *bucket) allow(now time.Time, burst int, every time.Duration) bool {
	if b.at.IsZero() {
		b.level = float64(burst)
	} else if passed := now.Sub(b.at); passed > 0 {
		b.level = math.Min(float64(burst), b.level+float64(passed)/float64(every))
	}
	b.at = now
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// recordPoll records a poll at a time in milliseconds. changed: its row has to be written. needServed: see [Tracker.RecordPoll].
func (c *cluster) recordPoll(poll *Poll, at int64) (changed, needServed bool) {
	c.seen = max(c.seen, at)
	if c.agent != poll.Agent {
		c.agent = unique.Make(truncate(poll.Agent, 256)).Value()
	}
	p := c.poll(poll.List)
	if p == nil {
		c.classified = nil
		c.polls = append(c.polls, listPoll{list: poll.List, etag: poll.ETag, since: at, last: at, revision: poll.Revision})
		return true, true
	}
	if p.last > 0 {
		gap := time.Duration(at-p.last) * time.Millisecond
		p.interval, c.interval = p.gaps.learn(p.interval, gap), c.gaps.learn(c.interval, gap)
	}
	p.last = at
	if p.etag != poll.ETag {
		c.classified = nil
		p.revision, p.outdatedSince = 0, 0
		p.previous, p.served = p.lastKnown(), inputSet{}
	}
	if changed = p.etag != poll.ETag || p.conflict; changed {
		p.etag, p.since, p.conflict = poll.ETag, at, false
	}
	needServed = changed || !p.served.known
	if needServed && p.revision == 0 {
		p.revision = poll.Revision
	}
	return changed, needServed
}

// recordUncountedPoll records the answer to a poll that does not count, and reports whether its row has to be written.
func (c *cluster) recordUncountedPoll(poll *Poll, at int64) (changed bool) {
	p := c.uncountedPoll(poll.List)
	if changed = p.etag != poll.ETag; changed {
		p.etag, p.since, p.revision = poll.ETag, at, poll.Revision
	}
	p.last = max(p.last, at)
	return changed
}

// poll returns the answer that the cluster was last served for a list; nil when there is none.
func (c *cluster) poll(list string) *listPoll { return c.polls.find(list) }

// uncountedPoll returns the last answer for a list to polls that do not count, and creates the entry on first use.
func (c *cluster) uncountedPoll(list string) *listPoll {
	if p := c.uncounted.find(list); p != nil {
		return p
	}
	c.uncounted = append(c.uncounted, listPoll{list: list})
	return &c.uncounted[len(c.uncounted)-1]
}

// gaps are the last gaps between two polls, in milliseconds to save memory. The zero value has none.
type gaps struct {
	last [8]uint32
	n    uint32 // how many there were
}

// learn returns the interval of polls after another gap between two of them: the shorter third of the last gaps ends there. So one or
// two short gaps, such as those of manual reconciliations, do not count, and longer ones count little: where there are several
// processes each sees some of the polls only. A longer interval is learned slowly, since other processes may know better.
func (g *gaps) learn(interval, gap time.Duration) time.Duration {
	if gap < time.Second { // a manual reconciliation
		return interval
	}
	g.last[g.n%uint32(len(g.last))] = uint32(min(gap.Milliseconds(), math.MaxUint32))
	g.n++
	known := g.last[:min(int(g.n), len(g.last))]
	if len(known) < 3 { // too few to tell a short one
		return max(interval, time.Duration(slices.Max(known))*time.Millisecond)
	}
	estimate := time.Duration(smallest(known, len(known)/3)) * time.Millisecond
	if estimate < interval {
		return estimate
	}
	return interval + (estimate-interval)/16
}

// smallest returns the value that has an index below 3 after sorting. Every poll calls it twice, so it does not sort.
func smallest(values []uint32, index int) uint32 {
	first := [3]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32}
	for _, v := range values {
		switch {
		case v < first[0]:
			first[0], first[1], first[2] = v, first[0], first[1]
		case v < first[1]:
			first[1], first[2] = v, first[1]
		case v < first[2]:
			first[2] = v
		}
	}
	return first[index]
}

// reset removes the observations before a time, at which the cluster was created.
func (c *cluster) reset(at int64) {
	if at <= c.createdAt {
		return
	}
	c.createdAt, c.classified = at, nil
	for i := range c.polls {
		p := &c.polls[i]
		if max(p.since, p.last) >= at {
			p.since = max(p.since, at)
			continue
		}
		// The new cluster was served nothing yet. Objects of the deleted one may still send receipts.
		p.removed.addAll(p.lastKnown().receipts, at)
		*p = listPoll{list: p.list, removed: p.removed}
	}
	c.dropReceipts(func(_ inputKey, r receipt) bool { return r.at < at })
	c.sendsReceipts = len(c.receipts) > 0
	maps.DeleteFunc(c.invalidations, func(_ inputKey, v receipt) bool { return v.at < at })
	for key, e := range c.events {
		if e.At.UnixMilli() < at {
			c.removeEvent(key)
		}
	}
	c.uncounted = slices.DeleteFunc(c.uncounted, func(p listPoll) bool { return p.last < at })
	if c.sharedSeen < at {
		c.sharedSeen, c.storedShared = 0, 0
	}
	if c.seen < at {
		c.seen, c.storedSeen, c.agent, c.interval, c.gaps = 0, 0, "", 0, gaps{}
	}
}

// confirmedAt returns when the cluster confirmed an input; not ok when it has not. served reports whether an input is in the
// list that the cluster was served last.
func (c *cluster) confirmedAt(key inputKey, input fleet.Receipt, served func(fleet.Receipt) bool) (at int64, ok bool) {
	r, known := c.receipts[key]
	if !known || r.input != input {
		return 0, false
	}
	v, _ := c.receiptCounts(key, r, served(input))
	return r.at, v == counts
}

// addEvent stores an event unless it leaves an earlier failure in place, and reports whether it did.
func (c *cluster) addEvent(key inputKey, e *Event) bool {
	if old := c.events[key]; old != nil {
		// The failure goes on: an object that applies its previous content again does not repair a source that failed.
		if old.isFailure() && (e.At.Before(old.At) || !e.isFailure() && (old.Input != e.Input || old.Object != e.Object || !slices.Contains(successReasons, e.Reason))) {
			return false
		}
		if old.isFailure() && e.isFailure() && old.Input == e.Input { // the same failure, reported again
			e.Since = old.First().UnixMilli()
		}
		c.removeEvent(key)
	}
	for len(c.events) > 0 && (len(c.events) >= maxEvents || c.eventBytes+e.size() > maxEventBytes) {
		first := c.firstToRemove()
		if e.isDrift() && c.events[first].isFailure() {
			return false
		}
		c.removeEvent(first)
	}
	if c.events == nil {
		c.events = map[inputKey]*Event{}
	}
	c.events[key], c.classified = e, nil
	c.eventBytes += e.size()
	return true
}

// firstToRemove returns the key of the event that is removed first for a new one: the oldest that is no failure, since a failed
// cluster that reports much, such as drift of many releases every ten minutes, is failed still.
func (c *cluster) firstToRemove() inputKey {
	return slices.MinFunc(slices.Collect(maps.Keys(c.events)), func(a, b inputKey) int {
		x, y := c.events[a], c.events[b]
		if x.isFailure() != y.isFailure() {
			if x.isFailure() {
				return 1
			}
			return -1
		}
		return x.At.Compare(y.At)
	})
}

func (c *cluster) removeEvent(key inputKey) {
	if old := c.events[key]; old != nil {
		c.eventBytes -= old.size()
		c.classified = nil
		delete(c.events, key)
	}
}

// truncate returns the text cut to at most that many bytes, at the end of a character.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
