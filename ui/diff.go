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
	Before, After string // empty: absent
	Hidden        bool
	Values        int // number of different values in a group of documents; 0 or 1: all are equal
}

// maskedChange returns the change of a value, masked unless reveal is set.
func maskedChange(pointer, before, after string, reveal bool) (out fieldChange) {
	var was, is bool
	out.Before, was = redact.JSON(pointer, before, reveal)
	out.After, is = redact.JSON(pointer, after, reveal)
	out.Hidden = was || is
	return out
}

// anyHidden reports whether a value is masked.
func anyHidden(fields []fieldChange) bool {
	return slices.ContainsFunc(fields, func(f fieldChange) bool { return f.Hidden })
}

// diffView is a table of changed fields with the titles of its columns.
type diffView struct {
	Name, Was, Is string
	Fields        []fieldChange
}

// metadataFields change with every revision and are not shown.
var metadataFields = map[string]bool{"revision": true, "updated_at": true, "created_at": true}

// diff compares two documents value by value. Entries of lists are matched by id, if they have one, otherwise by index. Values that may
// be secrets are compared unmasked and shown masked, unless reveal is set.
func diff(before, after json.RawMessage, reveal bool) ([]fieldChange, error) {
	var sides [2]any
	for i, document := range []json.RawMessage{before, after} {
		if len(document) == 0 {
			continue
		}
		if err := decodeNumbers(document, &sides[i]); err != nil {
			return nil, fmt.Errorf("a document of the history: %w", err)
		}
	}
	return diffValues(sides[0], sides[1], reveal), nil
}

// diffValues is diff of decoded documents; nil: there is none.
func diffValues(before, after any, reveal bool) (out []fieldChange) {
	was, is := leaves(before, reveal), leaves(after, reveal)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		if a.text == b.text || metadataFields[name] || isEmptyContainer(a.text) && b.text == "" || isEmptyContainer(b.text) && a.text == "" {
			continue
		}
		out = append(out, fieldChange{Field: name, Before: a.shown, After: b.shown, Hidden: a.text != a.shown || b.text != b.shown})
	}
	return out
}

// isEmptyContainer reports whether a value is an empty object or list. Such a value that gets fields is not shown beside them.
func isEmptyContainer(value string) bool { return value == "{}" || value == "[]" }

// decodeNumbers decodes JSON with its numbers as they are written.
func decodeNumbers(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(to)
}

// leaf is a value of a document, unmasked and as shown.
type leaf struct{ text, shown string }

// leaves returns the values of a document by path.
func leaves(document any, reveal bool) map[string]leaf {
	out := map[string]leaf{}
	if document != nil {
		collect(out, nil, document, maskSecrets(document, reveal))
	}
	return out
}

// fieldSeparator stands between the names of a path.
const fieldSeparator = " › "

// collect adds the leaves of a value; shown is the same value masked.
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
	out[strings.Join(path, fieldSeparator)] = leaf{redact.Display(value), redact.Display(shown)}
}

// listEntryName returns the id of an entry of a list, or its index.
func listEntryName(entry any, i int) string {
	if object, ok := entry.(map[string]any); ok {
		if id, ok := object["id"].(string); ok {
			return id
		}
	}
	return fmt.Sprint(i)
}

// valueText formats a JSON value; empty if it is absent.
func valueText(value nullable.Nullable[json.RawMessage]) string {
	if !value.IsSpecified() {
		return ""
	}
	if value.IsNull() {
		return "null"
	}
	var decoded any
	if decodeNumbers(value.MustGet(), &decoded) != nil {
		return string(value.MustGet())
	}
	return redact.Display(decoded) // encoded again without HTML escapes such as \u0026
}
