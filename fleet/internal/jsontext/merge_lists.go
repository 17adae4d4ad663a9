package jsontext

import (
	"slices"
)

// entries is a list of named entries.
type entries struct {
	names  []string
	byName map[string]any
}

func (e entries) get(name string) any {
	if v, ok := e.byName[name]; ok {
		return v
	}
	return absent{}
}

func (e entries) has(name string) bool {
	_, ok := e.byName[name]
	return ok
}

// entries indexes three lists by the names of their entries; not ok if an entry has no name or a name occurs twice.
func (m *Merge) entries(at string, lists ...[]any) (base, ours, theirs entries, ok bool) {
	var sides [3]entries
	for i, list := range lists {
		sides[i].byName = make(map[string]any, len(list))
		for _, v := range list {
			name, named := v.(string)
			if obj, isObject := v.(map[string]any); isObject {
				name, named = obj["id"].(string)
			} else if !slices.Contains(m.Sets, at) {
				return base, ours, theirs, false
			}
			if !named || sides[i].has(name) {
				return base, ours, theirs, false
			}
			sides[i].byName[name] = v
			sides[i].names = append(sides[i].names, name)
		}
	}
	return sides[0], sides[1], sides[2], true
}

// list merges lists entry by entry.
func (m *Merge) list(at string, base, ours, theirs entries) any {
	out := []any{}
	for _, name := range m.order(at, base, ours, theirs) {
		if v := m.value(at+Pointer(name), base.get(name), ours.get(name), theirs.get(name)); v != any(absent{}) {
			out = append(out, v)
		}
	}
	return out
}

// order returns the order of the merged list, which is the order of ours. If theirs reorders entries of the base, these entries
// take the order of theirs; if ours reorders them too, that is a conflict, unless the order is the same and Strict is not set.
// An entry that ours lacks follows its predecessor in theirs.
func (m *Merge) order(at string, base, ours, theirs entries) []string {
	common := func(e entries) []string {
		return slices.DeleteFunc(slices.Clone(e.names), func(n string) bool { return !base.has(n) || !ours.has(n) || !theirs.has(n) })
	}
	was, is, wanted := common(base), common(ours), common(theirs)
	order := slices.Clone(ours.names)
	if !slices.Equal(was, wanted) && (m.Strict || !slices.Equal(is, wanted)) {
		rearrange := slices.Equal(was, is)
		if !rearrange {
			m.Conflicts = append(m.Conflicts, MergeConflict{at, was, is, wanted})
			rearrange = m.Prefer == Theirs
		}
		for i := range order {
			if rearrange && base.has(order[i]) && theirs.has(order[i]) {
				order[i], wanted = wanted[0], wanted[1:]
			}
		}
	}
	for i, name := range theirs.names {
		if !ours.has(name) {
			order = slices.Insert(order, place(order, theirs.names, i), name)
		}
	}
	return order
}

// place returns the index in an order for the entry at i of theirs: after its predecessor, or else before its successor.
func place(order, theirs []string, i int) int {
	for j := i - 1; j >= 0; j-- {
		if at := slices.Index(order, theirs[j]); at >= 0 {
			return at + 1
		}
	}
	for _, after := range theirs[i+1:] {
		if at := slices.Index(order, after); at >= 0 {
			return at
		}
	}
	return 0 // an additional entry of ours came later
}
