package fleet

import (
	"encoding/json"
	"maps"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// ParseJSON parses untrusted JSON into maps, slices, strings, booleans and json.Number; see [jsontext.Parse].
func ParseJSON(body []byte) (any, error) {
	v, problems := jsontext.Parse(body)
	if len(problems) > 0 {
		return nil, Invalid(problemsOf(problems))
	}
	return v, nil
}

// ParseObject is ParseJSON for a body that must be an object.
func ParseObject(body []byte) (map[string]any, error) {
	v, err := ParseJSON(body)
	if err != nil {
		return nil, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, notAnObject()
	}
	return obj, nil
}

func notAnObject() error { return Invalid([]Problem{{Detail: "must be a JSON object"}}) }

// mergePut implements PUT: fields that are present and not null replace, all others stay. Entries of a list with an id keep
// the fields that the request omits, so that an older client does not remove fields that it does not know.
func mergePut(stored, request map[string]any) map[string]any {
	out := make(map[string]any, len(stored)+len(request))
	maps.Copy(out, stored)
	for k, v := range request {
		if v == nil {
			continue
		}
		switch list := v.(type) {
		case []any:
			v = mergePutEntries(out[k], list)
		case map[string]any:
			if k == "resources" { // its fields are lists
				before, _ := out[k].(map[string]any)
				lists := make(map[string]any, len(list))
				for id, items := range list {
					lists[id] = mergePutList(before[id], items)
				}
				v = lists
			}
		}
		out[k] = v
	}
	return out
}

// clearedByPut are the overrides that a PUT clears if an entry omits them, since the clients of the reference implementation
// do not send null. Fields that these clients do not know must stay.
var clearedByPut = []string{"oci_tag", "component_path"}

// mergePutList merges a list if the request has one.
func mergePutList(stored, list any) any {
	if items, ok := list.([]any); ok {
		return mergePutEntries(stored, items)
	}
	return list
}

// mergePutEntries merges the entries of a list with an id; all other items are replaced.
func mergePutEntries(stored any, items []any) []any {
	before := map[string]map[string]any{}
	list, _ := stored.([]any)
	for _, item := range list {
		if entry, id, ok := unstructured.Entry(item); ok {
			before[id] = entry
		}
	}
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = item
		entry, id, ok := unstructured.Entry(item)
		if !ok || before[id] == nil {
			continue
		}
		merged := make(map[string]any, len(entry))
		maps.Copy(merged, before[id])
		for _, pin := range clearedByPut {
			delete(merged, pin)
		}
		maps.Copy(merged, entry)
		dropReplacedDigest(before[id], merged, entry)
		out[i] = merged
	}
	return out
}

// encodedSize returns the size of a value as JSON, in bytes.
func encodedSize(v any) int {
	var n counter
	enc := json.NewEncoder(&n)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0 // models can always be encoded; raw values were parsed before they were stored
	}
	return int(n)
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
