package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fieldmanagers"
)

// ownership returns the changes of the ownership of values. When a second manager sets the same value, no poll changes, but
// a later write with another value is refused: so it is part of a plan.
func (r Result) ownership() []api.OwnershipChange {
	out := []api.OwnershipChange{}
	groups := map[string]int{}
	for _, ch := range r.Commit.Changes {
		is := r.State.docs[ch.Kind][ch.ID]
		if ch.Kind != KindCluster || is == nil || is.Deleted() {
			continue // the owners of a removed value are no extra information
		}
		before, after := namedOwners(r.base.docs[ch.Kind][ch.ID]), namedOwners(is)
		for _, at := range sortedValues(before, after) {
			if slices.Equal(before[at], after[at]) {
				continue
			}
			key := fmt.Sprintf("%q %q %q", at, before[at], after[at])
			group, known := groups[key]
			if !known {
				group = len(out)
				groups[key] = group
				out = append(out, api.OwnershipChange{
					Clusters: []string{}, ComponentID: at.component, Path: at.path,
					Before: append([]string{}, before[at]...), After: append([]string{}, after[at]...),
				})
			}
			out[group].Clusters = append(out[group].Clusters, ch.ID)
		}
	}
	return out
}

// valueOf identifies a value of a cluster.
type valueOf struct{ component, path string }

// namedOwners returns the named managers of a cluster's values, sorted. Values that only the anonymous manager owns are left
// out.
func namedOwners(d *Document) map[valueOf][]string {
	owners := map[valueOf][]string{}
	if d == nil || d.Deleted() {
		return owners
	}
	for component, managers := range d.Cluster().PatchOwners {
		for _, manager := range sortedKeys(managers) {
			for _, path := range managers[manager] {
				if manager != fieldmanagers.Anonymous {
					at := valueOf{component, path}
					owners[at] = append(owners[at], manager)
				}
			}
		}
	}
	return owners
}

// sortedValues returns the values in all maps, sorted, without duplicates.
func sortedValues(maps ...map[valueOf][]string) []valueOf {
	var all []valueOf
	for _, m := range maps {
		for at := range m {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b valueOf) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.path, b.path))
	})
	return slices.Compact(all)
}
