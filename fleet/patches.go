package fleet

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fieldmanagers"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// PatchOptions identifies the manager that changes patches, and controls the change.
type PatchOptions struct {
	Manager string
	Force   bool // take over paths that other managers own
	Retain  bool // relinquish: keep the values
}

// patchesOn returns a component's patches on a cluster.
func patchesOn(c *api.Cluster, component string) *fieldmanagers.Patches {
	return fieldmanagers.Read(c.Patches[component], c.PatchOwners[component])
}

// writer returns the manager of the options.
func (opt PatchOptions) writer() fieldmanagers.Writer {
	return fieldmanagers.Writer{Manager: opt.Manager, Force: opt.Force}
}

// OwnedPatches returns a component's patches on a cluster with their managers.
func (d *Document) OwnedPatches(component string) api.OwnedPatches {
	o := patchesOn(d.Cluster(), component)
	return api.OwnedPatches{Values: o.Values(), Managers: o.Managers()}
}

// PatchValues sets single values of a component's patches; null removes one. CodeFieldConflict lists the paths that
// other managers own with different values.
func (tx *Tx) PatchValues(cluster, component string, body []byte, opt PatchOptions) (*Document, error) {
	return tx.editValues("patch_values", cluster, component, body, opt, tx.patchValues(component, body, opt))
}

// patchValues returns the edit of PatchValues.
func (tx *Tx) patchValues(component string, body []byte, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, body, opt, func(o *fieldmanagers.Patches, values fieldmanagers.Values) []jsontext.Problem {
		return o.Set(values, opt.writer())
	})
}

// ApplyValues replaces the values of a manager by the given ones: it gives up paths that it owned and no longer lists.
func (tx *Tx) ApplyValues(cluster, component string, body []byte, opt PatchOptions) (*Document, error) {
	return tx.editValues("apply_values", cluster, component, body, opt, tx.applyValues(component, body, opt))
}

// applyValues returns the edit of ApplyValues.
func (tx *Tx) applyValues(component string, body []byte, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, body, opt, func(o *fieldmanagers.Patches, values fieldmanagers.Values) []jsontext.Problem {
		return o.Apply(values, opt.writer())
	})
}

// Relinquish ends the ownership of all values of a manager.
func (tx *Tx) Relinquish(cluster, component string, opt PatchOptions) (*Document, error) {
	return tx.editValues("relinquish_values", cluster, component, nil, opt, tx.relinquish(component, opt))
}

// editValues runs an operation on the values of one cluster.
func (tx *Tx) editValues(op, cluster, component string, body []byte, opt PatchOptions, edit clusterEdit) (*Document, error) {
	doc, err := tx.editCluster(cluster, edit)
	if err == nil {
		did := onCluster(op, cluster, KindComponent, component, pathsOf(body))
		did.FieldManager = truncate(opt.Manager)
		tx.recordOperation(did)
	}
	return doc, err
}

// relinquish returns the edit of Relinquish.
func (tx *Tx) relinquish(component string, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, []byte(`{}`), opt, func(o *fieldmanagers.Patches, _ fieldmanagers.Values) []jsontext.Problem {
		o.Relinquish(opt.Manager, opt.Retain)
		return nil
	})
}

// fieldConflict returns the CodeFieldConflict error of conflicts, or nil.
func fieldConflict(conflicts []Problem) error {
	if len(conflicts) == 0 {
		return nil
	}
	return &Error{
		Code: CodeFieldConflict, Problems: conflicts,
		Detail: summarizeProblems(conflicts) + "; agree with that manager, or take the value over with force=true",
	}
}

// editPatches changes the patches of a component on a cluster that has it.
func (tx *Tx) editPatches(component string, body []byte, opt PatchOptions, change func(*fieldmanagers.Patches, fieldmanagers.Values) []jsontext.Problem) clusterEdit {
	values, wrong := patchRequest(body, opt)
	return func(before *Document, obj map[string]any) (bool, error) {
		if !tx.hasComponent(before, component) {
			return false, errorf(CodeNotFound, "component %q is not assigned to cluster %q", component, before.ID)
		}
		if wrong != nil {
			return false, wrong
		}
		o := patchesOn(before.Cluster(), component)
		for path, value := range values {
			if value == nil {
				_, isSet := o.Values()[path]
				tx.recordRemovedValue(component, path, isSet)
			}
		}
		if err := fieldConflict(problemsOf(change(o, values))); err != nil {
			return false, err
		}
		return true, setPatches(before, obj, component, o)
	}
}

// recordRemovedValue records that a path of a cluster or a layer is to be removed, and whether it has a value.
func (tx *Tx) recordRemovedValue(component, path string, isSet bool) {
	tx.notesMu.Lock()
	defer tx.notesMu.Unlock()
	paths := tx.removedValues[component]
	if paths == nil {
		paths = map[string]bool{}
		tx.removedValues[component] = paths
	}
	paths[path] = paths[path] || isSet
}

// noteMissingValues warns of removals that change nothing, often because of a typing error in the path.
func (tx *Tx) noteMissingValues() {
	for _, component := range sortedKeys(tx.removedValues) {
		paths := tx.removedValues[component]
		maps.DeleteFunc(paths, func(_ string, isSet bool) bool { return isSet })
		if len(paths) > 0 {
			tx.note("nothing to remove at %q: no cluster or layer of this change sets a value there for component %q", truncate(firstIDs(sortedKeys(paths), 3)), component)
		}
	}
}

// patchRequest parses the values of a request into their stored form; nil removes one.
func patchRequest(body []byte, opt PatchOptions) (map[string]json.RawMessage, error) {
	request, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(opt.Manager, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, Invalid([]Problem{{Detail: "field_manager: must not contain spaces or control characters"}})
	}
	values := make(map[string]json.RawMessage, len(request))
	for path, v := range request {
		if v == nil {
			values[path] = nil
			continue
		}
		if values[path], err = jsontext.Canonical(v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// reconcileOwners updates ownership after a cluster document was written as a whole. That is a write by the anonymous
// manager: without force it must not change or drop values that a named manager owns. Components that leave the cluster take
// their owners with them.
func reconcileOwners(before *api.Cluster, obj map[string]any, fromLayers func(obj map[string]any) map[string]bool, force bool) error {
	if before == nil || len(before.PatchOwners) == 0 {
		delete(obj, "patch_owners")
		return nil
	}
	after, err := jsontext.Canonical(obj["patches"])
	if err != nil {
		return err
	}
	var patches api.Patches
	if err := json.Unmarshal(after, &patches); err != nil {
		return nil //nolint:nilerr // of the wrong type: the decoder of the whole document reports that
	}
	on := fromLayers(obj)
	entries, _ := obj["platform_components"].([]any)
	for _, e := range entries {
		_, id, _ := unstructured.Entry(e)
		on[id] = true
	}
	var conflicts []Problem
	owners := map[string]any{}
	obj["patch_owners"] = owners
	for _, component := range sortedKeys(before.PatchOwners) {
		if !on[component] && isAssigned(before, component) { // it is removed, and its patches with it
			continue
		}
		o := patchesOn(before, component)
		for _, p := range problemsOf(o.Overwrite(patches[component], force)) {
			p.Pointer = jsontext.Pointer("patches", component) + p.Pointer
			conflicts = append(conflicts, p)
		}
		if record := o.Stored(); len(record) > 0 {
			owners[component] = record
		}
	}
	return fieldConflict(conflicts)
}
