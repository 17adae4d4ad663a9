package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Long lists of changes are for people grouped by what is shown of them, and cut with a count.
const (
	shownGroups = 8  // of documents to which the same happens
	shownLines  = 12 // of what happens to them
)

// shownLine is one line of what happens to something. Without its values it is the same for all to which the same happens
// in other words.
type shownLine struct{ text, values string }

// shownGroup are things to which the same happens.
type shownGroup struct {
	names []string
	head  string // what is said about them behind their names
	lines []shownLine
}

func (g shownGroup) key(values bool) string {
	var b strings.Builder
	b.WriteString(g.head)
	for _, l := range g.lines {
		b.WriteString("\n" + l.text)
		if values {
			b.WriteString("\n\t" + l.values)
		}
	}
	return b.String()
}

// regroup puts groups together that would be shown alike. When there are many, those are put together too of which only
// values differ, unless all is to be shown.
func regroup(groups []shownGroup, full bool) []shownGroup {
	groups = together(groups, true)
	if !full && len(groups) > shownGroups {
		groups = together(groups, false)
		slices.SortStableFunc(groups, func(a, b shownGroup) int { return len(b.names) - len(a.names) })
	}
	return groups
}

func together(groups []shownGroup, values bool) []shownGroup {
	at := map[string]int{}
	var out []shownGroup
	differ := map[int]map[int]map[string]bool{} // by group and line, the values there are
	for _, g := range groups {
		i, known := at[g.key(values)]
		if !known {
			i = len(out)
			at[g.key(values)] = i
			out = append(out, shownGroup{head: g.head, lines: slices.Clone(g.lines)})
			differ[i] = map[int]map[string]bool{}
		}
		out[i].names = append(out[i].names, g.names...)
		for n, l := range g.lines {
			if differ[i][n] == nil {
				differ[i][n] = map[string]bool{}
			}
			differ[i][n][l.values] = true
		}
	}
	for i := range out {
		slices.Sort(out[i].names)
		for n := range out[i].lines {
			if many := len(differ[i][n]); many > 1 {
				out[i].lines[n].values = fmt.Sprintf(" (differs: %d ways)", many)
			}
		}
	}
	return out
}
