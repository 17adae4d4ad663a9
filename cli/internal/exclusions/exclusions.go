// Package exclusions reads and changes the entries of layers that a cluster excludes.
//
//	KIND/ID... ── Parse ──> Exclusions ──┐
//	cluster ───── Read ───> Exclusions ──┴── Patch ──> merge patch of the field excludes
package exclusions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// Exclusions are the ids that a cluster excludes, by list and by resource type.
type Exclusions struct {
	lists     map[string][]string
	resources map[string][]string
}

// component is the name of components, which are disabled instead.
const component = "component"

// Forms lists the forms of KIND/ID for some kinds. A component is disabled instead of excluded.
func Forms(kinds documents.Kinds) string {
	var forms []string
	for _, n := range kinds {
		if n.Name != component {
			forms = append(forms, n.Name+"/ID")
		}
	}
	return strings.Join(forms, ", ") + " or resource/TYPE/ID"
}

// Parse reads KIND/ID of these kinds, or resource/TYPE/ID.
func Parse(kinds documents.Kinds, operands []string) (Exclusions, error) {
	x := Exclusions{map[string][]string{}, map[string][]string{}}
	for _, arg := range operands {
		name, id, _ := strings.Cut(arg, "/")
		typeID, of, typed := strings.Cut(id, "/")
		at := slices.IndexFunc(kinds, func(n documents.Kind) bool { return n.Name == name })
		switch {
		case name == component:
			return x, args.Errorf("%q: a component is switched off: component set %s --cluster CLUSTER --enabled=false", arg, id)
		case name == documents.ResourceKind && typed && args.CheckID("TYPE", typeID) == nil && args.CheckID("ID", of) == nil:
			x.resources[typeID] = append(x.resources[typeID], of)
		case at >= 0 && args.CheckID("ID", id) == nil:
			list := kinds[at].List
			x.lists[list] = append(x.lists[list], id)
		default:
			return x, args.Errorf("%q is not %s", arg, Forms(kinds))
		}
	}
	return x, nil
}

// Read reads the exclusions of a cluster's document, including kinds that this program does not know.
func Read(cluster json.RawMessage) (Exclusions, error) {
	var doc struct {
		Excludes map[string]json.RawMessage `json:"excludes"`
	}
	x := Exclusions{map[string][]string{}, map[string][]string{}}
	err := json.Unmarshal(cluster, &doc)
	for list, raw := range doc.Excludes {
		var ids []string
		if list == "resources" {
			err = errors.Join(err, json.Unmarshal(raw, &x.resources))
			continue
		}
		err = errors.Join(err, json.Unmarshal(raw, &ids))
		x.lists[list] = ids
	}
	if err != nil {
		return x, fmt.Errorf("unexpected response of the server: %w", err)
	}
	return x, nil
}

// IDs returns all exclusions in the order of their lists' names.
func (x Exclusions) IDs() []string {
	var ids []string
	for _, lists := range []map[string][]string{x.lists, x.resources} {
		for _, list := range render.SortedKeys(lists) {
			ids = append(ids, lists[list]...)
		}
	}
	return ids
}

// Patch returns the merge patch of a cluster's excludes that adds these exclusions, or removes them (off).
func (x Exclusions) Patch(was Exclusions, off bool) map[string]any {
	changed := func(have, ids []string) any {
		left := slices.DeleteFunc(slices.Clone(have), func(id string) bool { return slices.Contains(ids, id) })
		if !off {
			left = slices.Clone(have)
			for _, id := range ids {
				if !slices.Contains(left, id) {
					left = append(left, id)
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		return left
	}
	patch := map[string]any{}
	for list, ids := range x.lists {
		patch[list] = changed(was.lists[list], ids)
	}
	if len(x.resources) > 0 {
		resources := map[string]any{}
		for typeID, ids := range x.resources {
			resources[typeID] = changed(was.resources[typeID], ids)
		}
		patch["resources"] = resources
	}
	return patch
}
