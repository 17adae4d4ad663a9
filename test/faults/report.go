package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/drill"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// shownViolations is how many a report lists.
const shownViolations = 20

// promises describes the rules in reports.
var promises = map[check.Rule]string{
	check.NoWrongEmpty: "wrong empty or shortened answers",
	check.Whole:        "answers that are not the one of a committed revision",
	check.Forward:      "answers that went back",
	check.Durable:      "acknowledged changes lost, or refused ones made",
	check.Doubt:        "doubts not answered with 5xx",
	check.Fresh:        "answers to writes that were not computed at the head",
	check.Age:          "polls answered from a copy that is too old",
	check.Across:       "answers of one process that took a cluster back from another one",
	check.Authority:    "commits by tokens that were revoked",
	check.Source:       "artifacts half made, doubled, turned back, or lost",
	check.Polls:        "polls that failed while a part of the service was away",
	check.Log:          "contradictions in the log",
	check.Heals:        "processes that did not heal, or broke",
}

// report prints the faults of a run and its verdict.
func report(w io.Writer, h *history.History, v check.Verdict) {
	fmt.Fprintf(w, "\n%s on %s, seed %d, %s\n", h.Run.Drill, h.Run.Store, h.Run.Seed, h.Run.Began.Format("2006-01-02 15:04:05Z"))
	for _, name := range slices.Sorted(maps.Keys(h.Run.Versions)) {
		fmt.Fprintf(w, "  %-18s %s\n", name, h.Run.Versions[name])
	}
	fmt.Fprintf(w, "  %-18s %.0f s under load, %s\n", "time", h.Run.Seconds, processes(h))

	var acknowledged, refused, unknown int
	ops, refusals := map[string]int{}, map[string]int{}
	for _, x := range h.Writes {
		switch {
		case x.Acknowledged():
			acknowledged++
			ops[x.Op]++
		case x.Unknown():
			unknown++
		default:
			refused++
			refusals[cmp.Or(x.Code, "not sent")]++
		}
	}
	fmt.Fprintf(w, "  %-18s %d acknowledged (%s), %d revisions in the log\n", "writes", acknowledged, counts(ops), len(h.Commits))
	fmt.Fprintf(w, "  %-18s %d refused (%s), %d unknown\n", "", refused, counts(refusals), unknown)
	if h.Run.Artifacts > 0 {
		commits := 0
		for _, c := range h.Commits {
			if c.Actor == fleet.SourceActor(check.FollowedSource) {
				commits++
			}
		}
		fmt.Fprintf(w, "  %-18s %d pushed; %d commits by the source\n", "artifacts", h.Run.Artifacts, commits)
	}
	statuses := map[string]int{}
	for _, p := range h.Polls {
		key := "no answer"
		if p.Status != 0 {
			key = fmt.Sprint(p.Status)
		}
		statuses[key]++
	}
	fmt.Fprintf(w, "  %-18s %d (%s); %d different answers\n", "polls", len(h.Polls), counts(statuses), v.Answers)
	if h.Run.Route != "" {
		fmt.Fprintf(w, "  %-18s polls go to processes by %s: %d of %d answers (%.3f %%) took a cluster back\n",
			"", h.Run.Route, v.Back, v.Routed, 100*float64(v.Back)/float64(max(1, v.Routed)))
	}
	if slices.Contains(drill.Incidents(h.Run.Store), h.Run.Drill) {
		f := check.Measure(h)
		fmt.Fprintf(w, "  %-18s %d polls, %d of them failed, %d requests repeated; no list without an answer for more than %.1f s\n",
			"clusters", f.Polls, f.Failed, f.Repeated, float64(f.WithoutPolls)/1e6)
		fmt.Fprintf(w, "  %-18s %d acknowledged, %d of them lost, %d refused, %d unknown; none acknowledged for %.1f s\n",
			"writers", f.Writes, f.Lost, f.Refused, f.Unknown, float64(f.WithoutWrites)/1e6)
	}
	kills, faults := 0, map[string]int{}
	for _, f := range h.Faults {
		faults[f.Kind]++
		if f.Kill {
			kills += max(1, len(strings.Fields(f.Target)))
			if strings.HasPrefix(f.Target, "backend") {
				kills--
			}
		}
	}
	fmt.Fprintf(w, "  %-18s %d, with %d processes killed\n", "faults", len(h.Faults), kills)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(w, "    %-22s %d\n", name, faults[name])
	}
	for _, n := range h.Notes {
		if !n.Wrong {
			fmt.Fprintf(w, "  note at %.1fs: %s\n", float64(n.At)/1e6, n.Text)
		}
	}
	for _, r := range check.Rules() {
		fmt.Fprintf(w, "  %-9s %6d  %s\n", r, v.Count(r), promises[r])
	}
	for i, x := range v.Violations {
		if i == shownViolations {
			fmt.Fprintf(w, "  ... and %d more\n", len(v.Violations)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", x)
	}
}

func processes(h *history.History) string {
	starts := map[string]int{}
	for _, s := range h.Starts {
		starts[s.Process]++
	}
	return "starts: " + counts(starts)
}

func counts(of map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, of[k]))
	}
	return strings.Join(parts, ", ")
}
