// Package unstructured edits stored documents as JSON objects, and so keeps fields that this version does not know. It
// handles lists whose entries have an id. The defaults and changes of all kinds use these functions; the package knows no
// kind of document.
package unstructured

import (
	"fmt"
	"maps"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Decode parses an object in its stored form.
func Decode(body []byte) (map[string]any, error) {
	obj, _, err := jsontext.Decode(body)
	return obj, err
}

// DecodeStrict is Decode for an object whose typed value is used too. It refuses an object with a field name that is
// duplicated or in another case, which the service never writes: the typed value would not match the object.
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

// FromValue converts a value to an object.
func FromValue(value any) (map[string]any, error) {
	body, err := jsontext.Canonical(value)
	if err != nil {
		return nil, err
	}
	return Decode(body)
}

// Open parses one level of a stored object: nested objects and lists remain [jsontext.Text] until they are opened as well.
// It refuses the same objects as DecodeStrict.
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

// OpenField opens a field of an opened object if it is still Text.
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

// NestedObject returns a field that is an object; an empty object if it is not.
func NestedObject(obj map[string]any, field string) map[string]any {
	if inner, ok := obj[field].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// SetNestedKey sets one key of an object that is a field, or removes the key if n is 0.
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

// SetDefault sets a field that is missing or null.
func SetDefault(obj map[string]any, field string, value any) {
	if obj[field] == nil {
		obj[field] = value
	}
}

// DropEmpty removes fields that are null or an empty string, for fields where both mean the same as absent.
func DropEmpty(obj map[string]any, fields ...string) {
	for _, f := range fields {
		if v, ok := obj[f]; ok && (v == nil || v == "") {
			delete(obj, f)
		}
	}
}

// DropFalse removes the fields that are false, for objects where that means the same as absent.
func DropFalse(obj map[string]any) {
	maps.DeleteFunc(obj, func(_ string, v any) bool { set, is := v.(bool); return is && !set })
}

// DropEmptyList removes a list that is null or empty, for fields where both mean the same as absent.
func DropEmptyList(obj map[string]any, field string) {
	v, ok := obj[field]
	if list, isList := v.([]any); ok && (v == nil || isList && len(list) == 0) {
		delete(obj, field)
	}
}

// Entry returns an item of a list as an entry with an id; not ok if it has none.
func Entry(item any) (entry map[string]any, id string, ok bool) {
	entry, ok = item.(map[string]any)
	if !ok {
		return nil, "", false
	}
	id, ok = entry["id"].(string)
	return entry, id, ok
}

// HasID returns a predicate for items of a list: whether an item is the entry with the id.
func HasID(id string) func(item any) bool {
	return func(item any) bool {
		_, have, ok := Entry(item)
		return ok && have == id
	}
}
