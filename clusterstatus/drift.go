package clusterstatus

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Reasons of the events in which helm-controller reports that the objects of a release differ from what it installed, and what it did
// about it. Flux applied the input all the same, so such an event is no failure.
const (
	reasonDriftDetected         = "DriftDetected"
	reasonDriftCorrected        = "DriftCorrected"
	reasonDriftCorrectionFailed = "DriftCorrectionFailed"
)

// driftLifetime is how long a report counts. helm-controller repeats it at each reconciliation, every ten minutes by default, and sends
// none when somebody else corrects the objects.
const driftLifetime = 24 * time.Hour

// driftPrefix precedes the list in the key of a report of drift, so that it does not replace the last other event of the input. Names of
// lists have no colon.
const driftPrefix = "drift:"

// Drift is the last report of drift of an input.
type Drift struct {
	List, ID string
	Event
}

// Corrected reports whether Flux has corrected the drift.
func (d *Drift) Corrected() bool { return d.Reason == reasonDriftCorrected }

// isDrift reports whether an event is about drift.
func (e *Event) isDrift() bool {
	return e.Reason == reasonDriftDetected || e.Reason == reasonDriftCorrected || e.Reason == reasonDriftCorrectionFailed
}

// Drifts returns the last reports of drift of a cluster, the newest first. The desired inputs of the query do not matter.
func (t *Tracker) Drifts(q Query) []Drift {
	c, _ := t.lock(&q)
	defer c.mu.Unlock()
	return c.drifts(q.Now)
}

// drifts returns the reports of drift that count: those not older than driftLifetime, unless a later receipt names other content of the
// input.
func (c *cluster) drifts(now time.Time) []Drift {
	var out []Drift
	for key, e := range c.events {
		list, ok := strings.CutPrefix(key.list.Value(), driftPrefix)
		if !ok || now.Sub(e.At) > driftLifetime {
			continue
		}
		id := key.id.Value()
		if r, known := c.receipts[newInputKey(list, id)]; known && e.Input != "" && r.input.String() != e.Input && r.at > e.At.UnixMilli() {
			continue
		}
		out = append(out, Drift{list, id, *e})
	}
	slices.SortFunc(out, func(a, b Drift) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.List, b.List), cmp.Compare(a.ID, b.ID))
	})
	return out
}
