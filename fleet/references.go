package fleet

import (
	"iter"
	"maps"
	"slices"
	"sync"
)

// A check of access limits needs the clusters that refer to a changed definition and that a selector does not match. Usually there
// are none, and the lists and labels of 10,000 clusters take longer to read than the rest of the change. So a table has a row for
// each cluster.

const (
	// maxReferenceUpdates is the number of clusters that are updated before a table is computed from the whole State again. Rows
	// of deleted clusters are kept until then.
	maxReferenceUpdates = 1000
	// maxReferenceSelectors is the number of selectors that a table caches.
	maxReferenceSelectors = 128
)

// newReferences returns the references of a State with no earlier one.
func newReferences() *references { return &references{mu: &sync.Mutex{}} }

// after returns the references of the State after some edits of another one.
func (r *references) after(next, before *State, edits []edit) *references {
	var changed []string
	for _, e := range edits {
		if e.kind == KindCluster {
			changed = append(changed, e.id)
		}
	}
	sameLayers := next.layers == before.layers || next.layers != nil && before.layers != nil && next.layers.version == before.layers.version
	if sameLayers && len(changed) == 0 {
		return r
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.table
	if from == nil {
		from, changed = r.from, slices.Concat(r.changed, changed)
	}
	if !sameLayers || from == nil || from.updates+len(changed) > maxReferenceUpdates {
		return &references{mu: r.mu}
	}
	return &references{mu: r.mu, from: from, changed: changed}
}

// referrersOutside yields each cluster that refers to one of some definitions and that the selectors of some access documents do
// not match, with the indexes of these documents, which are valid until the next cluster. It may yield clusters that refer to
// other definitions only. It ignores pins.
func (s *State) referrersOutside(limits []*access, definitions ...map[Kind]map[string]bool) iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		s.references.mu.Lock()
		defer s.references.mu.Unlock()
		t := s.references.tableOf(s)
		var wanted definitionSet
		for _, byKind := range definitions {
			for kind, ids := range byKind {
				for id := range ids {
					if n, used := t.numbers[docKey{kind, id}]; used {
						wanted.add(n)
					}
				}
			}
		}
		outside := make([][]bool, len(limits))
		for i, a := range limits {
			outside[i] = t.outside(s, a)
		}
		var of []int
		for row := range t.uses {
			if !t.uses[row].overlaps(&wanted) {
				continue
			}
			of = of[:0]
			for i := range outside {
				if outside[i][row] {
					of = append(of, i)
				}
			}
			if len(of) > 0 && !yield(t.ids[row], of) {
				return
			}
		}
	}
}

// tableOf returns the table, and computes it at the first call.
func (r *references) tableOf(s *State) *referenceTable {
	if r.table == nil {
		r.table = s.newReferenceTable(r.from, r.changed)
		r.from, r.changed = nil, nil
	}
	return r.table
}

// newReferenceTable returns the table of a State, from that of an earlier State and the clusters that have changed since; from is
// nil if there is none.
func (s *State) newReferenceTable(from *referenceTable, changed []string) *referenceTable {
	if from == nil {
		from = &referenceTable{rows: make(map[string]int, len(s.docs[KindCluster]))}
		changed = sortedKeys(s.docs[KindCluster])
	}
	t := &referenceTable{
		updates: from.updates + len(changed), rows: from.rows, ids: slices.Clip(from.ids), uses: slices.Clone(from.uses),
		numbers: maps.Clone(from.numbers), selectors: make(map[string]outsideRows, len(from.selectors)),
	}
	if len(from.ids) == 0 {
		t.updates, t.numbers = 0, map[docKey]int{}
	} else if slices.ContainsFunc(changed, func(id string) bool { _, known := from.rows[id]; return !known }) {
		t.rows = maps.Clone(from.rows)
	}
	for _, id := range changed {
		if _, known := t.rows[id]; !known {
			t.rows[id] = len(t.ids)
			t.ids, t.uses = append(t.ids, id), append(t.uses, definitionSet{})
		}
		t.uses[t.rows[id]] = t.usesOf(s, id)
	}
	for key, of := range from.selectors {
		rows := make([]bool, len(t.ids))
		copy(rows, of.rows)
		for _, id := range changed {
			rows[t.rows[id]] = s.isOutside(of.selector, id)
		}
		t.selectors[key] = outsideRows{of.selector, rows}
	}
	return t
}

// usesOf returns the definitions that a cluster refers to, those of missing resource types included.
func (t *referenceTable) usesOf(s *State, cluster string) (set definitionSet) {
	doc := s.docs[KindCluster][cluster]
	if doc == nil {
		return set
	}
	add := func(kind Kind, id string) {
		key := docKey{kind, id}
		n, known := t.numbers[key]
		if !known {
			n = len(t.numbers)
			t.numbers[key] = n
		}
		set.add(n)
	}
	e := s.configured(doc)
	for _, a := range s.kinds.lists[:s.kinds.compiledCount] {
		for id := range a.entries(e) {
			add(a.kind, id)
		}
	}
	for typeID, entries := range e.cluster.Resources {
		for i := range entries {
			add(ResourceKind(typeID), entries[i].ID)
		}
	}
	return set
}

// outside returns, for each row, whether the selector of an access document does not match the cluster.
func (t *referenceTable) outside(s *State, a *access) []bool {
	if known, present := t.selectors[a.On.Selector]; present {
		return known.rows
	}
	if len(t.selectors) >= maxReferenceSelectors {
		clear(t.selectors)
	}
	rows := make([]bool, len(t.ids))
	for row, id := range t.ids {
		rows[row] = s.isOutside(a.selector, id)
	}
	t.selectors[a.On.Selector] = outsideRows{a.selector, rows}
	return rows
}

// isOutside reports whether a cluster exists that a selector does not match.
func (s *State) isOutside(selector Selector, cluster string) bool {
	doc := s.docs[KindCluster][cluster]
	return doc != nil && !selector.Matches(doc.Cluster())
}

// add adds a definition by its number.
func (d *definitionSet) add(n int) { d[n/64%len(d)] |= 1 << (n % 64) }

// overlaps reports whether the sets may have a definition in common.
func (d *definitionSet) overlaps(other *definitionSet) bool {
	for i := range d {
		if d[i]&other[i] != 0 {
			return true
		}
	}
	return false
}
