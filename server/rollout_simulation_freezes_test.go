package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Freezes with windows and start times in the simulation, and what they permit by other code than the fleet's: a time of the week
// is found by a walk over the minutes of a clock on the wall.

// simulatedFreeze is the document of a freeze.
type simulatedFreeze struct {
	id           string
	Selector     string
	All          bool
	From, Until  *time.Time
	Allow, Block []api.Window
}

// simulatedStarts are times at which simulations begin: an ordinary one, and just before clocks change in Berlin and New York.
var simulatedStarts = []time.Time{
	time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 29, 0, 54, 0, 0, time.UTC),
	time.Date(2026, 10, 25, 0, 54, 0, 0, time.UTC), time.Date(2026, 3, 8, 6, 54, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 55, 0, 0, time.UTC),
}

var simulatedZones = []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata"}

// simulatedLayerZone is the value of the variable timezone of the clusters with the label tier=b that do not set it.
const simulatedLayerZone = "Asia/Kolkata"

// wallClock shows the times of day in a zone, and remembers what it was asked.
type wallClock struct {
	mu    sync.Mutex
	known map[string]time.Time
	zones map[string]*time.Location
}

var wall = wallClock{known: map[string]time.Time{}, zones: map[string]*time.Location{}}

// shows returns the first minute at which the clock of a zone shows a time of a day, or a later one if it skips that.
func (c *wallClock) shows(zone string, day time.Time, clock string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := day.Format("2006-01-02 ") + clock
	key := zone + " " + want
	if at, known := c.known[key]; known {
		return at
	}
	in := c.zones[zone]
	if in == nil {
		in, _ = time.LoadLocation(zone)
		c.zones[zone] = in
	}
	at := day.Add(-15 * time.Hour)
	for at.In(in).Format("2006-01-02 15:04") < want {
		at = at.Add(time.Minute)
	}
	c.known[key] = at
	return at
}

// isOpen reports whether a window is open at a time.
func (c *wallClock) isOpen(w api.Window, zone string, at time.Time) bool {
	at = at.UTC()
	today := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	for day := -2; day <= 1; day++ { // by the clock of the zone it may be another day
		date := today.AddDate(0, 0, day)
		if len(w.Days) > 0 && !slices.Contains(w.Days, strings.ToLower(date.Format("Mon"))) {
			continue
		}
		last := date
		if w.To <= w.From {
			last = date.AddDate(0, 0, 1)
		}
		if !at.Before(c.shows(zone, date, w.From)) && at.Before(c.shows(zone, last, w.To)) {
			return true
		}
	}
	return false
}

// has reports whether a freeze is active and selects a cluster.
func (f *simulatedFreeze) has(c *api.Cluster, at time.Time) bool {
	if f.From != nil && at.Before(*f.From) || f.Until != nil && !at.Before(*f.Until) {
		return false
	}
	_, tier, _ := strings.Cut(f.Selector, "=")
	return f.All || tier == c.Labels["tier"]
}

func (f *simulatedFreeze) recurs() bool { return len(f.Allow)+len(f.Block) > 0 }

// forbids reports whether a freeze forbids changes of a cluster at a time.
func (f *simulatedFreeze) forbids(c *api.Cluster, at time.Time) bool {
	if !f.has(c, at) {
		return false
	}
	zone := func(w api.Window) string {
		name := w.Tz
		if own := c.Variables["timezone"]; w.TzVariable != "" && len(own) > 0 {
			name = strings.Trim(string(own), `"`)
		} else if w.TzVariable != "" && c.Labels["tier"] == "b" {
			name = simulatedLayerZone
		}
		if name == "" {
			return "UTC"
		}
		return name
	}
	open := func(w api.Window) bool { return wall.isOpen(w, zone(w), at) }
	if !f.recurs() {
		return true
	}
	return len(f.Allow) > 0 && !slices.ContainsFunc(f.Allow, open) || slices.ContainsFunc(f.Block, open)
}

// freezes returns the freezes of a fleet.
func (s *rolloutSimulation) freezes(st *fleet.State) (out []*simulatedFreeze) {
	for _, d := range st.All(fleet.KindFreeze) {
		f := &simulatedFreeze{id: d.ID}
		require.NoError(s.t, json.Unmarshal(d.Body, f))
		out = append(out, f)
	}
	return out
}

// forbidding returns the freezes that forbid changes of a cluster at a time: those with windows, and the others.
func (s *rolloutSimulation) forbidding(st *fleet.State, c *api.Cluster, at time.Time) (windows, others []string) {
	for _, f := range s.freezes(st) {
		switch {
		case !f.forbids(c, at):
		case f.recurs():
			windows = append(windows, f.id)
		default:
			others = append(others, f.id)
		}
	}
	return windows, others
}

// later is the time of the clock that freezes go by: no commit is before the newest one.
func (s *rolloutSimulation) later(at time.Time) time.Time {
	if at.Before(s.newest) {
		return s.newest
	}
	return at
}

// examineWindows requires that a commit serves no cluster something else while a freeze forbids it. Taking back is possible outside of windows.
func (s *rolloutSimulation) examineWindows(c fleet.Commit, next *fleet.State, was, is *simulatedDocument) {
	at, loaded := s.later(c.At), c.At
	for _, kind := range []fleet.Kind{fleet.KindCluster, fleet.KindRollout, fleet.KindFreeze, fleet.KindNamespace} {
		for _, doc := range s.state.All(kind) {
			if doc.UpdatedAt.After(loaded) { // a process that has started since knows only these times
				loaded = doc.UpdatedAt
			}
		}
	}
	s.newest = at
	back := takesRolloutBack(c, was, is) || s.takesBack[c.Revision]
	for _, doc := range next.All(fleet.KindCluster) {
		before, ok := s.state.Get(fleet.KindCluster, doc.ID)
		if !ok {
			continue
		}
		windows, others := s.forbidding(s.state, before.Cluster(), at)
		if w, o := s.forbidding(s.state, before.Cluster(), loaded); len(w)+len(o) == 0 {
			continue
		}
		if len(others) > 0 || len(windows) > 0 && !back {
			requireSameAnswers(s.t, s.state, next, doc.ID)
		} else if len(windows) > 0 && !sameAnswers(s.t, s.state, next, doc.ID) {
			s.steps["taken back outside windows"]++
		}
	}
}

// takesRolloutBack reports whether a commit only takes the rollout from clusters.
func takesRolloutBack(c fleet.Commit, was, is *simulatedDocument) bool {
	other := slices.ContainsFunc(c.Changes, func(ch fleet.Change) bool { return ch.Kind != fleet.KindRollout && ch.Kind != "budget" })
	return !other && (is.Started < was.Started || is.State == "aborted")
}

// requireNotForgotten requires that a rollout that a process has evaluated, and that it leaves as it is, waits for something true.
func (s *rolloutSimulation) requireNotForgotten(p *simulatedProcess) {
	d := s.read(bodyOf(s.state))
	if p.replica.State().Revision() != s.state.Revision() || !p.tracker.Stats().Complete || d.State != "running" && (d.State != "proposed" || d.StartAt == nil) || s.skew.Abs() >= time.Minute && !s.chance(10) {
		return
	}
	status, body := p.do(http.MethodGet, "/rollouts/"+simulatedRollout, readToken, "")
	require.Equal(s.t, http.StatusOK, status, "%s", body)
	var answer struct{ Waiting *api.RolloutWaiting }
	require.NoError(s.t, json.Unmarshal(body, &answer))
	require.NotNil(s.t, answer.Waiting, "%s forgets the rollout: %s", p.name, body)
	wait, now := *answer.Waiting, s.later(p.now())
	s.steps["waits for "+wait.Reason]++
	var stage *simulatedStage
	if d.Started < len(d.Stages) {
		stage = &d.Stages[d.Started]
	}
	switch wait.Reason {
	case "observations", "confirmations":
	case "soak":
		_, soak := d.gate(d.Started - 1)
		require.Less(s.t, p.now().Sub(*d.Stages[d.Started-1].StartedAt), soak)
	case "approval":
		require.True(s.t, stage.Approval && (stage.Approved == nil || strings.Contains(wait.Message, "has ended")), "%s", body)
	case "start_at":
		require.True(s.t, d.StartAt != nil && p.now().Before(*d.StartAt) || stage.StartAt != nil && p.now().Before(*stage.StartAt), "%s at %s", body, p.now())
	case "window":
		require.False(s.t, d.opens(p.now()), "%s at %s", body, p.now())
	case "freeze":
		until := now
		if wait.Until != nil && wait.Until.After(now) {
			until = wait.Until.Add(-time.Second)
		}
		for at := now; !at.After(until) && at.Sub(now) < 20*time.Minute; at = at.Add(time.Minute) {
			require.True(s.t, s.heldBack(d, at) || at.Equal(now) && s.heldBack(d, p.now()), "%s at %s: nothing forbids the start at %s", body, now, at)
		}
	default:
		s.t.Fatalf("a rollout that advances by itself waits for %q: %s", wait.Reason, body)
	}
}

// opens reports whether the windows of the rollout are open.
func (d *simulatedDocument) opens(at time.Time) bool {
	return len(d.Windows) == 0 || slices.ContainsFunc(d.Windows, func(w api.Window) bool { return wall.isOpen(w, "UTC", at) })
}

// heldBack reports whether a freeze forbids the start of the next stage at a time.
func (s *rolloutSimulation) heldBack(d *simulatedDocument, at time.Time) bool {
	return slices.ContainsFunc(s.state.All(fleet.KindCluster), func(doc *fleet.Document) bool {
		stage, _ := d.place(doc.Cluster())
		windows, others := s.forbidding(s.state, doc.Cluster(), at)
		return stage == d.Started && len(windows)+len(others) > 0 && len(s.changed(doc.ID)) > 0
	})
}

// changeByPerson makes a change that windows may forbid, or takes one back.
func (s *rolloutSimulation) changeByPerson(p *simulatedProcess) {
	switch s.IntN(6) {
	case 0, 1:
		s.notes++
		p.do("PATCH", "/namespaces/kept", writeToken, fmt.Sprintf(`{"labels":{"n%d":"x"}}`, s.notes), "X-Change-Reason", "forward")
	case 2:
		id := s.clusters[s.IntN(len(s.clusters))].id
		p.do("PATCH", "/clusters/"+id, writeToken, fmt.Sprintf(`{"variables":{"timezone":%s}}`, s.pick("null", fmt.Sprintf("%q", s.pick(simulatedZones...)))), "X-Change-Reason", "zone")
	case 3:
		p.do("DELETE", fmt.Sprint("/freezes/w", s.IntN(3)), writeToken, "")
	case 4:
		p.do("POST", "/freezes", writeToken, s.randomFreeze(fmt.Sprint("w", s.IntN(3))))
	default:
		if len(s.reverted) == 0 {
			return
		}
		rev := s.reverted[s.IntN(len(s.reverted))]
		status, answer := p.do("POST", fmt.Sprintf("/revisions/%d/revert", rev), writeToken, "", "X-Change-Reason", fmt.Sprint("revert ", rev))
		if !s.takesBack[rev] {
			s.requireNotHindered("revert", status, answer)
		} else if status == http.StatusConflict {
			s.steps["revert of a revert refused"]++
		}
	}
}

// requireNotHindered requires that only a freeze without windows has refused an action that takes back.
func (s *rolloutSimulation) requireNotHindered(action string, status int, answer []byte) {
	if status != http.StatusConflict || !strings.Contains(string(answer), `"frozen"`) {
		return
	}
	s.requireStopped(action + ": " + string(answer))
}

// requireStopped requires a freeze without windows.
func (s *rolloutSimulation) requireStopped(what string) {
	s.examine()
	stopped := slices.ContainsFunc(s.freezes(s.state), func(f *simulatedFreeze) bool { return !f.recurs() })
	require.True(s.t, stopped, "windows hinder %s", what)
}

// randomFreeze returns a freeze with windows near the time of the simulation.
func (s *rolloutSimulation) randomFreeze(id string) string {
	first := s.IntN(len(simulatedZones))
	windows := func(most int) (out []api.Window) {
		for i := range s.IntN(most + 1) {
			zone := simulatedZones[(first+i)%len(simulatedZones)]
			in, err := time.LoadLocation(zone)
			require.NoError(s.t, err)
			from := s.now.Add(s.seconds(-300, 500))
			w := api.Window{From: from.In(in).Format("15:04"), To: from.Add(s.seconds(60, 400)).In(in).Format("15:04"), Tz: zone}
			if s.chance(3) {
				w.Days = []string{strings.ToLower(from.In(in).Format("Mon"))}
			}
			if s.chance(2) {
				w.Tz, w.TzVariable = "", "timezone"
			}
			out = append(out, w)
		}
		return out
	}
	f := map[string]any{"id": id, "reason": "hours", "allow": windows(3), "block": windows(2)}
	if tier := s.pick("", "a", "b"); tier == "" {
		f["all"] = true
	} else {
		f["selector"] = "tier=" + tier
	}
	if s.chance(3) {
		f["until"] = s.now.Add(s.seconds(30, 600))
	}
	if s.chance(5) {
		f["from"] = s.now.Add(s.seconds(-60, 200))
	}
	body, err := json.Marshal(f)
	require.NoError(s.t, err)
	return string(body)
}

// startTime returns a field start_at, or nothing.
func (s *rolloutSimulation) startTime(n int) string {
	if !s.chance(n) {
		return ""
	}
	return fmt.Sprintf(`,"start_at":%q`, s.now.Add(s.seconds(-60, 360)).Format(time.RFC3339))
}

// follow makes the changes that people made to other documents than the rollout in the fleets without it.
func (s *rolloutSimulation) follow(c fleet.Commit) {
	for _, ch := range c.Changes {
		if ch.Kind != fleet.KindCluster && (ch.Kind != fleet.KindNamespace || ch.ID != "kept") || ch.Before == nil || ch.After == nil {
			continue
		}
		patch := map[string]map[string]any{"labels": {}}
		if ch.Kind == fleet.KindCluster {
			patch["variables"] = map[string]any{}
		}
		was, is := fieldsOfDocument(s.t, ch.Before), fieldsOfDocument(s.t, ch.After)
		for field, values := range patch {
			for name := range was[field] {
				values[name] = nil
			}
			maps.Copy(values, is[field])
		}
		body, err := json.Marshal(patch)
		require.NoError(s.t, err)
		for _, st := range []**fleet.State{&s.without, &s.with} {
			*st = s.edited(*st, func(tx *fleet.Tx) error { _, err := tx.Patch(ch.Kind, ch.ID, body); return err })
		}
	}
}

// fieldsOfDocument returns the labels and variables of a document.
func fieldsOfDocument(t require.TestingT, body json.RawMessage) map[string]map[string]any {
	var d struct{ Labels, Variables map[string]any }
	require.NoError(t, json.Unmarshal(body, &d))
	return map[string]map[string]any{"labels": d.Labels, "variables": d.Variables}
}
