package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// layerEdit changes a layer's object.
type layerEdit func(obj map[string]any) error

// editLayer runs an edit on one layer.
func (tx *Tx) editLayer(id string, edit layerEdit) (*Document, error) {
	before, err := tx.Get(KindLayer, id)
	if err != nil {
		return nil, err
	}
	obj, err := unstructured.Decode(before.Body)
	if err != nil {
		return nil, before.Unreadable(err)
	}
	if err := edit(obj); err != nil {
		return nil, err
	}
	return tx.put(KindLayer, id, before, obj)
}

// AssignToLayer adds a definition to a layer's list, or updates its entry: settings as for Assign.
func (tx *Tx) AssignToLayer(layer string, kind Kind, id string, settings []byte) (*Document, error) {
	if _, err := tx.Get(kind, id); err != nil {
		return nil, err
	}
	return tx.editLayer(layer, tx.layerEntry(kind, id, settings))
}

// layerEntry returns the edit that adds or updates an entry of a layer.
func (tx *Tx) layerEntry(kind Kind, id string, settings []byte) layerEdit {
	a := tx.descriptor(kind)
	return func(obj map[string]any) error {
		request, err := settingsObject(settings)
		if err != nil {
			return err
		}
		entries := a.entriesIn(obj)
		at := slices.IndexFunc(entries, unstructured.HasID(id))
		if at < 0 {
			at = len(entries)
			entries = append(entries, map[string]any{"id": id})
		}
		entry, _, _ := unstructured.Entry(entries[at])
		if err := copySettings(entry, request); err != nil {
			return err
		}
		a.setEntries(obj, entries)
		return nil
	}
}

// settingsObject parses settings; nil settings are an empty object.
func settingsObject(settings []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		return map[string]any{}, nil
	}
	return ParseObject(settings)
}

// UnassignFromLayer removes a definition from a layer's list. The layer's overrides and patches of it stay: they apply to
// clusters that have it from elsewhere.
func (tx *Tx) UnassignFromLayer(layer string, kind Kind, id string) (*Document, error) {
	a := tx.descriptor(kind)
	if a == nil {
		return nil, tx.notFound(KindResourceType, kind.Endpoint())
	}
	return tx.editLayer(layer, func(obj map[string]any) error {
		if entries := a.entriesIn(obj); slices.ContainsFunc(entries, unstructured.HasID(id)) {
			a.setEntries(obj, slices.DeleteFunc(slices.Clone(entries), unstructured.HasID(id)))
		}
		return nil
	})
}

// setOnLayer sets fields of a component on a layer: in its entry if the layer assigns it, else in overrides.
func (tx *Tx) setOnLayer(component string, settings []byte) layerEdit {
	entry := tx.layerEntry(KindComponent, component, settings)
	a := tx.descriptor(KindComponent)
	return func(obj map[string]any) error {
		if slices.ContainsFunc(a.entriesIn(obj), unstructured.HasID(component)) {
			return entry(obj)
		}
		request, err := settingsObject(settings)
		if err != nil {
			return err
		}
		if request["enabled"] != nil {
			return Invalid([]Problem{{Detail: fmt.Sprintf("enabled: the layer does not assign the component %q, so it cannot enable or disable it; assign it to the layer, or set enabled on the clusters", component)}})
		}
		overrides, _ := obj["overrides"].(map[string]any)
		override := unstructured.NestedObject(overrides, component)
		if err := copySettings(override, request); err != nil {
			return err
		}
		overrides[component] = override
		return nil
	}
}

// onLayers runs an operation of a batch on layers.
func (b *Batch) onLayers(op api.Operation) ([]*Document, error) {
	if len(op.ClusterIds) > 0 || op.Selector != "" || op.All {
		return nil, Invalid([]Problem{{Detail: "exactly one of cluster_ids, selector (not empty), all and layers is required"}})
	}
	if _, err := b.clusterOperation(op); err != nil { // operations that are invalid for clusters are invalid for layers too
		return nil, err
	}
	verb, definition, err := b.tx.verb(op)
	if err != nil {
		return nil, err
	}
	settings, err := settingsOf(op)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(op.Layers)
	slices.Sort(ids)
	var docs []*Document
	var failed failures
	for _, layer := range slices.Compact(ids) {
		var doc *Document
		switch {
		case verb == "assign":
			doc, err = b.tx.AssignToLayer(layer, definition.kind, definition.idFrom(&op), settings)
		case verb == "unassign":
			doc, err = b.tx.UnassignFromLayer(layer, definition.kind, definition.idFrom(&op))
		case verb == "set":
			doc, err = b.tx.editLayer(layer, b.tx.setOnLayer(op.ComponentID, settings))
		case op.Op == "patch_values" && op.FieldManager == "":
			doc, err = b.tx.editLayer(layer, b.tx.patchLayerValues(op.ComponentID, op.Values))
		default:
			return nil, Invalid([]Problem{{Detail: op.Op + " is for clusters: layers have neither labels nor field managers"}})
		}
		if err != nil {
			if err := failed.take(layer, err); err != nil {
				return nil, err
			}
			continue
		}
		docs = append(docs, doc)
	}
	return docs, failed.err()
}

// take collects the problem of an edit of a layer.
func (f *failures) take(layer string, err error) error {
	e, ok := err.(*Error) //nolint:errorlint // edits return it unwrapped
	if !ok {
		return err
	}
	f.add(e.Code, Problem{Detail: fmt.Sprintf("layer %q: %s", layer, e.Detail)})
	return nil
}

// patchLayerValues sets values of a component on a layer, each as a whole, as on a cluster; null removes one.
func (tx *Tx) patchLayerValues(component string, values []byte) layerEdit {
	return func(obj map[string]any) error {
		request, err := ParseObject(values)
		if err != nil {
			return err
		}
		patches, _ := obj["patches"].(map[string]any)
		before, _ := patches[component].(map[string]any)
		values := maps.Clone(before)
		if values == nil {
			values = map[string]any{}
		}
		for path, v := range request {
			if v == nil {
				_, isSet := before[path]
				tx.recordRemovedValue(component, path, isSet)
				delete(values, path)
			} else {
				values[path] = v
			}
		}
		patches[component] = values
		return nil
	}
}
