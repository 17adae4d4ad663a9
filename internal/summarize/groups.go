package summarize

import (
	"fmt"
	"slices"
	"strings"
)

// ShownGroups is how many groups are shown before the others are only counted.
const ShownGroups = 8

// Line is one line of what happens to a document or a cluster.
type Line struct {
	Text   string
	Values string // what may differ where the same happens in other words
	Ways   int    // how many different Values there are in the group; at most 1: all are the same
}

// Group is documents or clusters to which the same happens.
type Group struct {
	Names []string
	Head  string // what happens to each as a whole
	Lines []Line
}

func (g Group) key(values bool) string {
	var b strings.Builder
	b.WriteString(g.Head)
	for _, l := range g.Lines {
		b.WriteString("\n" + l.Text)
		if values {
			b.WriteString("\n\t" + l.Values)
		}
	}
	return b.String()
}

// Regroup merges groups to which the same happens. When there are many, it merges also those that differ in values only, unless full is
// set: references such as ${cluster.dns} have another value on each cluster. The line then shows the values of one member as an example.
func Regroup(groups []Group, full bool) []Group {
	groups = merge(groups, true)
	if !full && len(groups) > ShownGroups {
		groups = merge(groups, false)
		slices.SortStableFunc(groups, func(a, b Group) int { return len(b.Names) - len(a.Names) })
	}
	return groups
}

func merge(groups []Group, values bool) []Group {
	at := map[string]int{}
	var out []Group
	var examples []string                       // by group, the one whose values are shown
	differ := map[int]map[int]map[string]bool{} // by group and line, the values there are
	for _, g := range groups {
		i, known := at[g.key(values)]
		if !known {
			i = len(out)
			at[g.key(values)] = i
			out = append(out, Group{Head: g.Head, Lines: slices.Clone(g.Lines)})
			examples = append(examples, strings.Join(g.Names[:min(len(g.Names), 1)], ""))
			differ[i] = map[int]map[string]bool{}
		}
		out[i].Names = append(out[i].Names, g.Names...)
		for n, l := range g.Lines {
			if differ[i][n] == nil {
				differ[i][n] = map[string]bool{}
			}
			differ[i][n][l.Values] = true
		}
	}
	for i := range out {
		slices.Sort(out[i].Names)
		for n := range out[i].Lines {
			if ways := len(differ[i][n]); ways > 1 {
				line := &out[i].Lines[n]
				line.Values, line.Ways = fmt.Sprintf("%s (on %q; differs: %d ways)", line.Values, examples[i], ways), ways
			}
		}
	}
	return out
}
