package explain

import (
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// explainValues explains the values of a component: one for each path that somebody patches, and for each that a layer takes
// away from those below it.
func (of *input) explainValues(paths map[string]any) {
	values := unstructured.NestedObject(of.Value, "values")
	if len(paths) == 0 { // nobody says any
		of.told("/patches", paths, sayings{})
		of.told("/values", of.Value["values"], sayings{})
	}
	for _, path := range of.patched(paths) {
		var who sayings
		for _, p := range of.places {
			who.add(p, "patches", of.ID, path)
		}
		who.add(of.Definition, "patches", path)
		value, served := paths[path]
		if !served && !slices.ContainsFunc(who.all, func(s api.Saying) bool { return !s.Value.IsNull() }) {
			continue // there was nothing to take away
		}
		of.told(jsontext.Pointer("patches", path), value, who)
		keys, err := of.Keys(path)
		if err != nil {
			of.err = err
			return
		}
		if value, _ = at(values, keys); !served && value != nil {
			continue // others say it by paths of their own
		}
		of.told(jsontext.Pointer(append([]any{"values"}, keys...)...), value, who)
	}
}

// patched are the paths that anybody says anything about, served or not, sorted.
func (of *input) patched(served map[string]any) []string {
	all := maps.Clone(served)
	for _, p := range of.places {
		maps.Copy(all, unstructured.NestedObject(unstructured.NestedObject(p.Object, "patches"), of.ID))
	}
	return sorted(all)
}

// sayings collects who says a value, the highest first.
type sayings struct {
	all []api.Saying
	err error
}

func (o *sayings) add(p Place, keys ...any) {
	one, there, err := p.saying(keys...)
	if err != nil {
		o.err = err
	}
	if there {
		o.all = append(o.all, one)
	}
}

// saying is what a document says at a pointer, by the keys on the way there, and whether it says anything.
func (p Place) saying(keys ...any) (api.Saying, bool, error) {
	out := p.silent(keys...)
	v, there := at(p.Object, keys)
	if !there {
		return out, false, nil
	}
	value, err := jsontext.Canonical(v)
	out.Value = jsontext.Nullable(value)
	return out, true, err
}

// silent is a saying without what is said.
func (p Place) silent(keys ...any) api.Saying {
	return api.Saying{Kind: p.Kind, ID: p.ID, Pointer: jsontext.Pointer(keys...)}
}

// at is what is in a value, by the keys on the way there.
func at(v any, keys []any) (found any, there bool) {
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			if v, there = m[key]; !there {
				return nil, false
			}
		case int:
			items, _ := v.([]any)
			if key >= len(items) {
				return nil, false
			}
			v = items[key]
		}
	}
	return v, true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
