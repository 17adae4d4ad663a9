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

func (e *Event) isFailure() bool { return e.Severity == severityError }

func (e *Event) size() int { return len(e.Message) + len(e.Object) + len(e.Reason) + len(e.Revision) }

// succeeded are the reasons of controllers and of sources that take a failure of the same object at the same input back. Rolling
// back succeeds, too, and is none.
var successReasons = []string{"InstallSucceeded", "UpgradeSucceeded", "ReconciliationSucceeded", "NewArtifact", "Succeeded", "ChartPullSucceeded"}

// about names an input: the list it is in, and its id.
type inputKey struct{ list, id unique.Handle[string] }

func newInputKey(list, id string) inputKey { return inputKey{unique.Make(list), unique.Make(id)} }

// receipt is the input that a cluster last said it has applied. Times are in milliseconds since 1970, to be small.
type receipt struct {
	input fleet.Receipt
	at    int64
}

// polled is the answer that a cluster was last given for a list.
type listPoll struct {
	list, etag    string
	since, last   int64         // it was first, and last, given that one; last is 0 when another process did
	outdatedSince int64         // when it was first found that another list is desired; 0: it is not, or nobody has asked
	interval      time.Duration // between two polls of this list, as this process sees them; 0: not known yet
	conflict      bool          // another process gave another one meanwhile
	revision      int64         // that it was first served from; 0: not known
	floor         floor
	served        inputSet
	previous      inputSet // the list that asked takes the place of; while what is in it is not known yet
	removed       removedInputs
}

// inputs are those of the last list of which it is known what is in it.
func (p *listPoll) lastKnown() inputSet {
	if p.served.known {
		return p.served
	}
	return p.previous
}

// cluster is what one cluster said.
type cluster struct {
	mu            sync.Mutex
	id            string
	createdAt     int64 // what was said before was said by another cluster of that id
	seen          int64
	storedSeen    int64 // the time of seen that the table has
	agent         string
	interval      time.Duration // between two polls of a list; 0: not known yet
	polls         listPolls
	receipts      map[inputKey]receipt // at most one for each input that is desired: see Received
	invalidations map[inputKey]receipt // of receipts of this input up to this time none counts
	sendsReceipts bool                 // it has sent a receipt
	events        map[inputKey]*Event
	eventBytes    int // of events
	eventLimit    bucket
	receiptCount  *atomic.Int64 // receipts of all clusters
}

// bucket is a token bucket: full it allows burst, and one more each interval.
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

// polled notes that the cluster was given an answer, and tells whether that is another one than before, and whether it is known
// what is in it.
func (c *cluster) recordPoll(list, etag, agent string, now time.Time) (changed, known bool) {
	at := now.UnixMilli()
	c.seen = max(c.seen, at)
	if c.agent != agent {
		c.agent = unique.Make(truncate(agent, 256)).Value()
	}
	p := c.poll(list)
	if p == nil {
		c.polls = append(c.polls, listPoll{list: list, etag: etag, since: at, last: at})
		return true, false
	}
	if p.last > 0 {
		gap := time.Duration(at-p.last) * time.Millisecond
		p.interval, c.interval = learnInterval(p.interval, gap), learnInterval(c.interval, gap)
	}
	p.last = at
	if p.etag != etag {
		p.revision, p.outdatedSince = 0, 0 // ServedFrom sets the revision
		p.previous, p.served = p.lastKnown(), inputSet{}
	}
	if changed = p.etag != etag || p.conflict; changed {
		p.etag, p.since, p.conflict = etag, at, false
	}
	return changed, p.served.known
}

// poll is what the cluster was last given of a list; nil when it never was.
func (c *cluster) poll(list string) *listPoll {
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
func (c *cluster) reset(at int64) {
	if at <= c.createdAt {
		return
	}
	c.createdAt = at
	for i := range c.polls {
		p := &c.polls[i]
		if max(p.since, p.last) >= at {
			p.since = max(p.since, at)
			continue
		}
		// It was given nothing yet. What the one before had may still send receipts.
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
	if c.seen < at {
		c.seen, c.storedSeen, c.agent, c.interval = 0, 0, "", 0
	}
}

// confirmed returns when the cluster confirmed an input, which served reports to be in the list that it was served last; not ok when
// it has not.
func (c *cluster) confirmedAt(key inputKey, input fleet.Receipt, served func(fleet.Receipt) bool) (at int64, ok bool) {
	r, known := c.receipts[key]
	if !known || r.input != input {
		return 0, false
	}
	v, _ := c.receiptCounts(key, r, served(input))
	return r.at, v == counts
}

// said notes an event, and tells whether it is kept.
func (c *cluster) addEvent(key inputKey, e *Event) bool {
	if old := c.events[key]; old != nil {
		// It goes on, and is not mended: what a source failed at is not, when the Kustomization applies what it had once more.
		if old.isFailure() && (e.At.Before(old.At) || !e.isFailure() && (old.Input != e.Input || old.Object != e.Object || !slices.Contains(successReasons, e.Reason))) {
			return false
		}
		c.removeEvent(key)
	}
	for len(c.events) > 0 && (len(c.events) >= maxEvents || c.eventBytes+e.size() > maxEventBytes) {
		oldest, when := key, time.Time{}
		for other, kept := range c.events {
			if when.IsZero() || kept.At.Before(when) {
				oldest, when = other, kept.At
			}
		}
		c.removeEvent(oldest)
	}
	if c.events == nil {
		c.events = map[inputKey]*Event{}
	}
	c.events[key] = e
	c.eventBytes += e.size()
	return true
}

func (c *cluster) removeEvent(key inputKey) {
	if old := c.events[key]; old != nil {
		c.eventBytes -= old.size()
		delete(c.events, key)
	}
}

// cut cuts a text to so many bytes, at the end of a character.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
