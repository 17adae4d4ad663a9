// Package owned is the patches of one component on one cluster with the field managers who own them, as in Kubernetes'
// server-side apply: several may want the same value, and whoever wants another one is refused, or takes the path over by
// force. What a write takes away is decided here alone, so it stands apart from how documents are read and written. It knows
// nothing of clusters.
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

// Anonymous is the manager of whoever does not name one. It conflicts with nobody, and nobody conflicts with it.
const Anonymous = ""

// Values are patches, by their paths.
type Values = map[string]json.RawMessage

// Patches are values with their owners, while they are edited. Every path has at least one owner: what no named manager owns
// is the anonymous one's.
type Patches struct {
	values Values
	owners map[string][]string // path -> managers, sorted
}

// Read takes patches as they are stored, and copies what it takes. Stored are only the named managers with their paths, and
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

// Values are what there is, whoever owns it. They must not be changed.
func (p *Patches) Values() Values { return p.values }

// Managers is who owns what, as the API shows it.
func (p *Patches) Managers() map[string][]string {
	out := map[string][]string{}
	for _, path := range p.paths() {
		for _, m := range p.owners[path] {
			out[m] = append(out[m], path)
		}
	}
	return out
}

// Stored is who owns what, as it is stored; see Read.
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

// Writer is who writes values, and whether over those of others.
type Writer struct {
	Manager string
	Force   bool
}

// Set gives paths values, of which nil removes one, and reports each path for which another named manager wants a different
// one. After a conflict the patches are good for nothing.
func (p *Patches) Set(values Values, by Writer) (conflicts []jsontext.Problem) {
	for _, path := range slices.Sorted(maps.Keys(values)) {
		conflicts = append(conflicts, p.set(path, values[path], by)...)
	}
	return conflicts
}

// Apply is Set with all that a manager wants: what it owned and no longer lists is given up.
func (p *Patches) Apply(values Values, by Writer) (conflicts []jsontext.Problem) {
	for _, path := range p.paths() {
		if _, listed := values[path]; !listed {
			p.removeOwner(path, by.Manager, false)
		}
	}
	return p.Set(values, by)
}

// Relinquish gives up all that a manager owns. What nobody else owns is removed, or retained for the anonymous manager.
func (p *Patches) Relinquish(manager string, retain bool) {
	for _, path := range p.paths() {
		p.removeOwner(path, manager, retain)
	}
}

// Overwrite makes values all there is, which is a write by the anonymous manager. What stays the same keeps its owners.
func (p *Patches) Overwrite(values Values, force bool) (conflicts []jsontext.Problem) {
	for _, path := range p.paths() {
		if v, ok := values[path]; ok && equalValues(v, p.values[path]) {
			continue
		}
		conflicts = append(conflicts, p.set(path, values[path], Writer{Manager: Anonymous, Force: force})...)
	}
	return conflicts
}

// Remove takes a path away, whoever owns it.
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

// others are the named managers of a path but one.
func (p *Patches) otherManagers(path, manager string) []string {
	var out []string
	for _, m := range p.owners[path] {
		if m != manager && m != Anonymous {
			out = append(out, m)
		}
	}
	return out
}

// giveUp ends a manager's ownership of a path, if it has that. A value that nobody owns any more is removed, or left to the
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

// same compares values that may be written differently.
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
