// Package threeway reverts one change of a document and keeps later changes: a three-way merge by key and by the ids of
// entries. Beyond that it keeps parts of cluster documents consistent: a patch and its managers are one value, and a removed
// component takes its patches with it. Merged separately, each part would be valid, but the cluster would get another
// configuration. The package knows no fleet.
package threeway

import (
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Versions are the inputs of the merge: the document as the revision made it, as it is now, and as it was before that
// revision.
type Versions struct{ Made, Now, Before []byte }

// Options control the merge.
type Options struct {
	// Prefer decides conflicts. Empty: a conflict prevents the merge.
	Prefer jsontext.Side
	// Strict: a value that both versions have changed to the same is a conflict too.
	Strict bool
	// Prepare changes each version before the merge; nil: none changes.
	Prepare func(obj map[string]any)
	// Given returns the components that a cluster has from layers, computed from its merged object; nil: the document is not
	// a cluster, and may have settings of components that it does not list.
	Given func(merged map[string]any) map[string]bool
}

// Merge merges the version before the revision into the current one. The object must be normalized before it is stored; it
// is nil if there are conflicts.
func Merge(v Versions, opt Options) (map[string]any, []jsontext.MergeConflict, error) {
	sides := make([]map[string]any, 3)
	for i, body := range [][]byte{v.Made, v.Now, v.Before} {
		obj, err := unstructured.DecodeStrict(body)
		if err != nil {
			return nil, nil, err
		}
		if opt.Prepare != nil {
			opt.Prepare(obj)
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
	m := &jsontext.Merge{Prefer: opt.Prefer, Strict: opt.Strict, Sets: []string{"/depends_on"}}
	merged := m.Objects(sides[0], sides[1], sides[2])
	if assigns {
		if opt.Given != nil {
			keepTogether(m, sides, merged, opt.Given(merged))
		}
		partOwners(merged)
	}
	if len(m.Conflicts) > 0 && opt.Prefer == "" {
		return nil, m.Conflicts, nil
	}
	return merged, nil, nil
}

// fillAlike gives all versions of a document the same keys in patches and resources: a version that lacks the key of another
// one gets it with an empty value. Documents omit empty values, and the merge would treat a missing key as a deletion.
func fillAlike(sides []map[string]any) {
	for field, empty := range map[string]func() any{
		"patches":   func() any { return map[string]any{} },
		"resources": func() any { return []any{} },
	} {
		all := map[string]bool{}
		for _, obj := range sides {
			for key := range unstructured.NestedObject(obj, field) {
				all[key] = true
			}
		}
		if len(all) == 0 {
			continue
		}
		for _, obj := range sides {
			inner := unstructured.NestedObject(obj, field)
			for key := range all {
				unstructured.SetDefault(inner, key, empty())
			}
			obj[field] = inner
		}
	}
}

// ownedValue is the value of a patch with its stored managers. They are one unit: a manager that takes over a value changes
// it even if the value is equal.
type ownedValue struct {
	value  any
	owners []string // sorted
}

// MarshalJSON returns the value alone, as conflicts show it.
func (v ownedValue) MarshalJSON() ([]byte, error) { return jsontext.Canonical(v.value) }

// joinOwners replaces a document's patches by ownedValues.
func joinOwners(obj map[string]any) {
	owners := unstructured.NestedObject(obj, "patch_owners")
	for component, patches := range unstructured.NestedObject(obj, "patches") {
		values, ok := patches.(map[string]any)
		if !ok {
			continue
		}
		for path, value := range values {
			values[path] = ownedValue{value: value}
		}
		managers := unstructured.NestedObject(owners, component)
		for _, manager := range sorted(managers) {
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

// partOwners reverses joinOwners, and omits empty parts, as documents do.
func partOwners(obj map[string]any) {
	patches, owners := unstructured.NestedObject(obj, "patches"), map[string]any{}
	for component := range patches {
		values := map[string]any{}
		managers := map[string]any{}
		owned := unstructured.NestedObject(patches, component)
		for _, path := range sorted(owned) {
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
		unstructured.SetNestedKey(obj, "patches", component, values, len(values))
		if len(managers) > 0 {
			owners[component] = managers
		}
	}
	if len(owners) > 0 {
		obj["patch_owners"] = owners
	}
}

// keepTogether reports patches that were added later to a component which is removed with the assignment that the revision
// made. Components that layers assign stay.
func keepTogether(m *jsontext.Merge, sides []map[string]any, merged map[string]any, given map[string]bool) {
	base, ours, patches := sides[0], sides[1], unstructured.NestedObject(merged, "patches")
	entries, _ := merged["platform_components"].([]any)
	had, _ := ours["platform_components"].([]any)
	for _, component := range sorted(patches) {
		at := slices.IndexFunc(had, unstructured.HasID(component))
		if len(unstructured.NestedObject(patches, component)) == 0 || at < 0 || given[component] || slices.ContainsFunc(entries, unstructured.HasID(component)) {
			continue
		}
		m.Conflicts = append(m.Conflicts, jsontext.MergeConflict{
			Pointer: jsontext.Pointer("patches", component),
			Base:    unstructured.NestedObject(base, "patches")[component], Ours: unstructured.NestedObject(ours, "patches")[component],
		})
		if m.Prefer == jsontext.Theirs {
			delete(patches, component)
			continue
		}
		entries = append(entries, had[at])
	}
	merged["platform_components"] = entries
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
