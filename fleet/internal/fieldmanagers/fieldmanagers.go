// Package fieldmanagers tracks which field managers own the patches of one component on one cluster, as in Kubernetes'
// server-side apply: several managers may set the same value; a manager that sets another value is refused, or takes over
// the path by force. Only this package decides which patches a write removes. It has no notion of clusters, nor of the
// documents that hold the patches.
package fieldmanagers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Anonymous is the manager of a write that names none. It conflicts with no other manager.
const Anonymous = ""

// Values are patches, by their paths.
type Values = map[string]json.RawMessage

// Patches are values with their owners, while they are edited. Every path has at least one owner: the anonymous manager owns
// every path without a named one.
type Patches struct {
	values Values
	owners map[string][]string // path -> managers, sorted
}

// Read makes Patches of stored values and managers, and copies both. Only named managers are stored with their paths, and
// the anonymous one where it owns a path together with a named one.
func Read(values Values, managers map[string][]string) *Patches {
	p := &Patches{values: Values{}, owners: map[string][]string{}}
	maps.Copy(p.values, values)
	for manager, paths := range managers {
		for _, path := range paths {
			if _, ok := p.values[path]; ok {
				p.addOwner(path, manager)
			}
		}
	}
	for path := range p.values {
		if len(p.owners[path]) == 0 {
			p.owners[path] = []string{Anonymous}
		}
	}
	return p
}

// Values returns all values, whoever owns them. The result must not be changed.
func (p *Patches) Values() Values { return p.values }

// Managers returns the paths of each manager, for the API.
func (p *Patches) Managers() map[string][]string {
	out := map[string][]string{}
	for _, path := range p.paths() {
		for _, m := range p.owners[path] {
			out[m] = append(out[m], path)
		}
	}
	return out
}

// Stored returns the paths of each manager in the form that is stored; see Read.
func (p *Patches) Stored() map[string][]string {
	out := map[string][]string{}
	for manager, paths := range p.Managers() {
		var keep []string
		for _, path := range paths {
			if manager != Anonymous || len(p.owners[path]) > 1 {
				keep = append(keep, path)
			}
		}
		if len(keep) > 0 {
			out[manager] = keep
		}
	}
	return out
}

// Writer is the manager that writes values. Force overwrites values of other managers.
type Writer struct {
	Manager string
	Force   bool
}

// Set sets values, and removes those that are nil. It returns one problem for each path that another named manager owns with
// a different value. After a conflict the Patches must not be used.
func (p *Patches) Set(values Values, by Writer) (conflicts []jsontext.Problem) {
	for _, path := range slices.Sorted(maps.Keys(values)) {
		conflicts = append(conflicts, p.set(path, values[path], by)...)
	}
	return conflicts
}

// Apply is Set with the complete set of a manager's values: the manager gives up each path that it owned and no longer
// lists.
func (p *Patches) Apply(values Values, by Writer) (conflicts []jsontext.Problem) {
	for _, path := range p.paths() {
		if _, listed := values[path]; !listed {
			p.removeOwner(path, by.Manager, false)
		}
	}
	return p.Set(values, by)
}

// Relinquish ends the ownership of a manager. Values without another owner are removed, or with retain left to the anonymous
// manager.
func (p *Patches) Relinquish(manager string, retain bool) {
	for _, path := range p.paths() {
		p.removeOwner(path, manager, retain)
	}
}

// Overwrite replaces all values, as a write by the anonymous manager. Unchanged values keep their owners.
func (p *Patches) Overwrite(values Values, force bool) (conflicts []jsontext.Problem) {
	for _, path := range p.paths() {
		if v, ok := values[path]; ok && equalValues(v, p.values[path]) {
			continue
		}
		conflicts = append(conflicts, p.set(path, values[path], Writer{Manager: Anonymous, Force: force})...)
	}
	return conflicts
}

// Remove removes a path and its owners.
func (p *Patches) Remove(path string) {
	delete(p.values, path)
	delete(p.owners, path)
}

func (p *Patches) paths() []string { return slices.Sorted(maps.Keys(p.owners)) }

func (p *Patches) addOwner(path, manager string) {
	if !slices.Contains(p.owners[path], manager) {
		p.owners[path] = append(p.owners[path], manager)
		slices.Sort(p.owners[path])
	}
}

// set sets or removes one value.
func (p *Patches) set(path string, value json.RawMessage, by Writer) []jsontext.Problem {
	current, exists := p.values[path]
	if exists && value != nil && bytes.Equal(current, value) {
		p.addOwner(path, by.Manager)
		return nil
	}
	if others := p.otherManagers(path, by.Manager); len(others) > 0 && !by.Force {
		return []jsontext.Problem{{
			Pointer: jsontext.Pointer(path), Detail: fmt.Sprintf("%q is owned by %s with the value %s", path, quoted(others), current),
		}}
	}
	if value == nil {
		p.Remove(path)
		return nil
	}
	p.values[path], p.owners[path] = value, []string{by.Manager}
	return nil
}

// otherManagers returns the named managers of a path except one.
func (p *Patches) otherManagers(path, manager string) []string {
	var out []string
	for _, m := range p.owners[path] {
		if m != manager && m != Anonymous {
			out = append(out, m)
		}
	}
	return out
}

// removeOwner ends a manager's ownership of a path. A value without an owner is removed, or with retain left to the
// anonymous manager.
func (p *Patches) removeOwner(path, manager string, retain bool) {
	if !slices.Contains(p.owners[path], manager) {
		return
	}
	left := slices.DeleteFunc(p.owners[path], func(m string) bool { return m == manager })
	switch {
	case len(left) > 0:
		p.owners[path] = left
	case retain:
		p.owners[path] = []string{Anonymous}
	default:
		p.Remove(path)
	}
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

// equalValues compares JSON values regardless of their formatting.
func equalValues(a, b json.RawMessage) bool {
	x, wrongX := jsontext.Parse(a)
	y, wrongY := jsontext.Parse(b)
	if len(wrongX)+len(wrongY) > 0 {
		return bytes.Equal(a, b)
	}
	cx, errX := jsontext.Canonical(x)
	cy, errY := jsontext.Canonical(y)
	return errX == nil && errY == nil && bytes.Equal(cx, cy)
}
