package render

import (
	"encoding/json"
	"slices"
	"strings"
)

// Field is one field of a document that differs. A field that one side does not have is absent there.
type Field struct {
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Changes returns the fields in which a document differs from the fleet's version. As in the server, fields that it does not have
// do not count, nor do settings that an entry of platform_components does not have, except oci_tag and component_path, which it
// releases; null equals none.
func Changes(fields map[string]json.RawMessage, now json.RawMessage) ([]Field, error) {
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(now, &stored); err != nil {
		return nil, err
	}
	before, after := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var out []Field
	for name, value := range fields {
		if name == "platform_components" {
			value = overlayEntries(stored[name], value)
		}
		Leaves(before, name, stored[name])
		Leaves(after, name, value)
		if was, is := commonOrder(stored[name], value); !slices.Equal(was, is) {
			field := Field{Path: name + " (order)"}
			field.Before, _ = Encode(was)
			field.After, _ = Encode(is)
			out = append(out, field)
		}
	}
	for _, path := range SortedKeys(before, after) {
		if was, is := before[path], after[path]; string(was) != string(is) {
			out = append(out, Field{path, was, is})
		}
	}
	slices.SortStableFunc(out, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// overlayEntries adds to the entries of a list the settings that they do not mention, from the entries with the same id now.
func overlayEntries(now, list json.RawMessage) json.RawMessage {
	var stored, entries []map[string]json.RawMessage
	if json.Unmarshal(now, &stored) != nil || json.Unmarshal(list, &entries) != nil {
		return list // the server reports the error
	}
	for _, entry := range entries {
		for _, old := range stored {
			if entry == nil || string(entry["id"]) != string(old["id"]) {
				continue
			}
			for name, value := range old {
				if _, has := entry[name]; !has && name != "oci_tag" && name != "component_path" {
					entry[name] = value
				}
			}
		}
	}
	whole, err := Encode(entries)
	if err != nil {
		return list
	}
	return whole
}

// Leaves collects the values inside a value, by path. Entries of a list with ids are named by them, so that an inserted entry is
// one difference. Other lists are one value.
func Leaves(into map[string]json.RawMessage, path string, value json.RawMessage) {
	var (
		fields map[string]json.RawMessage
		list   []json.RawMessage
	)
	switch {
	case len(value) == 0 || string(value) == "null":
	case json.Unmarshal(value, &fields) == nil:
		for name, field := range fields {
			Leaves(into, path+Step(name), field)
		}
	case json.Unmarshal(value, &list) == nil && (len(list) == 0 || listIDs(value) != nil):
		for i, id := range listIDs(value) {
			into[path+"["+id+"]"] = Present
			Leaves(into, path+"["+id+"]", list[i])
			delete(into, path+"["+id+"].id")
		}
	default:
		into[path] = compact(value)
	}
}

// Present is the value of a list's entry itself.
var Present = json.RawMessage(`{}`)

// Step returns the notation of a member behind the path of its object.
func Step(name string) string {
	if strings.ContainsAny(name, ".[]/ ") {
		return "[" + name + "]"
	}
	return "." + name
}

// compact returns a canonical form for comparisons. Numbers stay as written.
func compact(value json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(strings.NewReader(string(value)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return value
	}
	out, err := Encode(v)
	if err != nil {
		return value
	}
	return out
}

// listIDs returns the ids of a list of objects with unique ids; nil for other lists.
func listIDs(value json.RawMessage) []string {
	var list []struct {
		ID *string `json:"id"`
	}
	if json.Unmarshal(value, &list) != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, entry := range list {
		if entry.ID == nil || slices.Contains(ids[:i], *entry.ID) {
			return nil
		}
		ids[i] = *entry.ID
	}
	return ids
}

// commonOrder returns the ids that two lists share, in the order of each.
func commonOrder(before, after json.RawMessage) (was, is []string) {
	old, now := listIDs(before), listIDs(after)
	was = slices.DeleteFunc(slices.Clone(old), func(id string) bool { return !slices.Contains(now, id) })
	is = slices.DeleteFunc(slices.Clone(now), func(id string) bool { return !slices.Contains(old, id) })
	return was, is
}

// SortedKeys returns the keys of all maps without duplicates.
func SortedKeys[V any](maps ...map[string]V) []string {
	var keys []string
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
