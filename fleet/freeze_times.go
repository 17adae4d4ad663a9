package fleet

import (
	"errors"
	"slices"
	"strings"
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

// hasWindows reports whether a freeze has windows.
func (s *State) hasWindows() bool {
	return slices.ContainsFunc(s.All(KindFreeze), func(d *Document) bool { return d.freeze().isRecurring() })
}

// zones returns the time zones that the windows of the freeze have on a cluster, as one text. They are the values before the
// change: it must not open a window for itself.
func (f *freeze) zones(e *Effective) string {
	switch len(f.zoneVariables) {
	case 0:
		return ""
	case 1:
		name, _ := variables.Text(e.cluster.Variables[f.zoneVariables[0]])
		return name
	}
	names := make([]string, len(f.zoneVariables))
	for i, variable := range f.zoneVariables {
		if value, set := e.cluster.Variables[variable]; set {
			names[i], _ = variables.Text(value)
		}
	}
	return strings.Join(names, "\x00")
}

// zonesByVariable returns the result of zones by the names of the variables.
func (f *freeze) zonesByVariable(zones string) map[string]string {
	out := map[string]string{}
	for i, name := range strings.Split(zones, "\x00") {
		if i < len(f.zoneVariables) {
			out[f.zoneVariables[i]] = name
		}
	}
	return out
}

// readZoneVariables sets the variables that windows take for time zones.
func (f *freeze) readZoneVariables() {
	f.zoneVariables = nil
	for _, w := range slices.Concat(f.Allow, f.Block) {
		if w.TzVariable != "" && !slices.Contains(f.zoneVariables, w.TzVariable) {
			f.zoneVariables = append(f.zoneVariables, w.TzVariable)
		}
	}
}

// nextOpen returns when the freeze permits changes next, at if it does so then. Not ok: not in time, or at no time of the week.
func (f *freeze) nextOpen(zones timeZones, at time.Time) (time.Time, bool) {
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
func (f *freeze) nextInWeek(zones timeZones, at time.Time) (time.Time, bool) {
	for t := at; t.Sub(at) <= openWithin; {
		next := t
		if len(f.Allow) > 0 {
			opens, ok := nextWindow(f.Allow, zones, t)
			if !ok {
				return at, false
			}
			next = opens
		}
		for i := range f.Block {
			opens, closes, ok := windowNext(&f.Block[i], zones, next, daysAhead)
			switch {
			case zones.of(&f.Block[i]) == nil: // it may be now
				return at, false
			case ok && !opens.After(next):
				next = closes
			}
		}
		if next.Equal(t) {
			return t, true
		}
		t = next
	}
	return at, false
}

// permits reports whether the freeze permits changes at a time.
func (f *freeze) permits(zones timeZones, at time.Time) bool {
	switch {
	case f.phase(at) != freezeActive:
		return true
	case !f.isRecurring(), slices.ContainsFunc(f.Block, func(w api.Window) bool { return zones.of(&w) == nil }):
		return false
	}
	return (len(f.Allow) == 0 || isOpen(f.Allow, zones, at)) && !isOpen(f.Block, zones, at)
}

// openings are the answers of the windows of freezes at one time. Clusters in one time zone share them.
type openings struct {
	at      time.Time
	permits map[openingKey]bool
	read    map[string]*time.Location
}

type openingKey struct {
	freeze *Document
	zones  string
}

func newOpenings(at time.Time) *openings {
	return &openings{at, map[openingKey]bool{}, map[string]*time.Location{}}
}

// holds reports whether a freeze forbids changes of a cluster now.
func (o *openings) holds(d *Document, e *Effective) bool {
	f := d.freeze()
	if !f.matches(e.cluster) {
		return false
	}
	key := openingKey{d, f.zones(e)}
	permits, known := o.permits[key]
	if !known {
		permits = f.permits(timeZones{f.zonesByVariable(key.zones), o.read}, o.at)
		o.permits[key] = permits
	}
	return !permits
}

// latest returns when the last of some clusters is open; zero: unknown.
func (o *openings) latest(d *Document, clusters []*Effective) (at time.Time) {
	f, seen := d.freeze(), map[string]bool{}
	for _, e := range clusters {
		zones := f.zones(e)
		if seen[zones] {
			continue
		}
		seen[zones] = true
		next, ok := f.nextOpen(timeZones{f.zonesByVariable(zones), o.read}, o.at)
		if !ok {
			return time.Time{}
		}
		at = later(at, next)
	}
	return at
}

// zoneVariables returns which of some variables windows of freezes take for time zones, with such a freeze. concerns reports whether
// a freeze has a cluster with these variables: those of other clusters may have any value.
func (s *State) zoneVariables(vars api.Variables, concerns func(*freeze) bool) map[string]string {
	var out map[string]string
	if len(vars) == 0 {
		return nil
	}
	for _, d := range s.docs[KindFreeze] {
		for i, f := 0, d.freeze(); i < len(f.zoneVariables); i++ {
			name := f.zoneVariables[i]
			if _, set := vars[name]; !set || out[name] != "" && out[name] < d.ID || !concerns(f) {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[name] = d.ID
		}
	}
	return out
}

// shareClusters reports whether a cluster is in a freeze and matches a layer.
func (s *State) shareClusters(f *freeze, l *layer) bool {
	return slices.ContainsFunc(s.All(KindCluster), func(d *Document) bool { return f.matches(d.Cluster()) && l.matches(d.Cluster()) })
}

// checkStoredZones checks the variables of the clusters of a freeze, and of their layers, that its windows take for time zones.
func checkStoredZones(c *checker, field string, f *freeze, windows []api.Window) {
	checked := map[string]bool{"": true}
	for i, w := range windows {
		if checked[w.TzVariable] {
			continue
		}
		checked[w.TzVariable] = true
		var wrong []string
		isWrong := func(vars api.Variables) bool {
			value, set := vars[w.TzVariable]
			return set && zoneValue(value) != nil
		}
		for _, d := range c.next.All(KindCluster) {
			if isWrong(d.Cluster().Variables) && f.matches(d.Cluster()) {
				wrong = append(wrong, string(d.Kind)+"/"+d.ID)
			}
		}
		for _, d := range c.next.All(KindLayer) {
			if isWrong(d.layer().Variables) && c.next.shareClusters(f, d.layer()) {
				wrong = append(wrong, string(d.Kind)+"/"+d.ID)
			}
		}
		if len(wrong) > 0 {
			c.problem(jsontext.Pointer(field, i, "tz_variable"), "its value is not a time zone of the IANA database in %s: correct the variable %q there first", firstIDs(wrong, 3), w.TzVariable)
			return
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

// checkOpens refuses windows that permit changes at no time of the week.
func checkOpens(c *checker, f *freeze) {
	if f.isRecurring() {
		if _, ok := f.nextOpen(timeZones{}, c.next.At()); !ok {
			c.problem("/allow", "the freeze permits changes at no time of the week: block covers allow")
		}
	}
}
