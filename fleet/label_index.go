package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selected returns the live clusters that a selector matches, sorted: only those that the principal may read.
func (tx *Tx) selected(sel Selector) []string {
	var ids []string
	add := func(d *Document) {
		if d != nil && !d.Deleted() && sel.Matches(d.Cluster()) && tx.mayReadCluster(d) {
			ids = append(ids, d.ID)
		}
	}
	if candidates, ok := tx.candidates(sel); ok {
		for _, id := range candidates {
			add(tx.raw(KindCluster, id))
		}
	} else {
		tx.each(KindCluster, add)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mayReadCluster reports whether the principal may read a cluster. Selectors of operations select no others.
func (tx *Tx) mayReadCluster(d *Document) bool {
	if tx.ReadsEverything() || !tx.scope.rights.Include(RightRead) {
		return true
	}
	return slices.ContainsFunc(tx.scope.rights.grants, func(a *access) bool {
		return a.may(RightRead) && a.coversKind(KindCluster) && (a.On.Selector == "" || a.selector.Matches(d.Cluster()))
	})
}

// candidates returns the clusters with the value that a selector requires of a label, for the label with the fewest
// clusters. It returns false for a selector that requires no value.
func (tx *Tx) candidates(sel Selector) (fewest []string, ok bool) {
	requirements, _ := sel.selector.Requirements()
	for _, r := range requirements {
		if !requiresValue(r) {
			continue
		}
		var ids []string
		for value := range r.Values() {
			if r.Key() == "id" {
				ids = append(ids, value)
				continue
			}
			for id := range tx.having(r.Key())[value] {
				ids = append(ids, id)
			}
		}
		if !ok || len(ids) < len(fewest) {
			fewest, ok = ids, true
		}
	}
	return fewest, ok
}

// having returns the clusters that have a label, by its value.
func (tx *Tx) having(label string) map[string]map[string]bool {
	if tx.byLabel[label] == nil {
		index := labelIndex{label: {}}
		tx.each(KindCluster, func(d *Document) { index.update(nil, d) })
		if tx.byLabel == nil {
			tx.byLabel = labelIndex{}
		}
		tx.byLabel[label] = index[label]
	}
	return tx.byLabel[label]
}

// requiresValue reports whether a requirement matches only clusters with some value of the label.
func requiresValue(r labels.Requirement) bool {
	return slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator())
}
