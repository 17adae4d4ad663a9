package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// anonymous is the manager of whoever does not name one. It conflicts with nobody, and nobody conflicts with it.
const anonymous = ""

// PatchOptions says who changes patches and how.
type PatchOptions struct {
	Manager string
	Force   bool // take over paths that other managers own
	Retain  bool // relinquish: leave the values in place
}

// managedPatches is one component's patches on one cluster with who owns them, while they are edited. Every path has at least
// one owner: what no named manager owns is the anonymous one's.
type managedPatches struct {
	values api.PatchValues
	owners map[string][]string // path -> managers, sorted
}

// patchesOn reads them from a cluster. Stored are only the named owners, and the anonymous one where it owns a path
// together with a named one.
func patchesOn(c *api.Cluster, component string) *managedPatches {
	o := &managedPatches{values: api.PatchValues{}, owners: map[string][]string{}}
	maps.Copy(o.values, c.Patches[component])
	for manager, paths := range c.PatchOwners[component] {
		for _, path := range paths {
			if _, ok := o.values[path]; ok {
				o.own(path, manager)
			}
		}
	}
	for path := range o.values {
		if len(o.owners[path]) == 0 {
			o.owners[path] = []string{anonymous}
		}
	}
	return o
}

func (o *managedPatches) own(path, manager string) {
	if !slices.Contains(o.owners[path], manager) {
		o.owners[path] = append(o.owners[path], manager)
		slices.Sort(o.owners[path])
	}
}

// others are the named managers of a path but one.
func (o *managedPatches) others(path, manager string) []string {
	var out []string
	for _, m := range o.owners[path] {
		if m != manager && m != anonymous {
			out = append(out, m)
		}
	}
	return out
}

// set gives a path a value (nil removes it) and returns the conflict when another named manager wants a different one.
func (o *managedPatches) set(path string, value json.RawMessage, opt PatchOptions) *Problem {
	current, exists := o.values[path]
	if exists && value != nil && bytes.Equal(current, value) {
		o.own(path, opt.Manager)
		return nil
	}
	if others := o.others(path, opt.Manager); len(others) > 0 && !opt.Force {
		return o.conflict(path, others)
	}
	if value == nil {
		o.remove(path)
		return nil
	}
	o.values[path], o.owners[path] = value, []string{opt.Manager}
	return nil
}

func (o *managedPatches) conflict(path string, managers []string) *Problem {
	return &Problem{Pointer: jsontext.Pointer(path), Detail: fmt.Sprintf("%q is owned by %s with the value %s", path, quoted(managers), o.values[path])}
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

func (o *managedPatches) remove(path string) {
	delete(o.values, path)
	delete(o.owners, path)
}

// giveUp ends a manager's ownership of a path. A value that nobody owns any more is removed, or left to the anonymous
// manager.
func (o *managedPatches) giveUp(path, manager string, retain bool) {
	left := slices.DeleteFunc(o.owners[path], func(m string) bool { return m == manager })
	switch {
	case len(left) > 0:
		o.owners[path] = left
	case retain:
		o.owners[path] = []string{anonymous}
	default:
		o.remove(path)
	}
}

// managers is who owns what, as the API shows it.
func (o *managedPatches) managers() map[string][]string {
	out := map[string][]string{}
	for _, path := range sortedKeys(o.owners) {
		for _, m := range o.owners[path] {
			out[m] = append(out[m], path)
		}
	}
	return out
}

// record is who owns what, as it is stored.
func (o *managedPatches) record() map[string][]string {
	out := map[string][]string{}
	for manager, paths := range o.managers() {
		var keep []string
		for _, path := range paths {
			if manager != anonymous || len(o.owners[path]) > 1 {
				keep = append(keep, path)
			}
		}
		if len(keep) > 0 {
			out[manager] = keep
		}
	}
	return out
}

// OwnedPatches is a component's patches on a cluster with their managers.
func (d *Document) OwnedPatches(component string) api.OwnedPatches {
	o := patchesOn(d.Cluster(), component)
	return api.OwnedPatches{Values: o.values, Managers: o.managers()}
}

// PatchValues sets single values of a component's patches; null removes one. CodeFieldConflict lists the paths that
// other managers own with different values.
func (tx *Tx) PatchValues(cluster, component string, body []byte, opt PatchOptions) (*Document, error) {
	return tx.editValues("patch_values", cluster, component, body, opt, tx.patchValues(component, body, opt))
}

func (tx *Tx) patchValues(component string, body []byte, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, body, opt, func(o *managedPatches, values map[string]json.RawMessage) []Problem {
		return o.setAll(values, opt)
	})
}

// ApplyValues makes the given values a manager's full set: what it owned and no longer lists is given up.
func (tx *Tx) ApplyValues(cluster, component string, body []byte, opt PatchOptions) (*Document, error) {
	return tx.editValues("apply_values", cluster, component, body, opt, tx.applyValues(component, body, opt))
}

func (tx *Tx) applyValues(component string, body []byte, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, body, opt, func(o *managedPatches, values map[string]json.RawMessage) []Problem {
		for _, path := range sortedKeys(o.owners) {
			if _, listed := values[path]; !listed && slices.Contains(o.owners[path], opt.Manager) {
				o.giveUp(path, opt.Manager, false)
			}
		}
		return o.setAll(values, opt)
	})
}

// Relinquish gives up everything a manager owns.
func (tx *Tx) Relinquish(cluster, component string, opt PatchOptions) (*Document, error) {
	return tx.editValues("relinquish_values", cluster, component, nil, opt, tx.relinquish(component, opt))
}

// editValues is an operation on the values of one cluster.
func (tx *Tx) editValues(op, cluster, component string, body []byte, opt PatchOptions, edit clusterEdit) (*Document, error) {
	doc, err := tx.editCluster(cluster, edit)
	if err == nil {
		did := onCluster(op, cluster, KindComponent, component, pathsOf(body))
		did.FieldManager = cut(opt.Manager)
		tx.did(did)
	}
	return doc, err
}

func (tx *Tx) relinquish(component string, opt PatchOptions) clusterEdit {
	return tx.editPatches(component, []byte(`{}`), opt, func(o *managedPatches, _ map[string]json.RawMessage) []Problem {
		for _, path := range sortedKeys(o.owners) {
			if slices.Contains(o.owners[path], opt.Manager) {
				o.giveUp(path, opt.Manager, opt.Retain)
			}
		}
		return nil
	})
}

func (o *managedPatches) setAll(values map[string]json.RawMessage, opt PatchOptions) (conflicts []Problem) {
	for _, path := range sortedKeys(values) {
		if p := o.set(path, values[path], opt); p != nil {
			conflicts = append(conflicts, *p)
		}
	}
	return conflicts
}

func fieldConflict(conflicts []Problem) error {
	if len(conflicts) == 0 {
		return nil
	}
	return &Error{
		Code: CodeFieldConflict, Problems: conflicts,
		Detail: summary(conflicts) + "; agree with that manager, or take the value over with force=true",
	}
}

// editPatches changes the patches of a component on a cluster that has it.
func (tx *Tx) editPatches(component string, body []byte, opt PatchOptions, change func(*managedPatches, map[string]json.RawMessage) []Problem) clusterEdit {
	values, wrong := patchRequest(body, opt)
	return func(before *Document, obj map[string]any) (bool, error) {
		if !tx.hasComponent(before, component) {
			return false, errorf(CodeNotFound, "component %q is not assigned to cluster %q", component, before.ID)
		}
		if wrong != nil {
			return false, wrong
		}
		o := patchesOn(before.Cluster(), component)
		if err := fieldConflict(change(o, values)); err != nil {
			return false, err
		}
		return true, setPatches(before, obj, component, o)
	}
}

// patchRequest reads the values of a request, in the form in which they are stored; nil removes one.
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

// reconcileOwners brings ownership in step with a cluster document that was written as a whole, which is a write by
// the anonymous manager: it must not change or drop what a named manager owns unless it is forced to. Components that
// left the cluster take their owners with them.
func reconcileOwners(before *api.Cluster, obj map[string]any, gives func(obj map[string]any) map[string]bool, force bool) error {
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
		return nil //nolint:nilerr // of the wrong type: the decoder of the whole document says so
	}
	on := gives(obj)
	entries, _ := obj["platform_components"].([]any)
	for _, e := range entries {
		_, id, _ := entryID(e)
		on[id] = true
	}
	var conflicts []Problem
	owners := map[string]any{}
	obj["patch_owners"] = owners
	for _, component := range sortedKeys(before.PatchOwners) {
		if !on[component] && isAssigned(before, component) { // it is taken off, and its patches with it
			continue
		}
		o := patchesOn(before, component)
		for _, p := range o.overwrite(patches[component], force) {
			p.Pointer = jsontext.Pointer("patches", component) + p.Pointer
			conflicts = append(conflicts, p)
		}
		if record := o.record(); len(record) > 0 {
			owners[component] = record
		}
	}
	return fieldConflict(conflicts)
}

// overwrite makes values all there is.
func (o *managedPatches) overwrite(values api.PatchValues, force bool) (conflicts []Problem) {
	opt := PatchOptions{Manager: anonymous, Force: force}
	for _, path := range sortedKeys(o.values) {
		if v, ok := values[path]; ok && sameJSON(v, o.values[path]) {
			continue // not touched: its owners stay who they are
		}
		if p := o.set(path, values[path], opt); p != nil {
			conflicts = append(conflicts, *p)
		}
	}
	return conflicts
}

// sameJSON compares values that may be written differently.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := ParseJSON(a)
	y, errY := ParseJSON(b)
	if errX != nil || errY != nil {
		return bytes.Equal(a, b)
	}
	cx, errX := jsontext.Canonical(x)
	cy, errY := jsontext.Canonical(y)
	return errX == nil && errY == nil && bytes.Equal(cx, cy)
}
