package ui

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// documentGroup holds documents of one kind with the same change.
type documentGroup struct {
	Kind, Action string
	Documents    []documentView // without their fields
	Fields       []fieldChange
	More         int // fields that are not shown
}

// groupDocuments groups documents by their changes. Fields of several created or deleted documents are omitted: each document has its
// own page.
func groupDocuments(documents []documentView) (out []documentGroup) {
	of := make(map[string]documentView, len(documents))
	groups := make([]summarize.Group, 0, len(documents))
	for _, doc := range documents {
		name := doc.Kind + "\x00" + doc.ID
		of[name] = doc
		g := summarize.Group{Names: []string{name}, Head: doc.Action + "\x00" + doc.Kind}
		if doc.Action == "update" {
			g.Lines = fieldLines(doc.Fields)
		}
		groups = append(groups, g)
	}
	for _, g := range summarize.Regroup(groups, false) {
		action, kind, _ := strings.Cut(g.Head, "\x00")
		one := documentGroup{Kind: kind, Action: action}
		if len(g.Names) == 1 || action == "update" {
			one.Fields, one.More = groupFields(of[g.Names[0]].Fields, g.Lines)
		}
		for _, name := range g.Names {
			doc := of[name]
			doc.Fields = nil
			one.Documents = append(one.Documents, doc)
		}
		out = append(out, one)
	}
	return out
}

// fieldLines returns the fields as lines that summarize groups.
func fieldLines(fields []fieldChange) (lines []summarize.Line) {
	for _, f := range fields {
		lines = append(lines, summarize.Line{Text: f.Field, Values: f.Before + "\x00" + f.After})
	}
	return lines
}

// groupFields returns the first fields of a group, with the number of different values from lines, and the number of further fields.
func groupFields(fields []fieldChange, lines []summarize.Line) (shown []fieldChange, more int) {
	for i, f := range fields[:min(len(fields), maxFields)] {
		if i < len(lines) {
			f.Values = lines[i].Ways
		}
		shown = append(shown, f)
	}
	return shown, len(fields) - len(shown)
}

// documentView is the change of a document by a revision.
type documentView struct {
	Kind, ID, Action, Link string
	Fields                 []fieldChange
	More                   int
	Restore                []pageLink // forms that restore it
}

// maxDocuments and maxFields limit the documents of a revision, and the fields of a document, that are shown.
const (
	maxDocuments = 200
	maxFields    = 60
)
