package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	stripSlots     = 288 // intervals of the strip, which is also its width
	stripInterval  = 5 * time.Minute
	stripHeight    = 40 // of the largest sum
	stripMarks     = 60 // revisions and stages
	stripRevisions = 100
)

// stripStates are the recorded states in the order of the graph, from the base up.
var stripStates = []stripState{
	{"failed", func(n *api.HistoricCount) int { return n.Failed }},
	{"silent", func(n *api.HistoricCount) int { return n.Silent }},
	{"progressing", func(n *api.HistoricCount) int { return n.Progressing }},
}

type stripState struct {
	state string
	count func(*api.HistoricCount) int
}

// stripSource selects what a strip shows.
type stripSource struct {
	of      api.GetStatusHistoryParams // a component or a cluster; empty: all clusters
	title   string                     // empty: what the page is about
	marks   []stripMark
	freezes []api.Freeze
}

// states returns the states that are recorded.
func (src stripSource) states() []stripState {
	switch {
	case src.of.Cluster != nil:
		return stripStates[:2]
	case src.of.Component != nil:
		return []stripState{stripStates[0], stripStates[2]}
	}
	return stripStates
}

// strip shows the numbers of clusters by state over the last day, with changes as marks.
type strip struct {
	Title      string
	Begin, End time.Time
	Max        int
	Areas      []stripArea
	Gaps       []stripSpan // without counts
	Freezes    []stripSpan
	Marks      []stripMark
	Columns    []string    // the recorded states
	States     string      // the same for the script
	Counts     string      // for the script: the counts of each interval, in the order of the states
	Hours      []stripHour // the same for the table
}

// stripArea is the graph of one state.
type stripArea struct{ State, Label, Path string }

// stripSpan is a part of the strip; X and Width are in intervals.
type stripSpan struct {
	X, Width    int
	Text, Link  string
	Begin, Till time.Time
}

// stripMark is a revision, or the start of a rollout's stage.
type stripMark struct {
	X                int
	Kind, Text, Link string
	At               time.Time
}

// stripHour has the largest counts of an hour.
type stripHour struct {
	At     time.Time
	Counts []int // by state
}

// makeStrip returns the strip of the last day; nil for counts that visitors with limited access may not read, before there are counts,
// and for a fleet in which no cluster failed, was silent or received a change.
// The strip of a part of the fleet has marks without counts, too.
func (req *pageRequest) makeStrip(src stripSource) (*strip, error) {
	history, err := req.fleet.GetStatusHistoryWithResponse(req.r.Context(), &src.of)
	if client.ErrorCode(err) == client.CodeForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	end := req.page.cfg.Now().UTC().Truncate(stripInterval).Add(stripInterval)
	out := &strip{Title: src.title, Begin: end.Add(-stripSlots * stripInterval), End: end}
	out.setMarks(src.marks)
	if counts := history.JSON200.Counts; len(counts) == 0 && (len(out.Marks) == 0 || len(src.states()) == len(stripStates)) {
		return nil, nil
	}
	if out.setCounts(history.JSON200.Counts, src.states()); out.Max == 0 && len(src.states()) == len(stripStates) {
		return nil, nil // an empty graph of the fleet would only move what is below it
	}
	for _, f := range src.freezes {
		out.addFreeze(f)
	}
	return out, nil
}

// revisionMarks returns the marks of revisions.
func revisionMarks(rows []changeRow) (out []stripMark) {
	for _, r := range rows {
		out = append(out, stripMark{Kind: "revision", Text: fmt.Sprintf("Revision %d: %s, by %s", r.Revision, truncate(r.Summary, 120), r.By()), Link: link("changes", fmt.Sprint(r.Revision)), At: r.At})
	}
	return out
}

// stageMarks returns the marks of the starts of a rollout's stages.
func stageMarks(r api.Rollout) (out []stripMark) {
	for _, stage := range r.Stages {
		if stage.StartedAt != nil {
			out = append(out, stripMark{Kind: "stage", Text: fmt.Sprintf("Rollout %s: stage %s", r.ID, stage.Name), Link: link("rollouts", r.ID), At: *stage.StartedAt})
		}
	}
	return out
}

// stripOfRollout returns the last day of the component that a rollout changes, or of all clusters if it changes something else.
func (req *pageRequest) stripOfRollout(r api.Rollout, changes []changeRow) (*strip, error) {
	src := stripSource{title: "all clusters", marks: append(revisionMarks(changes), stageMarks(r)...), freezes: req.freezes}
	if len(r.Changes) == 1 && r.Changes[0].Kind == client.KindPlatformComponent {
		src.of.Component, src.title = &r.Changes[0].ID, r.Changes[0].ID
	}
	out, err := req.makeStrip(src)
	if client.ErrorCode(err) == client.CodeNotFound {
		return nil, nil // the component was deleted since
	}
	return out, err
}

// slot returns the interval of a time; not ok if it is not in the strip.
func (s *strip) slot(t time.Time) (x int, ok bool) {
	x = int(t.Sub(s.Begin) / stripInterval)
	return x, !t.Before(s.Begin) && x < stripSlots
}

// setCounts sets the graphs, the gaps and the table.
func (s *strip) setCounts(counts []api.HistoricCount, states []stripState) {
	slots, most := make([]*api.HistoricCount, stripSlots), 0
	for i := range counts {
		n := &counts[i]
		if x, ok := s.slot(n.At); ok {
			slots[x] = n
			sum := 0
			for _, state := range states {
				s.Max = max(s.Max, state.count(n))
				sum += state.count(n)
			}
			most = max(most, sum, n.Total/10) // few clusters of many look like few
		}
	}
	texts := make([]string, stripSlots)
	for x, n := range slots {
		if n == nil {
			if last := len(s.Gaps) - 1; last >= 0 && s.Gaps[last].X+s.Gaps[last].Width == x {
				s.Gaps[last].Width++
			} else {
				s.Gaps = append(s.Gaps, stripSpan{X: x, Width: 1})
			}
			continue
		}
		if at := n.At.UTC().Truncate(time.Hour); len(s.Hours) == 0 || !s.Hours[0].At.Equal(at) {
			s.Hours = slices.Insert(s.Hours, 0, stripHour{at, make([]int, len(states))})
		}
		of := make([]string, len(states))
		for i, state := range states {
			of[i] = strconv.Itoa(state.count(n))
			s.Hours[0].Counts[i] = max(s.Hours[0].Counts[i], state.count(n))
		}
		texts[x] = strings.Join(of, ",")
	}
	s.Counts = strings.Join(texts, ";")
	for i, state := range states {
		s.Columns = append(s.Columns, stateLabel(state.state))
		s.Areas = append(s.Areas, stripArea{state.state, stateLabel(state.state), stripPath(slots, most, func(n *api.HistoricCount) (sum int) {
			for _, below := range states[:i+1] {
				sum += below.count(n)
			}
			return sum
		})})
	}
	s.States = strings.ToLower(strings.Join(s.Columns, ","))
	slices.Reverse(s.Areas) // each covers the lower part of the one before
}

// stripPath returns the outline of a graph: a step for each interval with a count.
func stripPath(slots []*api.HistoricCount, most int, count func(*api.HistoricCount) int) string {
	var path strings.Builder
	for x := 0; x < len(slots); {
		if slots[x] == nil || count(slots[x]) == 0 {
			x++
			continue
		}
		fmt.Fprintf(&path, "M%d %d", x, stripHeight)
		for x < len(slots) && slots[x] != nil && count(slots[x]) > 0 {
			n, from := count(slots[x]), x
			for x < len(slots) && slots[x] != nil && count(slots[x]) == n {
				x++
			}
			fmt.Fprintf(&path, "V%.1fh%d", stripHeight-max(1, float64(stripHeight*n)/float64(max(1, most))), x-from)
		}
		fmt.Fprintf(&path, "V%dz", stripHeight)
	}
	return path.String()
}

// setMarks sets the newest marks of the last day, the oldest first.
func (s *strip) setMarks(marks []stripMark) {
	for _, m := range marks {
		var ok bool
		if m.X, ok = s.slot(m.At); ok {
			s.Marks = append(s.Marks, m)
		}
	}
	slices.SortFunc(s.Marks, func(a, b stripMark) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Link, b.Link)) })
	s.Marks = s.Marks[max(0, len(s.Marks)-stripMarks):]
}

// addFreeze adds a freeze that was active within the last day.
func (s *strip) addFreeze(f api.Freeze) {
	if recurs(f) {
		return
	}
	begin, till := f.CreatedAt, s.End
	for _, at := range []*time.Time{f.From, &s.Begin} {
		if at != nil && at.After(begin) {
			begin = *at
		}
	}
	if f.Until != nil && f.Until.Before(till) {
		till = *f.Until
	}
	if !begin.Before(till) || !begin.Before(s.End) {
		return
	}
	x := int(begin.Sub(s.Begin) / stripInterval)
	width := int((till.Sub(begin) + stripInterval - 1) / stripInterval)
	s.Freezes = append(s.Freezes, stripSpan{X: x, Width: max(1, width), Text: "Freeze " + f.ID + ": " + truncate(f.Reason, 120), Link: link("definitions", "freezes", f.ID), Begin: begin, Till: till})
}
