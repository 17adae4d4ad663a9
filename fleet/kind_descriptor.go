package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// verbSuffix returns the second part of the names of its batch operations: "namespace" in assign_namespace.
func (a *descriptor) verbSuffix() string { return strings.TrimSuffix(a.idField, "_id") }

// pointer returns the JSON pointer to the list in a cluster's document, or to a part of it.
func (a *descriptor) pointer(parts ...any) string {
	if a.typed {
		return jsontext.Pointer("resources", a.field) + jsontext.Pointer(parts...)
	}
	return jsontext.Pointer(a.field) + jsontext.Pointer(parts...)
}

// listParent returns the object that contains the list in a cluster's object; nil if there is none, or it has a wrong type.
func (a *descriptor) listParent(obj map[string]any) map[string]any {
	if a.typed {
		obj, _ = obj["resources"].(map[string]any)
	}
	return obj
}

// entriesIn returns the list in a cluster's object.
func (a *descriptor) entriesIn(obj map[string]any) []any {
	entries, _ := a.listParent(obj)[a.field].([]any)
	return entries
}

// openEntries returns this kind's list of assignments in obj, a cluster document as openDocument returns it. It parses only the entries
// that may have the id; all others stay unparsed [jsontext.Text].
func (a *descriptor) openEntries(obj map[string]any, id string) ([]any, error) {
	if a.typed {
		if _, err := unstructured.OpenField(obj, "resources"); err != nil {
			return nil, err
		}
	}
	if holder := a.listParent(obj); holder != nil {
		if _, err := unstructured.OpenField(holder, a.field); err != nil {
			return nil, err
		}
	}
	entries := a.entriesIn(obj)
	quoted, err := jsontext.Canonical(id)
	if err != nil {
		return nil, err
	}
	for i, item := range entries {
		text, ok := item.(jsontext.Text)
		if !ok || !bytes.Contains(text, quoted) && bytes.IndexByte(text, '\\') < 0 {
			continue
		}
		entry, err := jsontext.Open(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.field, err)
		}
		entries[i] = entry
	}
	return entries, nil
}

// setEntries replaces the list in a cluster's object.
func (a *descriptor) setEntries(obj map[string]any, entries []any) {
	if a.typed && a.listParent(obj) == nil {
		obj["resources"] = map[string]any{}
	}
	a.listParent(obj)[a.field] = entries
}

// overrideBound returns an upper bound, in bytes, of the size that a cluster's settings add to its answer.
func (a *descriptor) overrideBound(d *Effective) int {
	switch {
	case a.overrides == nil:
		return 0
	case a.overrides.sizeFromType:
		return a.overrides.size(d.cluster)
	}
	return d.bound
}

// ids returns the ids of a cluster's list.
func (a *descriptor) ids(c *Effective) []string {
	ids := make([]string, 0, a.count(c))
	for id := range a.entries(c) {
		ids = append(ids, id)
	}
	return ids
}

// hasAny reports whether a cluster has one of some definitions.
func (a *descriptor) hasAny(c *Effective, ids map[string]bool) bool {
	if len(ids) == 0 {
		return false
	}
	for have := range a.entries(c) {
		if ids[have] {
			return true
		}
	}
	return false
}

// excludedIDs returns the ids that a cluster's document excludes from its layers.
func (a *descriptor) excludedIDs(own *Effective) []string {
	switch {
	case own.cluster.Excludes == nil:
		return nil
	case a.typed:
		return own.cluster.Excludes.Resources[a.field]
	case a.excluded != nil:
		return a.excluded(own)
	}
	return nil
}

// removeFromLayer removes an entry, and all settings of its definition, from a layer's object.
func (a *descriptor) removeFromLayer(obj map[string]any, id string) map[string]any {
	a.setEntries(obj, slices.DeleteFunc(slices.Clone(a.entriesIn(obj)), unstructured.HasID(id)))
	if a.kind == KindComponent {
		for _, field := range []string{"overrides", "patches"} {
			settings, _ := obj[field].(map[string]any)
			delete(settings, id)
		}
	}
	return obj
}

// layerDiffers reports whether two versions of a layer differ in anything about a definition.
func (a *descriptor) layerDiffers(was, is *Document, id string) bool {
	about := func(d *Document) (all []string) {
		obj, err := ParseObject(d.Body)
		if err != nil {
			return []string{string(d.Body)} // it is only to be shown
		}
		for _, entry := range a.entriesIn(obj) {
			if unstructured.HasID(id)(entry) {
				all = append(all, fmt.Sprint(entry))
			}
		}
		if a.kind == KindComponent {
			for _, field := range []string{"overrides", "patches"} {
				set, _ := obj[field].(map[string]any)
				all = append(all, fmt.Sprint(set[id]))
			}
		}
		return all
	}
	return !slices.Equal(about(was), about(is))
}

// overriddenOn reports whether a cluster has settings of a definition besides its assignment.
func (a *descriptor) overriddenOn(cluster *api.Cluster, id string) bool {
	return a.overrides != nil && a.overrides.overriddenOn(cluster, id)
}

// sameOverrides reports whether two clusters have equal settings of a definition besides its assignment.
func (a *descriptor) sameOverrides(x, y *Effective, id string) bool {
	return x == y || a.overrides == nil || !a.overrides.differ(x.cluster, y.cluster, id)
}
