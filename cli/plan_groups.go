package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// groupsOf are a plan's groups of clusters by what is shown of them, those from which something is removed first.
func (w *planWriter) groupsOf(plan api.Plan) []shownGroup {
	var losing, others []shownGroup
	for _, group := range plan.Groups {
		g, removes := w.groupOf(group)
		if removes {
			losing = append(losing, g)
		} else {
			others = append(others, g)
		}
	}
	return append(regroup(losing, w.wide), regroup(others, w.wide)...)
}

// groupOf is what happens to clusters that it happens to alike, and whether that takes something away. Lists from which
// something is removed come first.
func (w *planWriter) groupOf(group api.EffectGroup) (g shownGroup, removes bool) {
	g.names = group.Clusters
	if group.Forgotten {
		g.lines = append(g.lines, shownLine{text: w.paint(render.Yellow, "forgotten: polls are answered with 404, and Flux keeps what is running")})
	}
	types := inputTypesOf(group.Effect)
	loses := func(t inputType) bool {
		effect := group.Effect[t.name]
		return len(effect.Removed) > 0 || slices.ContainsFunc(effect.Changed, func(ch api.InputChange) bool { return ch.Removal })
	}
	slices.SortStableFunc(types, func(a, b inputType) int {
		switch la, lb := loses(a), loses(b); {
		case la && !lb:
			return -1
		case lb && !la:
			return 1
		}
		return 0
	})
	for _, t := range types {
		effect := group.Effect[t.name]
		removes = removes || loses(t)
		g.lines = append(g.lines, shownLine{text: t.name})
		for _, id := range effect.Removed {
			g.lines = append(g.lines, shownLine{text: "  " + w.paint(render.Red, "- "+render.Printable(id)+"   REMOVED: "+t.gone)})
		}
		for _, change := range effect.Changed {
			g.lines = append(g.lines, w.changedLines(t.name, change)...)
		}
		for _, input := range effect.Added {
			name, rest, _ := strings.Cut(render.Printable(describeInput(input)), "   ")
			g.lines = append(g.lines, shownLine{text: "  " + w.paint(render.Green, "+ "+name), values: strings.TrimRight("   "+rest, " ")})
		}
		if effect.Reordered {
			g.lines = append(g.lines, shownLine{text: "  ~ (the order of the inputs)"})
		}
	}
	return g, removes
}

func (w *planWriter) changedLines(list string, change api.InputChange) []shownLine {
	line := "~ " + render.Printable(change.ID)
	if change.Removal {
		why := "Flux deletes its object and creates one of another name"
		if list == "platform-components" {
			why = uninstalled(change.Fields)
		}
		line = w.paint(render.Red, line+"   REMOVED: "+why)
	}
	lines := []shownLine{{text: "  " + line}}
	for _, field := range telling(change.Fields) {
		lines = append(lines, shownLine{
			text:   "      " + render.Printable(fieldName(field.Pointer)),
			values: ": " + shortJSON(field.Before.Get()) + " → " + shortJSON(field.After.Get()),
		})
	}
	return lines
}

var aboutCluster = regexp.MustCompile(`cluster "[^"]*"`)

// alikeWarnings makes one of warnings that say the same about several clusters, with a count, and cuts what is still many.
func alikeWarnings(warnings []string, full bool) []string {
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
			out[i] += fmt.Sprintf(" (and %s more)", count(n, "cluster"))
		}
	}
	if hidden := len(out) - shownGroups; hidden > 1 {
		out = append(out[:shownGroups], fmt.Sprintf("and %s more; --full shows all", count(hidden, "warning")))
	}
	return out
}
