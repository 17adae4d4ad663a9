// Package object is stored documents while they are changed: as JSON objects, with the fields that this version does not know,
// and with lists whose entries have an id. Every kind's defaults and every change are made of these few steps, which stand
// below all of them. It knows no kind of document.
package unstructured

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Decode reads an object that was written as documents are stored.
func Decode(body []byte) (map[string]any, error) {
	obj, _, err := jsontext.Decode(body)
	return obj, err
}

// DecodeStrict is Decode for an object whose typed value is looked at too. One that names a field twice or in another case, as
// none that was written here does, is refused: its value was not made of what would be changed.
func DecodeStrict(body []byte) (map[string]any, error) {
	obj, twice, err := jsontext.Decode(body)
	if err != nil {
		return nil, err
	}
	for field := range obj {
		if twice || strings.ToLower(field) != field {
			return nil, fmt.Errorf("a field, as %q, is there twice, or in another case", field)
		}
	}
	return obj, nil
}

// Of is a value as an object.
func FromValue(value any) (map[string]any, error) {
	body, err := jsontext.Canonical(value)
	if err != nil {
		return nil, err
	}
	return Decode(body)
}

// Open takes a stored object apart by one level: what it has of objects and lists is [jsontext.Text], until it is opened as
// well. It refuses what DecodeStrict does.
func Open(body []byte) (map[string]any, error) {
	v, err := jsontext.Open(jsontext.Text(body))
	if err != nil {
		return nil, err
	}
	obj, _ := v.(map[string]any)
	for field := range obj {
		if strings.ToLower(field) != field {
			return nil, fmt.Errorf("the field %q is in another case", field)
		}
	}
	return obj, nil
}

// OpenField opens a field of an opened object, if it was still Text.
func OpenField(obj map[string]any, field string) (any, error) {
	if text, ok := obj[field].(jsontext.Text); ok {
		v, err := jsontext.Open(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		obj[field] = v
	}
	return obj[field], nil
}

// In is a field that is an object; an empty one when it is not.
func NestedObject(obj map[string]any, field string) map[string]any {
	if inner, ok := obj[field].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// SetIn sets one key of an object that is a field, or removes it when there is nothing (n is 0) to say.
func SetNestedKey(obj map[string]any, field, key string, value any, n int) {
	inner, ok := obj[field].(map[string]any)
	if !ok {
		inner = map[string]any{}
		obj[field] = inner
	}
	if inner[key] = value; n == 0 {
		delete(inner, key)
	}
}

// SetDefault gives a field that is missing or null a value.
func SetDefault(obj map[string]any, field string, value any) {
	if obj[field] == nil {
		obj[field] = value
	}
}

// DropEmpty removes fields that are null, or empty strings where that means the same as absent.
func DropEmpty(obj map[string]any, fields ...string) {
	for _, f := range fields {
		if v, ok := obj[f]; ok && (v == nil || v == "") {
			delete(obj, f)
		}
	}
}

// DropEmptyList removes a list that is null or has nothing in it, where that means the same as absent.
func DropEmptyList(obj map[string]any, field string) {
	v, ok := obj[field]
	if list, isList := v.([]any); ok && (v == nil || isList && len(list) == 0) {
		delete(obj, field)
	}
}

// Entry is an item of a list as an entry that has an id; not ok: it is something else.
func Entry(item any) (entry map[string]any, id string, ok bool) {
	entry, ok = item.(map[string]any)
	if !ok {
		return nil, "", false
	}
	id, ok = entry["id"].(string)
	return entry, id, ok
}

// HasID tells of items of a list whether they are the entry with an id.
func HasID(id string) func(item any) bool {
	return func(item any) bool {
		_, have, ok := Entry(item)
		return ok && have == id
	}
}
