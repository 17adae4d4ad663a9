package fleet

import (
	"maps"
	"reflect"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// identical reports whether two maps are the same one, or both are empty.
func identical[M ~map[string]V, V any](a, b M) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer())
}

// missing returns the ids in before that after lacks.
func missing(before, after []string) []string {
	kept := make(map[string]bool, len(after))
	for _, id := range after {
		kept[id] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(id string) bool { return kept[id] })
}
