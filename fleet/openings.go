package fleet

import (
	"cmp"
	"fmt"
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
			if _, err := time.Parse(timeOfDay, field.text); err != nil || len(field.text) != len(timeOfDay) {
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

// zone returns the time zone of a name of the IANA database; UTC for no name.
func zone(name string) (*time.Location, error) {
	at, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is not a time zone of the IANA database, such as Europe/Berlin", name)
	}
	return at, nil
}

// nextOpening returns when the next window opens, now if one is open or there are none. Not ok: none opens in time, as in a
// database that was edited by hand.
func nextOpening(windows []api.Window, now time.Time) (at time.Time, ok bool) {
	if len(windows) == 0 {
		return now, true
	}
	opens, _, ok := nextWindow(windows, nil, now)
	return opens, ok
}

// nextWindow returns when the first of the windows opens, now if it is open, and when it closes. zones has the time zones of
// windows with a variable.
func nextWindow(windows []api.Window, zones map[string]string, now time.Time) (opens, closes time.Time, ok bool) {
	for i := range windows {
		o, c, found := windowNext(&windows[i], zones, now)
		if found && (!ok || o.Before(opens) || o.Equal(opens) && c.After(closes)) {
			opens, closes, ok = o, c, true
		}
	}
	return opens, closes, ok
}

// windowNext returns when a window opens next, now if it is open, and when it closes.
func windowNext(w *api.Window, zones map[string]string, now time.Time) (opens, closes time.Time, ok bool) {
	in, err := zone(cmp.Or(zones[w.TzVariable], w.Tz))
	from, badFrom := time.Parse(timeOfDay, w.From)
	to, badTo := time.Parse(timeOfDay, w.To)
	if cmp.Or(err, badFrom, badTo) != nil {
		return opens, closes, false
	}
	local := now.In(in)
	for day := -1; day <= 8; day++ { // the window of yesterday may still be open
		date := time.Date(local.Year(), local.Month(), local.Day()+day, 12, 0, 0, 0, in)
		opens, closes := clockTime(date, from).UTC(), clockTime(date, to).UTC()
		if !to.After(from) {
			closes = clockTime(date.AddDate(0, 0, 1), to).UTC()
		}
		if now.Before(closes) && opens.Before(closes) && (len(w.Days) == 0 || slices.Contains(w.Days, weekdays[date.Weekday()])) {
			return later(opens, now), closes, true
		}
	}
	return opens, closes, false
}

// clockTime returns when the clock shows a time on a date. If the clock skips it, that is the end of the gap; if the clock
// shows it twice, the first time.
func clockTime(date, clock time.Time) time.Time {
	at := time.Date(date.Year(), date.Month(), date.Day(), clock.Hour(), clock.Minute(), 0, 0, date.Location())
	begin, end := at.ZoneBounds()
	wall := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	shown, meant := wall(at), time.Date(date.Year(), date.Month(), date.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC)
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
