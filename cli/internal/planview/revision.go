package planview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// Revision formats a revision: the requested operations, actor and reason, then the differences of the documents.
func Revision(rev api.RevisionDetail, style Style) string {
	w := writer{Style: style}
	by := Author(api.RevisionSummary{Actor: rev.Actor, Author: rev.Author})
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
		groups = append(groups, w.changeLines(change))
	}
	w.groups(summarize.Regroup(groups, w.Full), "document")
	w.linef("\nRevision %d changed %s. To revert it: revision revert %d", rev.Revision, summarize.Count(rev.ChangeCount, "document"), rev.Revision)
	return w.b.String()
}

// changeLines formats the difference of one document.
func (w *writer) changeLines(change api.RevisionChange) summarize.Group {
	g := summarize.Group{Names: []string{w.KindName(change.Kind) + "/" + change.ID}}
	switch change.Action {
	case "create":
		g.Head = w.paint(render.Green, "created")
		return g
	case "delete":
		g.Head = w.paint(render.Red, "deleted")
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
			line = summarize.Line{Text: w.paint(render.Red, "- "+render.Printable(path)), Values: entryFields(before, path)}
		case string(is):
			line = summarize.Line{Text: w.paint(render.Green, "+ "+render.Printable(path)), Values: entryFields(after, path)}
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

// RevisionView is the table of revisions, with the command line's names of kinds.
func RevisionView(kindName func(kind string) string) render.View {
	return render.View{
		Header: []string{"REVISION", "AT", "ACTOR", "CHANGES", "SUMMARY", "REASON", "COMMIT", "REQUEST"},
		Narrow: 6,
		Row: render.RowOf(func(d api.RevisionSummary) []string {
			return []string{
				strconv.FormatInt(d.Revision, 10), render.Time(d.At), Author(d), strconv.Itoa(d.ChangeCount), Summary(d, kindName),
				d.Reason, d.CommitID.String(), d.RequestID,
			}
		}),
	}
}

// ServedRevisionView is [RevisionView] with the changed inputs of clusters.
func ServedRevisionView(kindName func(kind string) string) render.View {
	view := RevisionView(kindName)
	const servedColumn = 5 // after SUMMARY
	served := render.RowOf(func(rev api.RevisionSummary) []string { return []string{summarize.Served(rev)} })
	row := view.Row
	view.Header, view.Narrow = slices.Insert(view.Header, servedColumn, "SERVED"), view.Narrow+1
	view.Row = func(doc json.RawMessage) ([]string, error) {
		cells, err := row(doc)
		if err != nil {
			return nil, err
		}
		cell, err := served(doc)
		return slices.Insert(cells, servedColumn, cell...), err
	}
	return view
}

// Summary returns the summary of a revision; from an older server, its changes.
func Summary(d api.RevisionSummary, kindName func(kind string) string) string {
	if d.Summary != "" {
		return d.Summary
	}
	names := make([]string, len(d.Changes))
	for i, change := range d.Changes {
		names[i] = change.Action + " " + kindName(change.Kind) + "/" + change.ID
	}
	const shown = 3
	if len(names) > shown {
		names = append(names[:shown], "…")
	}
	return strings.Join(names, ", ")
}

// Author returns the token that made a revision, and the claimed author.
func Author(d api.RevisionSummary) string {
	if d.Author == "" {
		return d.Actor
	}
	return d.Actor + " (" + d.Author + ")"
}
