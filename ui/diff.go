package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"
)

// fieldChange is a value that a revision set, changed or removed.
type fieldChange struct {
	Field         string
	Before, After string // empty: there was none
	Hidden        bool
}

// bookkeeping are fields that every change changes.
var bookkeeping = map[string]bool{"revision": true, "updated_at": true, "created_at": true}

// diff compares two documents leaf by leaf. Entries of lists are known by their id, where they have one.
func diff(before, after json.RawMessage, reveal bool) ([]fieldChange, error) {
	was, err := leaves(before)
	if err != nil {
		return nil, err
	}
	is, err := leaves(after)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, one := range []map[string]string{was, is} {
		for name := range one {
			names[name] = true
		}
	}
	var out []fieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] == is[name] || bookkeeping[name] || hollow(was[name]) && is[name] == "" || hollow(is[name]) && was[name] == "" {
			continue
		}
		change := fieldChange{Field: name, Before: was[name], After: is[name]}
		var hidBefore, hidAfter bool
		change.Before, hidBefore = mask(name, change.Before, reveal)
		change.After, hidAfter = mask(name, change.After, reveal)
		change.Hidden = hidBefore || hidAfter
		out = append(out, change)
	}
	return out, nil
}

// hollow tells whether a value holds none: an object that was empty until it had fields is no news beside them.
func hollow(value string) bool { return value == "{}" || value == "[]" }

// leaves are the values of a document by their paths.
func leaves(document json.RawMessage) (map[string]string, error) {
	out := map[string]string{}
	if len(document) == 0 {
		return out, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("a document of the history: %w", err)
	}
	collect(out, nil, value)
	return out, nil
}

func collect(out map[string]string, path []string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 {
			for name, inner := range value {
				collect(out, append(slices.Clip(path), name), inner)
			}
			return
		}
	case []any:
		if len(value) > 0 {
			for i, inner := range value {
				collect(out, append(slices.Clip(path), entryName(inner, i)), inner)
			}
			return
		}
	}
	text, err := json.Marshal(value)
	if err != nil { // of what was JSON
		text = fmt.Append(nil, value)
	}
	out[strings.Join(path, " › ")] = string(text)
}

func entryName(entry any, i int) string {
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
	return string(value.MustGet())
}
