package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// mergeBack merges what a document was before a change into what it is now.
func (tx *Tx) mergeBack(ch Change, now json.RawMessage, prefer jsontext.Side) (reversal, error) {
	sides := make([]map[string]any, 3)
	for i, body := range []json.RawMessage{ch.After, now, ch.Before} {
		obj, err := decodeStrict(body)
		if err != nil {
			return reversal{}, fmt.Errorf("%s %q cannot be read: %w", ch.Kind, ch.ID, err)
		}
		sides[i] = obj
	}
	assigns := slices.ContainsFunc(sides, func(obj map[string]any) bool { return obj["platform_components"] != nil })
	if assigns {
		fillAlike(sides)
		for _, obj := range sides {
			joinOwners(obj)
		}
	}
	m := &jsontext.Merge{Prefer: prefer, Sets: []string{"/depends_on"}}
	merged := m.Objects(sides[0], sides[1], sides[2])
	if assigns {
		if ch.Kind == KindCluster { // a layer says something about components that it does not give
			keepTogether(m, sides, merged, tx.gives(merged))
		}
		partOwners(merged)
	}
	if len(m.Conflicts) > 0 && prefer == "" {
		return reversal{conflicts: m.Conflicts}, nil
	}
	if rules := tx.kinds.byName[ch.Kind]; rules != nil {
		rules.normalize(merged)
	}
	body, err := jsontext.Canonical(merged)
	return reversal{changes: !bytes.Equal(body, now), body: body}, err
}

// objectIn is a field that is an object; an empty one when it is not.
func objectIn(obj map[string]any, field string) map[string]any {
	if inner, ok := obj[field].(map[string]any); ok {
		return inner
	}
	return map[string]any{}
}

// fillAlike gives all versions of a document the sets of patches, and the lists of resources, that one of them has: they are
// left out where there is nothing in them, which is another thing than that somebody has deleted them.
func fillAlike(sides []map[string]any) {
	for field, empty := range map[string]func() any{
		"patches":   func() any { return map[string]any{} },
		"resources": func() any { return []any{} },
	} {
		all := map[string]bool{}
		for _, obj := range sides {
			for key := range objectIn(obj, field) {
				all[key] = true
			}
		}
		if len(all) == 0 {
			continue
		}
		for _, obj := range sides {
			inner := objectIn(obj, field)
			for key := range all {
				setDefault(inner, key, empty())
			}
			obj[field] = inner
		}
	}
}

// ownedValue is the value of a patch with its managers, as they are stored: one thing, since whoever has taken a value over
// has changed it even when it says the same.
type ownedValue struct {
	value  any
	owners []string // sorted
}

// MarshalJSON is how a conflict shows it.
func (v ownedValue) MarshalJSON() ([]byte, error) { return jsontext.Canonical(v.value) }

// joinOwners makes a document's patches ownedValues.
func joinOwners(obj map[string]any) {
	owners := objectIn(obj, "patch_owners")
	for component, patches := range objectIn(obj, "patches") {
		values, ok := patches.(map[string]any)
		if !ok {
			continue
		}
		for path, value := range values {
			values[path] = ownedValue{value: value}
		}
		managers := objectIn(owners, component)
		for _, manager := range sortedKeys(managers) {
			paths, _ := managers[manager].([]any)
			for _, p := range paths {
				path, _ := p.(string)
				if owned, ok := values[path].(ownedValue); ok {
					owned.owners = append(owned.owners, manager)
					values[path] = owned
				}
			}
		}
	}
	delete(obj, "patch_owners")
}

// partOwners undoes joinOwners, and leaves out what is empty, as documents do.
func partOwners(obj map[string]any) {
	patches, owners := objectIn(obj, "patches"), map[string]any{}
	for component := range patches {
		values := map[string]any{}
		managers := map[string]any{}
		owned := objectIn(patches, component)
		for _, path := range sortedKeys(owned) {
			v, ok := owned[path].(ownedValue)
			if !ok {
				continue
			}
			values[path] = v.value
			for _, manager := range v.owners {
				paths, _ := managers[manager].([]any)
				managers[manager] = append(paths, path)
			}
		}
		setIn(obj, "patches", component, values, len(values))
		if len(managers) > 0 {
			owners[component] = managers
		}
	}
	if len(owners) > 0 {
		obj["patch_owners"] = owners
	}
}

// keepTogether finds patches that were added since to a component which goes, with the assignment that the revision made. Those
// that layers give stay.
func keepTogether(m *jsontext.Merge, sides []map[string]any, merged map[string]any, given map[string]bool) {
	base, ours, patches := sides[0], sides[1], objectIn(merged, "patches")
	entries, _ := merged["platform_components"].([]any)
	had, _ := ours["platform_components"].([]any)
	for _, component := range sortedKeys(patches) {
		at := slices.IndexFunc(had, isEntry(component))
		if len(objectIn(patches, component)) == 0 || at < 0 || given[component] || slices.ContainsFunc(entries, isEntry(component)) {
			continue
		}
		m.Conflicts = append(m.Conflicts, jsontext.MergeConflict{
			Pointer: jsontext.Pointer("patches", component),
			Base:    objectIn(base, "patches")[component], Ours: objectIn(ours, "patches")[component],
		})
		if m.Prefer == jsontext.Theirs {
			delete(patches, component)
			continue
		}
		entries = append(entries, had[at])
	}
	merged["platform_components"] = entries
}
