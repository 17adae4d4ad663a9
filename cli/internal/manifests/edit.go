package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// Editable returns a document as YAML to edit: without the fields that the server sets, and with its kind, so that ReadFiles can
// read it, too.
func Editable(k documents.Kind, id string, body json.RawMessage) ([]byte, error) {
	kind := k.Kind
	if k.Type != "" {
		kind = documents.ResourceKind
	}
	text, err := render.Editable(body, documents.ReadOnly)
	if err != nil {
		return nil, fmt.Errorf("unexpected response of the server: %w", err)
	}
	head := fmt.Sprintf("# %s/%s. Save the file and close the editor. Deleted fields are removed. An unchanged file changes nothing.\nkind: %s\n", k.Name, id, kind)
	return append([]byte(head), text...), nil
}

// EditPatch returns the merge patch (RFC 7396) from a document's text before the edit to that after it; empty if nothing was
// edited.
func EditPatch(kinds documents.Kinds, k documents.Kind, before, after []byte) (map[string]any, error) {
	if strictyaml.Truncated(after) {
		return nil, args.Errorf("the file seems truncated: its last line has no newline")
	}
	was, err := fieldsOf(before)
	if err != nil {
		return nil, err
	}
	is, err := fieldsOf(after)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(was["id"], is["id"]) || !reflect.DeepEqual(was["kind"], is["kind"]) {
		return nil, args.Errorf("the id and the kind of a document stay; create makes another one")
	}
	var assigned []string
	if k.Refers {
		assigned = kinds.Lists()
	}
	return patchBetween(was, is, assigned), nil
}

// fieldsOf reads text with one object; numbers stay as written.
func fieldsOf(text []byte) (map[string]any, error) {
	object, err := input.Object(text, "the file")
	if err != nil {
		return nil, err
	}
	value, err := strictyaml.Decode(object)
	fields, _ := value.(map[string]any)
	return fields, err
}

// patchBetween returns the merge patch (RFC 7396) from one object to another. In the fields named by assigned, an entry keeps the
// settings that it does not mention, so removed settings become null.
func patchBetween(was, is map[string]any, assigned []string) map[string]any {
	patch := map[string]any{}
	for name := range was {
		if _, there := is[name]; !there {
			patch[name] = nil
		}
	}
	for name, value := range is {
		before, there := was[name]
		if there && reflect.DeepEqual(before, value) {
			continue
		}
		patch[name] = value
		old, both := before.(map[string]any)
		switch value := value.(type) {
		case map[string]any:
			var below []string
			if name == documents.ResourcesList && slices.Contains(assigned, name) { // a list per type
				below = render.SortedKeys(value)
			}
			if both {
				patch[name] = patchBetween(old, value, below)
			}
		case []any:
			if entries, _ := before.([]any); slices.Contains(assigned, name) {
				patch[name] = entriesBetween(entries, value)
			}
		}
	}
	return patch
}

// entriesBetween returns the list that changes entries into those of another list. Entries are matched by id.
func entriesBetween(was, is []any) []any {
	before := map[any]map[string]any{}
	for _, entry := range was {
		if fields, ok := entry.(map[string]any); ok {
			before[fmt.Sprint(fields["id"])] = fields
		}
	}
	out := slices.Clone(is)
	for i, entry := range out {
		fields, ok := entry.(map[string]any)
		if !ok || fields["id"] == nil {
			continue
		}
		whole := map[string]any{}
		for name := range before[fmt.Sprint(fields["id"])] {
			whole[name] = nil
		}
		maps.Copy(whole, fields)
		out[i] = whole
	}
	return out
}
