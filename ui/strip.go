package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	stripSlots     = 288 // intervals of the strip, which is also its width
	stripInterval  = 5 * time.Minute
	stripHeight    = 40 // of the largest sum
	stripMarks     = 60 // revisions and stages
	stripRevisions = 100
)

// strip shows the numbers of clusters by state over the last day, with changes as marks.
type strip struct {
	Begin, End time.Time
	Max        int
	Areas      []stripArea
	Gaps       []stripSpan // without counts
	Freezes    []stripSpan
	Marks      []stripMark
	Counts     string      // for the script: the counts of each interval
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
	At                          time.Time
	Progressing, Failed, Silent int
}

// makeStrip returns the strip of the last day; nil for visitors with limited access, who may not read the counts, and before there are
// counts. starts are the starts of stages of rollouts.
func (req *pageRequest) makeStrip(starts []stripMark) (*strip, error) {
	if req.scoped() {
		return nil, nil
	}
	history, err := req.fleet.GetStatusHistoryWithResponse(req.r.Context(), nil)
	if err != nil || len(history.JSON200.Counts) == 0 {
		return nil, err
	}
	end := req.page.cfg.Now().UTC().Truncate(stripInterval).Add(stripInterval)
	out := &strip{Begin: end.Add(-stripSlots * stripInterval), End: end}
	out.setCounts(history.JSON200.Counts)
	revisions, _, err := req.changes(&api.ListRevisionsParams{Limit: new(stripRevisions)})
	if err != nil {
		return nil, err
	}
	for _, r := range revisions {
		starts = append(starts, stripMark{Kind: "revision", Text: fmt.Sprintf("Revision %d: %s, by %s", r.Revision, truncate(r.Summary, 120), r.By), Link: link("changes", fmt.Sprint(r.Revision)), At: r.At})
	}
	out.setMarks(starts)
	freezes, err := req.fleet.ListFreezesWithResponse(req.r.Context(), nil)
	if err != nil {
		return nil, err
	}
	for _, f := range *freezes.JSON200 {
		out.addFreeze(f)
	}
	return out, nil
}

// slot returns the interval of a time; not ok if it is not in the strip.
func (s *strip) slot(t time.Time) (x int, ok bool) {
	x = int(t.Sub(s.Begin) / stripInterval)
	return x, !t.Before(s.Begin) && x < stripSlots
}

// setCounts sets the graphs, the gaps and the table.
func (s *strip) setCounts(counts []api.HistoricCount) {
	slots, most := make([]*api.HistoricCount, stripSlots), 0
	for i := range counts {
		n := &counts[i]
		if x, ok := s.slot(n.At); ok {
			slots[x] = n
			s.Max = max(s.Max, n.Progressing, n.Failed, n.Silent)
			most = max(most, n.Progressing+n.Failed+n.Silent, n.Total/10) // few clusters of many look like few
		}
	}
	texts := make([]string, stripSlots)
	hours := map[time.Time]*stripHour{}
	for x, n := range slots {
		if n == nil {
			if last := len(s.Gaps) - 1; last >= 0 && s.Gaps[last].X+s.Gaps[last].Width == x {
				s.Gaps[last].Width++
			} else {
				s.Gaps = append(s.Gaps, stripSpan{X: x, Width: 1})
			}
			continue
		}
		texts[x] = fmt.Sprintf("%d,%d,%d", n.Failed, n.Silent, n.Progressing)
		at := n.At.UTC().Truncate(time.Hour)
		if hours[at] == nil {
			hours[at] = &stripHour{At: at}
		}
		h := hours[at]
		h.Progressing, h.Failed, h.Silent = max(h.Progressing, n.Progressing), max(h.Failed, n.Failed), max(h.Silent, n.Silent)
	}
	s.Counts = strings.Join(texts, ";")
	for _, h := range hours {
		s.Hours = append(s.Hours, *h)
	}
	slices.SortFunc(s.Hours, func(a, b stripHour) int { return b.At.Compare(a.At) })
	// The graphs are stacked: each covers the lower part of the one before.
	for _, area := range []struct {
		state string
		count func(*api.HistoricCount) int
	}{
		{"progressing", func(n *api.HistoricCount) int { return n.Failed + n.Silent + n.Progressing }},
		{"silent", func(n *api.HistoricCount) int { return n.Failed + n.Silent }},
		{"failed", func(n *api.HistoricCount) int { return n.Failed }},
	} {
		s.Areas = append(s.Areas, stripArea{area.state, stateLabel(area.state), stripPath(slots, most, area.count)})
	}
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
	begin, till := f.CreatedAt, s.End
	if f.From != nil && f.From.After(begin) {
		begin = *f.From
	}
	if f.Until != nil && f.Until.Before(till) {
		till = *f.Until
	}
	if begin.Before(s.Begin) {
		begin = s.Begin
	}
	if !begin.Before(till) || !begin.Before(s.End) {
		return
	}
	x := int(begin.Sub(s.Begin) / stripInterval)
	width := int((till.Sub(begin) + stripInterval - 1) / stripInterval)
	s.Freezes = append(s.Freezes, stripSpan{X: x, Width: max(1, width), Text: "Freeze " + f.ID + ": " + truncate(f.Reason, 120), Link: link("definitions", "freezes", f.ID), Begin: begin, Till: till})
}
