package cli

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// groupsOf groups the clusters of a plan by their visible effect, groups with removals first.
func (w *planWriter) groupsOf(plan api.Plan) []summarize.Group {
	var losing, others []summarize.Group
	for _, group := range plan.Groups {
		g, removes := w.groupOf(group)
		if removes {
			losing = append(losing, g)
		} else {
			others = append(others, g)
		}
	}
	return append(summarize.Regroup(losing, w.wide), summarize.Regroup(others, w.wide)...)
}

// groupOf formats the effect on a group of clusters, and reports whether it includes removals.
func (w *planWriter) groupOf(group api.EffectGroup) (g summarize.Group, removes bool) {
	lines, removes := summarize.EffectLines(group)
	g.Names = group.Clusters
	for _, l := range lines {
		g.Lines = append(g.Lines, w.effectLine(l))
	}
	return g, removes
}

func (w *planWriter) effectLine(l summarize.EffectLine) summarize.Line {
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

var aboutCluster = regexp.MustCompile(`cluster "[^"]*"`)

// groupWarnings joins warnings that differ only in the cluster into one with a count, and limits their number.
func groupWarnings(warnings []string, full bool) []string {
	if full {
		return warnings
	}
	var out, kinds []string
	more := map[string]int{}
	for _, warning := range warnings {
		kind := aboutCluster.ReplaceAllString(warning, "cluster")
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
