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

// Changes are the fields in which a document differs from what the fleet has. As in the server, fields that it does
// not have do not count, nor do those that an entry of platform_components does not have, but for oci_tag and
// component_path, which are released then; null is the same as none.
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

// overlayEntries gives the entries of a list what those with the same id have now and they do not mention.
func overlayEntries(now, list json.RawMessage) json.RawMessage {
	var stored, entries []map[string]json.RawMessage
	if json.Unmarshal(now, &stored) != nil || json.Unmarshal(list, &entries) != nil {
		return list // the server will say what is wrong with it
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

// Leaves collects what a value is made of, by path. Entries of a list that have an id are called by it, so that one
// more at the front is one difference. Lists of other things are one value.
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

// Present stands for an entry of a list being there.
var Present = json.RawMessage(`{}`)

// Step is how a member is written behind the path of its object.
func Step(name string) string {
	if strings.ContainsAny(name, ".[]/ ") {
		return "[" + name + "]"
	}
	return "." + name
}

// compact writes a value in the one way in which equal values are equal. Numbers stay as they are.
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

// listIDs are the ids of a list of objects that have one each; nil when it is not such a list.
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

// commonOrder is the order in which two lists have the ids that both have.
func commonOrder(before, after json.RawMessage) (was, is []string) {
	old, now := listIDs(before), listIDs(after)
	was = slices.DeleteFunc(slices.Clone(old), func(id string) bool { return !slices.Contains(now, id) })
	is = slices.DeleteFunc(slices.Clone(now), func(id string) bool { return !slices.Contains(old, id) })
	return was, is
}

// SortedKeys are the keys of all the maps, each once.
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
