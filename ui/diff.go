package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

// fieldChange is a value that a revision set, changed or removed.
type fieldChange struct {
	Field         string
	Before, After string // empty: there was none
	Hidden        bool
	Values        int // how many different values a group of documents has; at most 1: all have the same
}

// diffView is a table of fields, with the names of its columns.
type diffView struct {
	Name, Was, Is string
	Fields        []fieldChange
}

// metadataFields are fields that every change changes.
var metadataFields = map[string]bool{"revision": true, "updated_at": true, "created_at": true}

// diff compares two documents leaf by leaf. Entries of lists are known by their id, where they have one. What may be a secret is
// compared as it is, and shown masked.
func diff(before, after json.RawMessage, reveal bool) ([]fieldChange, error) {
	was, err := leaves(before, reveal)
	if err != nil {
		return nil, err
	}
	is, err := leaves(after, reveal)
	if err != nil {
		return nil, err
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []fieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		if a.text == b.text || metadataFields[name] || isEmptyContainer(a.text) && b.text == "" || isEmptyContainer(b.text) && a.text == "" {
			continue
		}
		out = append(out, fieldChange{Field: name, Before: a.shown, After: b.shown, Hidden: a.text != a.shown || b.text != b.shown})
	}
	return out, nil
}

// isEmptyContainer tells whether a value holds none: an object that was empty until it had fields is no news beside them.
func isEmptyContainer(value string) bool { return value == "{}" || value == "[]" }

// leaf is a value of a document, as it is and as it is shown.
type leaf struct{ text, shown string }

// leaves are the values of a document by their paths.
func leaves(document json.RawMessage, reveal bool) (map[string]leaf, error) {
	out := map[string]leaf{}
	if len(document) == 0 {
		return out, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("a document of the history: %w", err)
	}
	shown, hidden := value, false
	if !reveal {
		shown = redact.Value(value, false, &hidden)
	}
	collect(out, nil, value, shown)
	return out, nil
}

// collect walks over a value, and over the same value masked.
func collect(out map[string]leaf, path []string, value, shown any) {
	switch value := value.(type) {
	case map[string]any:
		beside, _ := shown.(map[string]any)
		for name, inner := range value {
			collect(out, append(slices.Clip(path), name), inner, beside[name])
		}
		if len(value) > 0 {
			return
		}
	case []any:
		beside, _ := shown.([]any)
		for i, inner := range value {
			collect(out, append(slices.Clip(path), listEntryName(inner, i)), inner, beside[i])
		}
		if len(value) > 0 {
			return
		}
	}
	out[strings.Join(path, " › ")] = leaf{redact.Display(value), redact.Display(shown)}
}

func listEntryName(entry any, i int) string {
	if object, ok := entry.(map[string]any); ok {
		if id, ok := object["id"].(string); ok {
			return id
		}
	}
	return fmt.Sprint(i)
}

// valueText is a JSON value as text; empty: it is not set.
func valueText(value nullable.Nullable[json.RawMessage]) string {
	if !value.IsSpecified() {
		return ""
	}
	if value.IsNull() {
		return "null"
	}
	decoder := json.NewDecoder(bytes.NewReader(value.MustGet()))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return string(value.MustGet())
	}
	return redact.Display(decoded) // in the API's JSON, & may be an escape
}
