package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"
	_ "time/tzdata" // a window must not depend on the machine

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

const (
	maxWindows = 20
	// openWithin is the time within which a window must open. Each opens at least once in a week, but for the days on which
	// the clocks change.
	openWithin = 8 * 24 * time.Hour
)

// weekdays are the names of days, in the order of time.Weekday.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const timeOfDay = "15:04"

// checkWindows checks a list of windows. Only those of freezes may read a variable of each cluster.
func checkWindows(c *checker, field string, windows []api.Window, ofFreeze bool) {
	c.atMost("/"+field, len(windows), maxWindows, "windows")
	for i := range windows {
		w, at := &windows[i], jsontext.Pointer(field, i)
		for j, day := range w.Days {
			c.oneOf(at+jsontext.Pointer("days", j), day, weekdays...)
		}
		for _, field := range []struct{ name, text string }{{"/from", w.From}, {"/to", w.To}} {
			if _, ok := minuteOfDay(field.text); !ok {
				c.problem(at+field.name, "%q is not a time such as 08:00", field.text)
			}
		}
		if _, err := zone(w.Tz); err != nil {
			c.problem(at+"/tz", "%v", err)
		}
		switch {
		case w.TzVariable != "" && !ofFreeze:
			c.problem(at+"/tz_variable", "only windows of a freeze have it: a stage has clusters of several time zones")
		case w.TzVariable != "" && !variables.IsName(w.TzVariable):
			c.problem(at+"/tz_variable", "%q is not a name of a variable", w.TzVariable)
		}
	}
}

// zoneName matches names of time zones. A name with an empty element or a dot would be a second one of the same zone.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*){0,2}$`)

// zone returns the time zone of a name of the IANA database; UTC for no name.
func zone(name string) (*time.Location, error) {
	at, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name != "" && !zoneName.MatchString(name) {
		return nil, fmt.Errorf("%q is not a time zone of the IANA database, such as Europe/Berlin", name)
	}
	return at, nil
}

// timeZones are the time zones of windows on a cluster.
type timeZones struct {
	variables map[string]string         // of windows with a variable, by the variable
	read      map[string]*time.Location // by name, nil for an unknown one: time.LoadLocation reads a file each time
}

// of returns the time zone of a window; nil: it does not exist. A variable that comes from another layer than before may have any value.
func (z timeZones) of(w *api.Window) *time.Location {
	name := cmp.Or(z.variables[w.TzVariable], w.Tz)
	at, known := z.read[name]
	if !known {
		at, _ = zone(name) // nil says that it does not exist
		if z.read != nil {
			z.read[name] = at
		}
	}
	return at
}

// nextOpening returns when the next window opens, now if one is open or there are none. Not ok: none opens in time, as in a
// database that was edited by hand.
func nextOpening(windows []api.Window, now time.Time) (at time.Time, ok bool) {
	if len(windows) == 0 {
		return now, true
	}
	return nextWindow(windows, timeZones{}, now)
}

// nextWindow returns when the first of the windows opens, now if it is open.
func nextWindow(windows []api.Window, zones timeZones, now time.Time) (opens time.Time, ok bool) {
	for i := range windows {
		if next, _, found := windowNext(&windows[i], zones, now, daysAhead); found && (!ok || next.Before(opens)) {
			opens, ok = next, true
		}
	}
	return opens, ok
}

// isOpen reports whether one of the windows is open.
func isOpen(windows []api.Window, zones timeZones, now time.Time) bool {
	return slices.ContainsFunc(windows, func(w api.Window) bool {
		opens, _, ok := windowNext(&w, zones, now, 0)
		return ok && !opens.After(now)
	})
}

// daysAhead is the number of days within which a window opens.
const daysAhead = 8

// windowNext returns when a window opens next, now if it is open, and when it closes. Only windows that begin until some days ahead count.
func windowNext(w *api.Window, zones timeZones, now time.Time, days int) (opens, closes time.Time, ok bool) {
	in := zones.of(w)
	from, okFrom := minuteOfDay(w.From)
	to, okTo := minuteOfDay(w.To)
	if in == nil || !okFrom || !okTo {
		return opens, closes, false
	}
	local := now.In(in)
	clock := clockOf(local)
	for day := -1; day <= days; day++ { // the window of yesterday may still be open
		if len(w.Days) > 0 && !slices.Contains(w.Days, weekdays[(int(local.Weekday())+day+7)%7]) {
			continue
		}
		opens, closes := clock(day, from), clock(day, to)
		if to <= from {
			closes = clock(day+1, to)
		}
		if now.Before(closes) && opens.Before(closes) {
			return later(opens, now), closes, true
		}
	}
	return opens, closes, false
}

// clockOf returns a function that returns when the clock shows a minute of the day, some days after that of a time.
func clockOf(local time.Time) func(day, minute int) time.Time {
	year, month, today := local.Date()
	begin, end := local.ZoneBounds()
	if (begin.IsZero() || local.Sub(begin) > openWithin) && (end.IsZero() || end.Sub(local) > 2*openWithin) { // it does not change
		_, offset := local.Zone()
		midnight := time.Date(year, month, today, 0, 0, 0, 0, time.UTC).Add(-time.Duration(offset) * time.Second)
		return func(day, minute int) time.Time {
			return midnight.Add(time.Duration(day)*24*time.Hour + time.Duration(minute)*time.Minute)
		}
	}
	return func(day, minute int) time.Time {
		return clockTime(time.Date(year, month, today+day, 12, 0, 0, 0, local.Location()), minute).UTC()
	}
}

// minuteOfDay returns the minute of a time such as 08:00.
func minuteOfDay(text string) (int, bool) {
	at, err := time.Parse(timeOfDay, text)
	return at.Hour()*60 + at.Minute(), err == nil && len(text) == len(timeOfDay)
}

// clockTime returns when the clock shows a time on a date. If the clock skips it, that is the end of the gap; if the clock
// shows it twice, the first time.
func clockTime(date time.Time, minute int) time.Time {
	at := time.Date(date.Year(), date.Month(), date.Day(), 0, minute, 0, 0, date.Location())
	begin, end := at.ZoneBounds()
	wall := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	shown, meant := wall(at), time.Date(date.Year(), date.Month(), date.Day(), 0, minute, 0, 0, time.UTC)
	switch {
	case shown.After(meant): // after the gap
		return begin
	case shown.Before(meant): // before it
		return end
	case begin.IsZero():
		return at
	}
	_, was := begin.Add(-time.Second).Zone()
	_, is := at.Zone()
	if earlier := at.Add(time.Duration(is-was) * time.Second); was > is && earlier.Before(begin) {
		return earlier
	}
	return at
}
