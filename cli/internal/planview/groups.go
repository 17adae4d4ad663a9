package planview

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// groupsOf groups the clusters of a plan by their visible effect, groups with removals first.
func (w *writer) groupsOf(plan api.Plan) []summarize.Group {
	var losing, others []summarize.Group
	for _, group := range plan.Groups {
		g, removes := w.groupOf(group)
		if removes {
			losing = append(losing, g)
		} else {
			others = append(others, g)
		}
	}
	return append(summarize.Regroup(losing, w.Full), summarize.Regroup(others, w.Full)...)
}

// groupOf formats the effect on a group of clusters, and reports whether it includes removals.
func (w *writer) groupOf(group api.EffectGroup) (g summarize.Group, removes bool) {
	lines, removes := summarize.EffectLines(group)
	g.Names = group.Clusters
	for _, l := range lines {
		g.Lines = append(g.Lines, w.effectLine(l))
	}
	return g, removes
}

func (w *writer) effectLine(l summarize.EffectLine) summarize.Line {
	text := render.Printable(l.Text)
	switch l.Kind {
	case summarize.EffectForgotten:
		return summarize.Line{Text: w.paint(render.Yellow, l.Note)}
	case summarize.EffectRemoved:
		return summarize.Line{Text: "  " + w.paint(render.Red, "- "+text+"   REMOVED: "+l.Note)}
	case summarize.EffectChanged:
		if l.Note != "" {
			return summarize.Line{Text: "  " + w.paint(render.Red, "~ "+text+"   REMOVED: "+l.Note)}
		}
		return summarize.Line{Text: "  ~ " + text}
	case summarize.EffectField:
		return summarize.Line{Text: "      " + text, Values: ": " + shortJSON(l.Field.Before.Get()) + " → " + shortJSON(l.Field.After.Get())}
	case summarize.EffectAdded:
		line := summarize.Line{Text: "  " + w.paint(render.Green, "+ "+text)}
		if l.Note != "" {
			line.Values = "   " + render.Printable(l.Note)
		}
		return line
	case summarize.EffectReordered:
		return summarize.Line{Text: "  ~ (the order of the inputs)"}
	case summarize.EffectList:
	}
	return summarize.Line{Text: text}
}

var quotedCluster = regexp.MustCompile(`cluster "[^"]*"`)

// WarningKind returns a warning without the name of its cluster: equal for warnings that differ only in the cluster.
func WarningKind(warning string) string { return quotedCluster.ReplaceAllString(warning, "cluster") }

// groupWarnings joins warnings that differ only in the cluster into one with a count, and limits their number.
func groupWarnings(warnings []string, full bool) []string {
	if full {
		return warnings
	}
	var out, kinds []string
	more := map[string]int{}
	for _, warning := range warnings {
		kind := WarningKind(warning)
		if slices.Contains(kinds, kind) {
			more[kind]++
			continue
		}
		kinds, out = append(kinds, kind), append(out, warning)
	}
	for i, kind := range kinds {
		if n := more[kind]; n > 0 {
			out[i] += fmt.Sprintf(" (and %s more)", summarize.Count(n, "cluster"))
		}
	}
	if hidden := len(out) - summarize.ShownGroups; hidden > 1 {
		out = append(out[:summarize.ShownGroups], fmt.Sprintf("and %s more; --full shows all", summarize.Count(hidden, "warning")))
	}
	return out
}

// groups writes groups with the lines that their members share.
func (w *writer) groups(groups []summarize.Group, thing string) {
	most := summarize.ShownGroups
	if w.Full {
		most = len(groups)
	}
	left, hidden := 0, 0
	for i, g := range groups {
		if i >= most {
			left, hidden = left+len(g.Names), hidden+1
			continue
		}
		if head := g.Head; head != "" && len(g.Names) == 1 && len(g.Lines) == 0 {
			w.linef("\n%s %s", render.Printable(g.Names[0]), head)
			continue
		}
		head := ""
		if g.Head != "" {
			head = "   " + g.Head
		}
		w.linef("\n%s %s%s", w.paint(render.Bold, summarize.Count(len(g.Names), thing)+":"), Names(g.Names, w.Full), head)
		w.lines(g.Lines)
	}
	if left > 0 {
		w.linef("\nand %s in %s more; --full shows all", summarize.Count(left, thing), summarize.Count(hidden, "group"))
	}
}

func (w *writer) lines(lines []summarize.Line) {
	most := cmp.Or(w.most, shownLines)
	for i, l := range lines {
		if more := len(lines) - i; i >= most && more > 1 && !w.Full {
			w.linef("  and %s more; --full shows all", summarize.Count(more, "line"))
			return
		}
		w.linef("  %s%s", l.Text, l.Values)
	}
}
