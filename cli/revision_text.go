package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// revisionText formats a revision for people: the requested operations, actor and reason, then the differences of the documents.
func (s *session) revisionText(rev api.RevisionDetail, full bool) string {
	w := planWriter{wide: full, paint: func(code, text string) string { return s.paint(s.env.StdoutTerminal, code, text) }}
	by := authorText(api.RevisionSummary{Actor: rev.Actor, Author: rev.Author})
	w.linef("%s   %s   %s", w.paint(render.Bold, fmt.Sprintf("Revision %d", rev.Revision)), render.Time(rev.At), render.Printable(by))
	if rev.Summary != "" {
		w.linef("  %s", render.Printable(rev.Summary))
	}
	if rev.Reason != "" {
		w.linef("  Reason: %s", render.Printable(rev.Reason))
	}
	if rev.UndoneBy != nil {
		w.linef("  Undone by revision %d", *rev.UndoneBy)
	}
	var groups []summarize.Group
	for _, change := range rev.Changes {
		groups = append(groups, changeLines(change, w.paint))
	}
	w.groups(summarize.Regroup(groups, full), "document")
	w.linef("\nRevision %d changed %s. To revert it: revision revert %d", rev.Revision, summarize.Count(rev.ChangeCount, "document"), rev.Revision)
	return w.b.String()
}

// changeLines formats the difference of one document.
func changeLines(change api.RevisionChange, paint func(code, text string) string) summarize.Group {
	g := summarize.Group{Names: []string{nameOfKind(change.Kind) + "/" + change.ID}}
	switch change.Action {
	case "create":
		g.Head = paint(render.Green, "created")
		return g
	case "delete":
		g.Head = paint(render.Red, "deleted")
		return g
	}
	before, after := leavesOf(change.Before), leavesOf(change.After)
	for _, path := range render.SortedKeys(before, after) {
		was, is := before[path], after[path]
		if string(was) == string(is) || inEntry(before, after, path) {
			continue
		}
		line := summarize.Line{Text: "~ " + render.Printable(path), Values: ": " + leaf(was) + " → " + leaf(is)}
		switch string(render.Present) {
		case string(was):
			line = summarize.Line{Text: paint(render.Red, "- "+render.Printable(path)), Values: entryFields(before, path)}
		case string(is):
			line = summarize.Line{Text: paint(render.Green, "+ "+render.Printable(path)), Values: entryFields(after, path)}
		}
		g.Lines = append(g.Lines, line)
	}
	if len(g.Lines) == 0 {
		g.Lines = []summarize.Line{{Text: "~ (the order of a list)"}}
	}
	return g
}

// leavesOf returns the values of a document by path.
func leavesOf(body json.RawMessage) map[string]json.RawMessage {
	leaves := map[string]json.RawMessage{}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return leaves // the API guarantees an object
	}
	for name, value := range fields {
		render.Leaves(leaves, name, value)
	}
	return leaves
}

// inEntry reports whether a path is in an entry of a list that was added or removed as a whole.
func inEntry(before, after map[string]json.RawMessage, path string) bool {
	for i, r := range path {
		if at := path[:i+1]; r == ']' && len(at) < len(path) {
			was, is := string(before[at]), string(after[at])
			if was != is && (was == string(render.Present) || is == string(render.Present)) {
				return true
			}
		}
	}
	return false
}

// entryFields lists the fields of an entry in a list without its id.
func entryFields(leaves map[string]json.RawMessage, entry string) string {
	var fields []string
	for _, path := range render.SortedKeys(leaves) {
		if name, ok := strings.CutPrefix(path, entry+"."); ok {
			fields = append(fields, render.Printable(name)+" "+leaf(leaves[path]))
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "   " + strings.Join(fields, ", ")
}

// leaf formats one value.
func leaf(value json.RawMessage) string {
	if value == nil {
		return "(none)"
	}
	return shortJSON(value, nil)
}

// groups writes groups with the lines that their members share.
func (w *planWriter) groups(groups []summarize.Group, thing string) {
	most := summarize.ShownGroups
	if w.wide {
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
		w.linef("\n%s %s%s", w.paint(render.Bold, summarize.Count(len(g.Names), thing)+":"), w.names(g.Names), head)
		w.lines(g.Lines)
	}
	if left > 0 {
		w.linef("\nand %s in %s more; --full shows all", summarize.Count(left, thing), summarize.Count(hidden, "group"))
	}
}

func (w *planWriter) lines(lines []summarize.Line) {
	most := cmp.Or(w.most, shownLines)
	for i, l := range lines {
		if more := len(lines) - i; i >= most && more > 1 && !w.wide {
			w.linef("  and %s more; --full shows all", summarize.Count(more, "line"))
			return
		}
		w.linef("  %s%s", l.Text, l.Values)
	}
}
