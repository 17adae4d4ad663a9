package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// The times of freezes: from and until, and the windows of the week.

func (d *Document) freeze() *freeze { return d.value.(*freeze) }

// phase returns pending, active or ended at a time.
func (f *freeze) phase(at time.Time) string {
	switch {
	case f.From != nil && at.Before(*f.From):
		return freezePending
	case f.Until != nil && !at.Before(*f.Until):
		return freezeEnded
	}
	return freezeActive
}

// The phases of a freeze.
const (
	freezePending = "pending"
	freezeActive  = "active"
	freezeEnded   = "ended"
)

// matches reports whether the selector matches a cluster.
func (f *freeze) matches(c *api.Cluster) bool {
	return f.All || f.Selector != "" && f.selector.Matches(c)
}

// isRecurring reports whether the freeze is open at some times of the week.
func (f *freeze) isRecurring() bool { return len(f.Allow)+len(f.Block) > 0 }

// zones returns the time zones that the windows of the freeze have on a cluster, by variable. They are the values before the
// change: it must not open a window for itself.
func (f *freeze) zones(e *Effective) map[string]string {
	var out map[string]string
	for _, w := range slices.Concat(f.Allow, f.Block) {
		value, set := e.cluster.Variables[w.TzVariable]
		if name, _ := variables.Text(value); set && name != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[w.TzVariable] = name
		}
	}
	return out
}

// nextOpen returns when the freeze permits changes next, at if it does so then. Not ok: not in time, or at no time of the week.
func (f *freeze) nextOpen(zones map[string]string, at time.Time) (time.Time, bool) {
	if !f.isRecurring() {
		return at, false
	}
	if f.phase(at) != freezeActive {
		return at, true
	}
	next, ok := f.nextInWeek(zones, at)
	if f.Until != nil && f.Until.Sub(at) <= openWithin && (!ok || f.Until.Before(next)) {
		return *f.Until, true
	}
	return next, ok
}

// nextInWeek is nextOpen by the windows alone.
func (f *freeze) nextInWeek(zones map[string]string, at time.Time) (time.Time, bool) {
	for t := at; t.Sub(at) <= openWithin; {
		next := t
		if len(f.Allow) > 0 {
			opens, _, ok := nextWindow(f.Allow, zones, t)
			if !ok {
				return at, false
			}
			next = opens
		}
		if opens, closes, ok := nextWindow(f.Block, zones, next); ok && !opens.After(next) {
			next = closes
		}
		if next.Equal(t) {
			return t, true
		}
		t = next
	}
	return at, false
}

// openings are the answers of the windows of freezes at one time. Clusters in one time zone share them.
type openings struct {
	at    time.Time
	known map[string]opening
}

type opening struct {
	next time.Time
	ok   bool
}

func newOpenings(at time.Time) *openings { return &openings{at, map[string]opening{}} }

// of returns when a freeze permits changes of a cluster next.
func (o *openings) of(d *Document, e *Effective) opening {
	f := d.freeze()
	if !f.isRecurring() {
		return opening{}
	}
	zones := f.zones(e)
	key := fmt.Sprintf("%s %q", d.ID, zones)
	known, ok := o.known[key]
	if !ok {
		known.next, known.ok = f.nextOpen(zones, o.at)
		o.known[key] = known
	}
	return known
}

// holds reports whether a freeze forbids changes of a cluster now.
func (o *openings) holds(d *Document, e *Effective) bool {
	if !d.freeze().matches(e.cluster) {
		return false
	}
	open := o.of(d, e)
	return !open.ok || open.next.After(o.at)
}

// latest returns when the last of some clusters is open; zero: unknown.
func (o *openings) latest(d *Document, clusters []*Effective) (at time.Time) {
	for _, e := range clusters {
		open := o.of(d, e)
		if !open.ok {
			return time.Time{}
		}
		at = later(at, open.next)
	}
	return at
}

// zoneVariables returns the variables that windows of freezes take for time zones, with a freeze.
func (s *State) zoneVariables() map[string]string {
	var out map[string]string
	for _, d := range s.docs[KindFreeze] {
		for _, w := range slices.Concat(d.freeze().Allow, d.freeze().Block) {
			if w.TzVariable == "" {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[w.TzVariable] = d.ID
		}
	}
	return out
}

// checkStoredZones checks the variables of all clusters and layers that windows of a freeze take for time zones.
func checkStoredZones(c *checker, field string, windows []api.Window) {
	for i, w := range windows {
		if w.TzVariable == "" {
			continue
		}
		var wrong []string
		check := func(d *Document, vars api.Variables) {
			if value, set := vars[w.TzVariable]; set && zoneValue(value) != nil {
				wrong = append(wrong, string(d.Kind)+"/"+d.ID)
			}
		}
		for _, d := range c.next.All(KindCluster) {
			check(d, d.Cluster().Variables)
		}
		for _, d := range c.next.All(KindLayer) {
			check(d, d.layer().Variables)
		}
		if len(wrong) > 0 {
			c.problem(jsontext.Pointer(field, i, "tz_variable"), "the variable %q is no time zone of the IANA database in %s", w.TzVariable, firstIDs(wrong, 3))
		}
	}
}

// zoneValue checks the value of a variable that is a time zone.
func zoneValue(value api.Variable) error {
	name, _ := variables.Text(value)
	if name == "" {
		return errors.New("it is empty")
	}
	_, err := zone(name)
	return err
}

// checkOpens warns if windows permit changes of no cluster.
func checkOpens(c *checker, f *freeze) {
	if f.isRecurring() {
		if _, ok := f.nextOpen(nil, c.next.At()); !ok {
			c.problem("/allow", "the freeze permits changes at no time of the week: block covers allow")
		}
	}
}
