package fleet

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// ChangedInput is an input of a cluster that a revision changed.
type ChangedInput struct {
	List, ID string
	// Receipt of the input as of the revision. Zero: the revision removed the input.
	Receipt Receipt
}

// InputsChangedBy returns the inputs that a revision added, changed or removed, by the id of the cluster, sorted by list and
// id: whether it changed the cluster itself, a layer, a definition or a resource type. Clusters that it deleted are left
// out. changes are those of the revision; later holds each document that a later revision changed, up to this State, as it
// was at the revision. The error is the cause of ctx's end, or a document that cannot be read.
func (s *State) InputsChangedBy(ctx context.Context, changes []Change, later Documents) (map[string][]ChangedInput, error) {
	return s.inputsChangedBy(newWork(ctx), changes, later, func(string) bool { return false })
}

// inputsChangedBy is InputsChangedBy without the clusters for which known returns true.
func (s *State) inputsChangedBy(work work, changes []Change, later Documents, known func(id string) bool) (map[string][]ChangedInput, error) {
	at, _, err := s.withBodies(later)
	if err != nil {
		return nil, err
	}
	previous := Documents{}
	for _, ch := range changes {
		previous.Set(ch.Kind, ch.ID, ch.Before)
	}
	before, edits, err := at.withBodies(previous)
	if err != nil {
		return nil, err
	}
	r := Result{Commit: Commit{Changes: changes}, State: at, base: before, layerChanges: at.servedChanges(before, edits), work: work}
	affectedNames, err := r.affected(true)
	if err != nil {
		return nil, err
	}
	out := map[string][]ChangedInput{}
	for _, a := range affectedNames {
		runtime.Gosched() // polls go first
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		if a.after == nil || a.after.Deleted() || known(a.after.id) {
			continue
		}
		if a.before == nil || a.before.id != a.after.id { // another cluster polled by this name
			if a.before = nil; before.docs[KindCluster][a.after.id] != nil {
				a.before = before.Effective(before.docs[KindCluster][a.after.id])
			}
		}
		changed, err := r.changedInputs(a)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			out[a.after.id] = append(out[a.after.id], changed...)
		}
	}
	return out, nil
}

// WithDocuments returns the State with some documents replaced by other versions; it serves no polls.
func (s *State) WithDocuments(docs Documents) (*State, error) {
	out, _, err := s.withBodies(docs)
	return out, err
}

// withBodies is WithDocuments, with the edits that it makes.
func (s *State) withBodies(docs Documents) (*State, []edit, error) {
	c := Commit{Revision: s.head.Revision + 1, ID: s.head.ID, At: s.at}
	edits := s.editsOf(docs)
	for _, e := range edits {
		c.Changes = append(c.Changes, Change{Kind: e.kind, ID: e.id, After: docs[e.kind][e.id]})
	}
	out, err := s.Apply(c)
	return out, edits, err
}

// editsOf returns the edits that replace documents by other versions, without the new versions.
func (s *State) editsOf(docs Documents) (edits []edit) {
	for _, kind := range slices.Sorted(maps.Keys(docs)) {
		for _, id := range sortedKeys(docs[kind]) {
			if doc := s.docs[kind][id]; (!isInternal(kind) || kind == KindPin) && (doc != nil || docs[kind][id] != nil) {
				edits = append(edits, edit{kind: kind, id: id})
			}
		}
	}
	return edits
}

// changedInputs returns the inputs of one cluster that a commit changes.
func (r Result) changedInputs(a affected) ([]ChangedInput, error) {
	var out []ChangedInput
	for _, list := range r.lists() {
		look := a.changedIDs(r.State, list)
		if look != nil && len(look) == 0 && a.before == a.after {
			continue
		}
		was, err := r.base.receiptsOf(a.before, list, look)
		if err != nil {
			return nil, err
		}
		is, err := r.State.receiptsOf(a.after, list, look)
		if err != nil {
			return nil, err
		}
		for _, id := range sortedKeys(is) {
			if receipt, present := was[id]; !present || receipt != is[id] {
				out = append(out, ChangedInput{List: list.endpoint, ID: id, Receipt: is[id]})
			}
		}
		for _, id := range sortedKeys(was) {
			if _, stays := is[id]; !stays {
				out = append(out, ChangedInput{List: list.endpoint, ID: id})
			}
		}
	}
	slices.SortFunc(out, func(a, b ChangedInput) int { return strings.Compare(a.List+"\x00"+a.ID, b.List+"\x00"+b.ID) })
	return out, nil
}

// receiptsOf computes the receipts of some inputs of a list; nil means all. It bypasses the cached answers of the cluster,
// which polls of another State need. A list that could not be served has none.
func (s *State) receiptsOf(e *Effective, list *descriptor, only map[string]bool) (map[string]Receipt, error) {
	if list = s.kinds.byKind[list.kind]; e == nil || list == nil {
		return nil, nil
	}
	inputs, _, err := s.resolveInputs(e, list, only)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, receipts, err := withReceipts(inputs, s.docs[KindCluster][e.id].incarnation())
	if err != nil {
		return nil, err
	}
	out := make(map[string]Receipt, len(inputs))
	for i, in := range inputs {
		out[in.id] = receipts[i]
	}
	return out, nil
}
