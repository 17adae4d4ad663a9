// Package diff lists the fields in which two inputs differ, for plans and their hashes. It compares the inputs of thousands
// of clusters, and has no notion of clusters itself.
package diff

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Fields are the fields in which two inputs differ. Objects are compared by key, lists as a whole.
func Fields(before, after any) ([]api.FieldChange, error) {
	was, err := jsontext.Canonical(before)
	if err != nil {
		return nil, err
	}
	is, err := jsontext.Canonical(after)
	if err != nil || bytes.Equal(was, is) {
		return nil, err
	}
	x, err := unstructured.Decode(was)
	if err != nil {
		return nil, err
	}
	y, err := unstructured.Decode(is)
	if err != nil {
		return nil, err
	}
	d := &differ{}
	d.objects("", x, y)
	return d.changes, d.err
}

type differ struct {
	changes []api.FieldChange
	err     error
}

// objects compares two objects below a pointer.
func (d *differ) objects(at string, before, after map[string]any) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := before[k]
		is, has := after[k]
		here := at + jsontext.Pointer(k)
		x, wasObject := was.(map[string]any)
		y, isObject := is.(map[string]any)
		if wasObject && isObject {
			d.objects(here, x, y)
			continue
		}
		a, b := d.raw(was), d.raw(is)
		if had == has && bytes.Equal(a, b) {
			continue
		}
		change := api.FieldChange{Pointer: here}
		if had {
			change.Before = jsontext.Nullable(a)
		}
		if has {
			change.After = jsontext.Nullable(b)
		}
		d.changes = append(d.changes, change)
	}
}

func (d *differ) raw(v any) json.RawMessage {
	body, err := jsontext.Canonical(v)
	if err != nil {
		d.err = err
	}
	return body
}
