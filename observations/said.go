package observations

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

// Limits on what is kept of one cluster. It can say what it wants, so it must not be able to fill anything but these.
const (
	maxEvents     = 64 // the oldest is forgotten first
	maxEventBytes = 16 << 10
	// MaxMessage is how much of an event's message is kept, in bytes.
	MaxMessage = 2 << 10

	eventBurst = 60
	eventEvery = time.Second
	// maxRows is how many rows of one cluster stay in the table.
	maxRows = 2128
)

// Event is what a cluster's Flux had to say about an object.
type Event struct {
	Input    string    `json:"input,omitempty"` // the receipt of the input that it was about; empty: it does not say
	Severity string    `json:"severity"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Object   string    `json:"object"` // kind/namespace/name
	Revision string    `json:"revision,omitempty"`
	At       time.Time `json:"-"` // by our clock
}

// severityError is how Flux calls what went wrong.
const severityError = "error"

func (e *Event) failed() bool { return e.Severity == severityError }

func (e *Event) size() int { return len(e.Message) + len(e.Object) + len(e.Reason) + len(e.Revision) }

// succeeded are the reasons of controllers and of sources that take a failure of the same object at the same input back. Rolling
// back succeeds, too, and is none.
var succeeded = []string{"InstallSucceeded", "UpgradeSucceeded", "ReconciliationSucceeded", "NewArtifact", "Succeeded", "ChartPullSucceeded"}

// about names an input: the list it is in, and its id.
type about struct{ list, id unique.Handle[string] }

func aboutOf(list, id string) about { return about{unique.Make(list), unique.Make(id)} }

// receipt is the input that a cluster last said it has applied. Times are in milliseconds since 1970, to be small.
type receipt struct {
	input fleet.Receipt
	at    int64
}

// polled is the answer that a cluster was last given for a list.
type polled struct {
	list, etag  string
	since, last int64         // it was first, and last, given that one; last is 0 when another process did
	outdated    int64         // when it was first found that another list is desired; 0: it is not, or nobody has asked
	interval    time.Duration // between two polls of this list, as this process sees them; 0: not known yet
	contested   bool          // another process gave another one meanwhile
	revision    int64         // that it was first served from; 0: not known
	floor       floor
	asked       inputs
	before      inputs // the list that asked takes the place of; while what is in it is not known yet
	withdrawn   withdrawn
}

// inputs are those of the last list of which it is known what is in it.
func (p *polled) inputs() inputs {
	if p.asked.known {
		return p.asked
	}
	return p.before
}

// cluster is what one cluster said.
type cluster struct {
	mu       sync.Mutex
	id       string
	born     int64 // what was said before was said by another cluster of that id
	seen     int64
	kept     int64 // the time of seen that the table has
	agent    string
	interval time.Duration // between two polls of a list; 0: not known yet
	polls    polls
	receipts map[about]receipt // at most one for each input that is desired: see Received
	voids    map[about]receipt // of receipts of this input up to this time none counts
	reports  bool              // it has sent a receipt
	events   map[about]*Event
	bytes    int // of events
	flood    bucket
	stored   *atomic.Int64 // receipts of all clusters
}

// bucket is a token bucket: full it allows burst, and one more each interval.
type bucket struct {
	level float64
	at    time.Time
}

func (b *bucket) take(now time.Time, burst int, every time.Duration) bool {
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

// polled notes that the cluster was given an answer, and tells whether that is another one than before, and whether it is known
// what is in it.
func (c *cluster) polled(list, etag, agent string, now time.Time) (changed, known bool) {
	at := now.UnixMilli()
	c.seen = max(c.seen, at)
	if c.agent != agent {
		c.agent = unique.Make(cut(agent, 256)).Value()
	}
	p := c.poll(list)
	if p == nil {
		c.polls = append(c.polls, polled{list: list, etag: etag, since: at, last: at})
		return true, false
	}
	if p.last > 0 {
		gap := time.Duration(at-p.last) * time.Millisecond
		p.interval, c.interval = learnInterval(p.interval, gap), learnInterval(c.interval, gap)
	}
	p.last = at
	if p.etag != etag {
		p.revision, p.outdated = 0, 0 // ServedFrom sets the revision
		p.before, p.asked = p.inputs(), inputs{}
	}
	if changed = p.etag != etag || p.contested; changed {
		p.etag, p.since, p.contested = etag, at, false
	}
	return changed, p.asked.known
}

// poll is what the cluster was last given of a list; nil when it never was.
func (c *cluster) poll(list string) *polled {
	for i := range c.polls {
		if c.polls[i].list == list {
			return &c.polls[i]
		}
	}
	return nil
}

// learnInterval returns the interval of polls after another gap between two of them. The shortest gap counts, and its weight fades slowly:
// where there are several processes each sees some of the polls only.
func learnInterval(interval, gap time.Duration) time.Duration {
	switch {
	case gap < time.Second: // somebody asked for it
		return interval
	case interval == 0 || gap < interval:
		return gap
	}
	return interval + (gap-interval)/16
}

// begins forgets what was said before a time.
func (c *cluster) begins(at int64) {
	if at <= c.born {
		return
	}
	c.born = at
	for i := range c.polls {
		p := &c.polls[i]
		if max(p.since, p.last) >= at {
			p.since = max(p.since, at)
			continue
		}
		// It was given nothing yet. What the one before had may still send receipts.
		p.withdrawn.note(p.inputs().receipts, at)
		*p = polled{list: p.list, withdrawn: p.withdrawn}
	}
	c.dropReceipts(func(_ about, r receipt) bool { return r.at < at })
	c.reports = len(c.receipts) > 0
	maps.DeleteFunc(c.voids, func(_ about, v receipt) bool { return v.at < at })
	for on, e := range c.events {
		if e.At.UnixMilli() < at {
			c.forget(on)
		}
	}
	if c.seen < at {
		c.seen, c.kept, c.agent, c.interval = 0, 0, "", 0
	}
}

// confirmed returns when the cluster confirmed an input, which served reports to be in the list that it was served last; not ok when
// it has not.
func (c *cluster) confirmed(on about, input fleet.Receipt, served func(fleet.Receipt) bool) (at int64, ok bool) {
	r, known := c.receipts[on]
	if !known || r.input != input {
		return 0, false
	}
	v, _ := c.receiptCounts(on, r, served(input))
	return r.at, v == counts
}

// said notes an event, and tells whether it is kept.
func (c *cluster) said(on about, e *Event) bool {
	if old := c.events[on]; old != nil {
		// It goes on, and is not mended: what a source failed at is not, when the Kustomization applies what it had once more.
		if old.failed() && (e.At.Before(old.At) || !e.failed() && (old.Input != e.Input || old.Object != e.Object || !slices.Contains(succeeded, e.Reason))) {
			return false
		}
		c.forget(on)
	}
	for len(c.events) > 0 && (len(c.events) >= maxEvents || c.bytes+e.size() > maxEventBytes) {
		oldest, when := on, time.Time{}
		for other, kept := range c.events {
			if when.IsZero() || kept.At.Before(when) {
				oldest, when = other, kept.At
			}
		}
		c.forget(oldest)
	}
	if c.events == nil {
		c.events = map[about]*Event{}
	}
	c.events[on] = e
	c.bytes += e.size()
	return true
}

func (c *cluster) forget(on about) {
	if old := c.events[on]; old != nil {
		c.bytes -= old.size()
		delete(c.events, on)
	}
}

// cut cuts a text to so many bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
