package fleet

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// clusterOperation returns the edit that an operation applies to each cluster.
func (b *Batch) clusterOperation(op api.Operation) (clusterEdit, error) {
	verb, definition, err := b.tx.verb(op)
	if err != nil {
		return nil, err
	}
	id := ""
	if definition != nil {
		if id = definition.idFrom(&op); id == "" {
			return nil, Invalid([]Problem{{Detail: definition.idField + ": is required"}})
		}
		if verb == "assign" || verb == "set" {
			if _, err := b.tx.Get(definition.kind, id); err != nil {
				return nil, err
			}
		}
	}
	if op.Overrides.IsSpecified() && !op.Overrides.IsNull() && (definition == nil || !definition.typed) {
		return nil, Invalid([]Problem{{Detail: "overrides: is for assign_resource"}})
	}
	settings, err := settingsOf(op)
	if err != nil {
		return nil, err
	}
	switch verb {
	case "assign":
		return b.tx.assign(definition.kind, id, settings), nil
	case "unassign":
		b.tx.noteUnknown(definition.kind, id)
		return b.tx.unassign(definition.kind, id), nil
	case "set":
		return b.tx.ifAssigned(op.ComponentID, b.tx.assign(KindComponent, op.ComponentID, settings)), nil
	case "values":
		edit, err := b.tx.valuesOperation(op)
		if err != nil {
			return nil, err
		}
		return b.tx.ifAssigned(op.ComponentID, edit), nil
	case "labels":
		if op.Labels == nil {
			return nil, Invalid([]Problem{{Detail: "labels: is required"}})
		}
		return setLabels(op.Labels), nil
	case "reconcile":
		return requestReconciliation(op.RequestedAt)
	}
	return nil, Invalid([]Problem{{Detail: fmt.Sprintf("op: %q is not an operation", op.Op)}})
}

// valuesOperation returns the edit of an operation on a component's values, as the routes of /clusters/{id}/patches do it.
func (tx *Tx) valuesOperation(op api.Operation) (clusterEdit, error) {
	opt := PatchOptions{Manager: op.FieldManager, Force: op.Force, Retain: op.Retain}
	if op.Op == "relinquish_values" {
		if op.FieldManager == "" { // it would remove all values without a named manager
			return nil, Invalid([]Problem{{Detail: "field_manager: is required"}})
		}
		return tx.relinquish(op.ComponentID, opt), nil
	}
	if op.Values == nil {
		return nil, Invalid([]Problem{{Detail: "values: is required"}})
	}
	if op.Op == "apply_values" {
		return tx.applyValues(op.ComponentID, op.Values, opt), nil
	}
	return tx.patchValues(op.ComponentID, op.Values, opt), nil
}

// ifAssigned runs an edit only on clusters that have the component.
func (tx *Tx) ifAssigned(component string, edit clusterEdit) clusterEdit {
	return func(before *Document, obj map[string]any) (bool, error) {
		if !tx.hasComponent(before, component) {
			return false, errNotAssigned
		}
		return edit(before, obj)
	}
}

// verb splits the name of an operation on clusters into its verb and its kind of definition.
func (tx *Tx) verb(op api.Operation) (verb string, definition *descriptor, err error) {
	switch op.Op {
	case "set_component":
		return "set", tx.kinds.descriptor(KindComponent), nil
	case "patch_values", "apply_values", "relinquish_values":
		return "values", tx.kinds.descriptor(KindComponent), nil
	case "set_labels":
		return "labels", nil, nil
	case "reconcile":
		return "reconcile", nil, nil
	}
	verb, stem, _ := strings.Cut(op.Op, "_")
	if verb != "assign" && verb != "unassign" {
		return "", nil, nil
	}
	if stem == kindResource {
		kind, err := tx.kindOf(api.Operation{Kind: kindResource, Type: op.Type})
		return verb, tx.kinds.descriptor(kind), err
	}
	for _, a := range tx.kinds.lists {
		if !a.typed && stem == a.verbSuffix() {
			return verb, a, nil
		}
	}
	return "", nil, nil
}

// settingsOf returns the settings of an assignment as the body of a PUT: absent fields stay, null clears.
func settingsOf(op api.Operation) ([]byte, error) {
	settings := map[string]any{}
	if op.Enabled != nil {
		settings["enabled"] = *op.Enabled
	}
	for field, v := range map[string]interface {
		IsSpecified() bool
		IsNull() bool
		Get() (string, error)
	}{"oci_tag": op.OCITag, "oci_digest": op.OCIDigest, "component_path": op.ComponentPath, "component_version": op.ComponentVersion} {
		switch {
		case !v.IsSpecified():
		case v.IsNull():
			settings[field] = nil
		default:
			s, err := v.Get()
			if err != nil {
				return nil, err
			}
			settings[field] = s
		}
	}
	if op.ValuesFrom.IsSpecified() {
		settings["values_from"] = nil
		if refs, err := op.ValuesFrom.Get(); err == nil {
			settings["values_from"] = refs
		}
	}
	if op.Images.IsSpecified() {
		settings["images"] = nil
		if images, err := op.Images.Get(); err == nil {
			settings["images"] = images
		}
	}
	if op.Flux.IsSpecified() {
		settings["flux"] = nil
		if flux, err := op.Flux.Get(); err == nil {
			settings["flux"] = flux
		}
	}
	if op.Overrides.IsSpecified() && op.Type != "" { // null, which is accepted for every operation, clears those of a resource
		settings["overrides"] = nil
		if overrides, err := op.Overrides.Get(); err == nil {
			if settings["overrides"], err = ParseJSON(overrides); err != nil {
				return nil, err
			}
		}
	}
	if len(settings) == 0 {
		return nil, nil
	}
	return jsontext.Canonical(settings)
}
