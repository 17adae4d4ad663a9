package manifests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// Diff is a document that would change, or that differs from another.
type Diff struct {
	Kind   string         `json:"kind"`
	ID     string         `json:"id"`
	Action string         `json:"action"`
	Fields []render.Field `json:"fields"`

	Source string `json:"-"` // of the second version
	Before string `json:"-"` // the first version, if both are documents of the fleet
}

// Diff returns the difference of a document, which action changes, from the fleet that Operations has read.
func (s *Set) Diff(kind, id, action string) (Diff, error) {
	out := Diff{Kind: kind, ID: id, Action: action, Fields: []render.Field{}}
	now := s.found[kind][id]
	for _, d := range s.Documents {
		if d.Kind.Kind != kind || d.ID != id {
			continue
		}
		if now == nil {
			now = json.RawMessage(`{}`)
		}
		fields, err := render.Changes(d.Fields, now)
		out.Fields, out.Source = append(out.Fields, fields...), d.Source
		return out, err
	}
	fields, err := Compare(now, json.RawMessage(`{}`))
	out.Fields = append(out.Fields, fields...)
	return out, err
}

// Compare returns the fields in which two stored documents differ, without those that the server sets, and those named by except.
func Compare(before, after json.RawMessage, except ...string) ([]render.Field, error) {
	var leaves [2]map[string]json.RawMessage
	for i, doc := range []json.RawMessage{before, after} {
		leaves[i] = map[string]json.RawMessage{}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(doc, &fields); err != nil {
			return nil, fmt.Errorf("unexpected response of the server: %w", err)
		}
		for name, value := range fields {
			if !slices.Contains(documents.ReadOnly, name) && !slices.Contains(except, name) {
				render.Leaves(leaves[i], name, value)
			}
		}
	}
	var out []render.Field
	for _, path := range render.SortedKeys(leaves[0], leaves[1]) {
		if was, is := leaves[0][path], leaves[1][path]; string(was) != string(is) {
			out = append(out, render.Field{Path: path, Before: was, After: is})
		}
	}
	return out, nil
}

// FormatDiffs formats diffs like diff -u, a line for each field. nameOf returns the command line's name of a kind; paint colors a
// line.
func FormatDiffs(diffs []Diff, nameOf func(kind string) string, paint func(color, text string) string) string {
	var b strings.Builder
	field := func(path string, value json.RawMessage) string {
		if string(value) == string(render.Present) {
			return path
		}
		return path + ": " + string(value)
	}
	line := func(color, format string, args ...any) {
		b.WriteString(paint(color, render.Printable(fmt.Sprintf(format, args...))) + "\n")
	}
	for _, d := range diffs {
		name := nameOf(d.Kind) + "/" + d.ID
		was, is := cmp.Or(d.Before, name), name+"   "+d.Source
		if d.Before != "" {
			is = d.Source
		}
		switch d.Action {
		case "create":
			was = "(none)"
		case "delete":
			is = "(none)"
		}
		line(render.Bold, "--- %s", was)
		line(render.Bold, "+++ %s", is)
		for _, f := range d.Fields {
			if f.Before != nil {
				line(render.Red, "-%s", field(f.Path, f.Before))
			}
			if f.After != nil {
				line(render.Green, "+%s", field(f.Path, f.After))
			}
		}
	}
	return b.String()
}
