package jsontext

import (
	"reflect"
	"slices"
)

// Side is one of the two versions that a [Merge] combines.
type Side string

// The sides: the current version, and the version merged into it.
const (
	Ours   Side = "ours"
	Theirs Side = "theirs"
)

// Merge is a three-way merge of parsed JSON: it applies the difference between base and theirs to ours, which has changed
// since base as well. Objects are merged by key, lists whose entries all have an id by that, and everything else is one
// value. A value that both sides have changed differently is a conflict.
type Merge struct {
	// Prefer decides conflicts. Empty: ours stays, and the conflict is reported.
	Prefer Side
	// Sets are pointers to lists of strings that are merged string by string.
	Sets []string
	// Strict: a value that both sides have changed to the same is a conflict too.
	Strict bool
	// Conflicts are the values that both sides have changed, including those that Prefer has decided. Entries of lists are
	// named by their ids, since their index may differ between the sides.
	Conflicts []MergeConflict
}

// MergeConflict is one value that both sides have changed. An absent value is nil, and so is null, which no document holds.
type MergeConflict struct {
	Pointer            string
	Base, Ours, Theirs any
}

// absent stands for a missing value.
type absent struct{}

// Objects merges objects. It does not change them, and the result shares parts with them.
func (m *Merge) Objects(base, ours, theirs map[string]any) map[string]any {
	return m.objects("", base, ours, theirs)
}

func (m *Merge) objects(at string, base, ours, theirs map[string]any) map[string]any {
	keys := map[string]bool{}
	for _, side := range []map[string]any{base, ours, theirs} {
		for k := range side {
			keys[k] = true
		}
	}
	get := func(obj map[string]any, key string) any {
		if v, ok := obj[key]; ok {
			return v
		}
		return absent{}
	}
	sorted := make([]string, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted) // for a deterministic order of conflicts
	out := make(map[string]any, len(keys))
	for _, k := range sorted {
		if v := m.value(at+Pointer(k), get(base, k), get(ours, k), get(theirs, k)); v != any(absent{}) {
			out[k] = v
		}
	}
	return out
}

// value merges one value; absent{} stands for a missing one.
func (m *Merge) value(at string, base, ours, theirs any) any {
	switch {
	case reflect.DeepEqual(base, theirs), !m.Strict && reflect.DeepEqual(ours, theirs):
		return ours
	case reflect.DeepEqual(base, ours):
		return theirs
	}
	if b, o, t, ok := three[map[string]any](base, ours, theirs); ok {
		return m.objects(at, b, o, t)
	}
	if b, o, t, ok := three[[]any](base, ours, theirs); ok {
		if base, ours, theirs, ok := m.entries(at, b, o, t); ok {
			return m.list(at, base, ours, theirs)
		}
	}
	return m.conflict(at, base, ours, theirs)
}

// conflict records a conflict and returns the preferred side, or ours.
func (m *Merge) conflict(at string, base, ours, theirs any) any {
	shown := func(v any) any {
		if v == any(absent{}) {
			return nil
		}
		return v
	}
	m.Conflicts = append(m.Conflicts, MergeConflict{at, shown(base), shown(ours), shown(theirs)})
	if m.Prefer == Theirs {
		return theirs
	}
	return ours
}

// three converts the three versions of a value to one type; not ok if one has another type.
func three[T any](base, ours, theirs any) (b, o, t T, ok bool) {
	b, okB := base.(T)
	o, okO := ours.(T)
	t, okT := theirs.(T)
	return b, o, t, okB && okO && okT
}
