package explain

import (
	"maps"
	"reflect"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// explainValues explains the values of a component: one for each patched path, and one for each path that a layer removes
// from the layers below it.
func (of *input) explainValues(paths map[string]any) {
	values := unstructured.NestedObject(of.Value, "values")
	if len(paths) == 0 { // no document sets any
		of.add("/patches", paths, sources{})
		of.add("/values", of.Value["values"], sources{})
	}
	for _, path := range of.patched(paths) {
		var found sources
		for _, p := range of.places {
			found.add(p, "patches", of.ID, path)
		}
		found.add(of.Definition, "patches", path)
		value, served := paths[path]
		if !served && !slices.ContainsFunc(found.all, func(s api.ValueSource) bool { return !s.Value.IsNull() }) {
			continue // there was nothing to remove
		}
		of.add(jsontext.Pointer("patches", path), value, found)
		keys, err := of.Keys(path)
		if err != nil {
			of.err = err
			return
		}
		if value, _ = at(values, keys); !served && value != nil {
			continue // others set it by paths of their own
		}
		of.add(jsontext.Pointer(append([]any{"values"}, keys...)...), value, found)
	}
}

// patched returns the sorted paths that any document sets or removes, served or not.
func (of *input) patched(served map[string]any) []string {
	all := maps.Clone(served)
	for _, p := range of.places {
		maps.Copy(all, unstructured.NestedObject(unstructured.NestedObject(p.Object, "patches"), of.ID))
	}
	return sorted(all)
}

// sources collects the documents that set a value, the highest first.
type sources struct {
	all []api.ValueSource
	err error
}

// add adds a place if it sets the value at the keys.
func (o *sources) add(p Place, keys ...any) {
	one, present, err := p.valueAt(keys...)
	if err != nil {
		o.err = err
	}
	if present {
		o.all = append(o.all, one)
	}
}

// valueAt returns the value that a document sets at a pointer, given as keys, and false if it sets none.
func (p Place) valueAt(keys ...any) (api.ValueSource, bool, error) {
	out := p.source(keys...)
	v, present := at(p.Object, keys)
	if !present {
		return out, false, nil
	}
	value, err := jsontext.Canonical(v)
	out.Value = jsontext.Nullable(value)
	out.Pointer, out.Rollout = p.origin(keys)
	return out, true, err
}

// origin returns the place of a value in the stored document, or the rollout that changes it.
func (p Place) origin(keys []any) (pointer, rollout string) {
	if p.Stored == nil {
		return jsontext.Pointer(keys...), ""
	}
	for _, r := range p.Rollouts {
		before, had := at(r.Before, p.keysIn(r.Before, keys))
		after, has := at(r.After, p.keysIn(r.After, keys))
		if had != has || !reflect.DeepEqual(before, after) {
			return jsontext.Pointer(keys...), r.ID
		}
	}
	return jsontext.Pointer(p.keysIn(p.Stored, keys)...), ""
}

// keysIn returns the keys that lead to the same value in another version of the document: entries of lists have the same id
// there, and maybe another index.
func (p Place) keysIn(other map[string]any, keys []any) []any {
	out := slices.Clone(keys)
	for i, key := range keys {
		index, ok := key.(int)
		if !ok {
			continue
		}
		entry, _ := at(p.Object, keys[:i+1])
		obj, _ := entry.(map[string]any)
		id, _ := obj["id"].(string)
		list, _ := at(other, out[:i])
		entries, _ := list.([]any)
		if out[i] = index; id != "" {
			out[i] = slices.IndexFunc(entries, unstructured.HasID(id))
		}
	}
	return out
}

// source returns a source without its value.
func (p Place) source(keys ...any) api.ValueSource {
	return api.ValueSource{Kind: p.Kind, ID: p.ID, Pointer: jsontext.Pointer(keys...)}
}

// at returns the value at a path of keys.
func at(v any, keys []any) (found any, present bool) {
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			if v, present = m[key]; !present {
				return nil, false
			}
		case int:
			items, _ := v.([]any)
			if key < 0 || key >= len(items) {
				return nil, false
			}
			v = items[key]
		}
	}
	return v, true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
