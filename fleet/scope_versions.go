package fleet

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// The right to push versions permits changes of nothing but versions of components.

// permitsVersions reports whether a change affects only versions of components, directly or through a rollout, in documents of kinds
// that the right to push versions includes.
func (g grant) permitsVersions(before, after *Document) bool {
	for _, doc := range []*Document{before, after} {
		if doc == nil || doc.Kind != KindRollout {
			continue
		}
		for _, ch := range doc.rollout().Changes {
			if !g.coversVersionsOf(ch.Kind) || !differOnlyInVersions(ch.Kind, ch.Before, ch.After) {
				return false
			}
		}
	}
	if kind := existingVersion(before, after).Kind; !g.coversVersionsOf(kind) {
		return kind == KindRollout
	}
	return before != nil && after != nil && differOnlyInVersions(after.Kind, before.Body, after.Body)
}

// differOnlyInVersions reports whether two texts of a document differ only in the versions of a component, or of the existing entries of a
// cluster or a layer.
func differOnlyInVersions(kind Kind, before, after json.RawMessage) bool {
	if kind == KindComponent {
		return differOnlyIn(before, after, versionFields)
	}
	was, errWas := withoutVersions(before)
	is, errIs := withoutVersions(after)
	return errWas == nil && errIs == nil && bytes.Equal(was, is)
}

// withoutVersions returns the text of a cluster or a layer without the versions of its entries.
func withoutVersions(body json.RawMessage) ([]byte, error) {
	var fields map[string]json.RawMessage
	var list []map[string]json.RawMessage
	var overrides map[string]map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	for name, entries := range map[string]any{"platform_components": &list, "overrides": &overrides} {
		if fields[name] == nil {
			continue
		}
		if err := json.Unmarshal(fields[name], entries); err != nil {
			return nil, err
		}
		for _, entry := range slices.Concat(list, slices.Collect(maps.Values(overrides))) {
			for _, field := range versionFields {
				delete(entry, field)
			}
		}
		var err error
		if fields[name], err = json.Marshal(entries); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// existingVersion returns the version before or after a change that exists.
func existingVersion(before, after *Document) *Document {
	if after != nil {
		return after
	}
	return before
}

// differOnlyIn reports whether all fields of two objects are the same, except the given ones.
func differOnlyIn(before, after json.RawMessage, fields []string) bool {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return false
	}
	for _, obj := range []map[string]json.RawMessage{was, is} {
		for name := range obj {
			if !slices.Contains(fields, name) && !bytes.Equal(was[name], is[name]) {
				return false
			}
		}
	}
	return true
}
