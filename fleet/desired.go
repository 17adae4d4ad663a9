package fleet

import (
	"iter"
	"slices"
)

// DesiredInputs are the inputs of one list of a cluster in its current desired state.
type DesiredInputs struct {
	List string // the last part of the path that clusters poll
	ETag string // of the current answer; empty: see [State.DesiredReceipts]
	// Receipts of the inputs, in their order. Empty if the answer has none, or if there are no inputs.
	Receipts []Receipt
	// NoReceipts: the list's resource type declares that its template sends none.
	NoReceipts bool
	// Inputs yields the ids of the inputs, in the same order, and whether each is enabled.
	Inputs iter.Seq2[string, bool]

	// Without an ETag:
	outdated string // the ETag of an earlier answer, which the current one certainly does not have
	encode   func() (*Answer, error)
}

// Matches reports whether the current answer is the one with this ETag and these receipts, which are empty if they are not known. It
// encodes the current answer if it must.
func (d DesiredInputs) Matches(etag string, receipts []Receipt) bool {
	switch {
	case d.ETag != "" || d.encode == nil:
		return d.ETag == etag
	case d.outdated == etag:
		return false
	case len(receipts) > 0: // an answer that is not encoded has receipts, which identify its inputs
		return slices.Equal(d.Receipts, receipts)
	}
	a, err := d.encode()
	return err == nil && a.ETag == etag
}

// DesiredInputs returns the desired inputs of a cluster, list by list. A list that cannot be served is an error, as for
// polls. Of a State with only the visible documents, lists of other resource types are included: the cluster may still run what was
// removed from them.
func (s *State) DesiredInputs(d *Document) ([]DesiredInputs, error) {
	s = s.Whole()
	e := s.Effective(d)
	out := make([]DesiredInputs, 0, len(s.kinds.lists))
	for _, list := range s.kinds.lists {
		a, err := s.Answer(d, list.kind)
		if err != nil {
			return nil, err
		}
		out = append(out, list.desiredInputs(e, a))
	}
	return out, nil
}

// DesiredReceipts is DesiredInputs for questions about many clusters, after a definition of all of them has changed: encoding
// their answers would take seconds, and their next polls do it. If an earlier answer is known, it computes only the receipts
// of the inputs that have changed since, and sets no ETag.
func (s *State) DesiredReceipts(d *Document) ([]DesiredInputs, error) {
	s = s.Whole()
	e := s.Effective(d)
	out := make([]DesiredInputs, 0, len(s.kinds.lists))
	for _, list := range s.kinds.lists {
		earlier, receipts, err := s.nextReceipts(e, d, list)
		if err != nil {
			return nil, err
		}
		if receipts != nil {
			one := list.desiredInputs(e, &Answer{receipts: receipts})
			one.outdated, one.encode = earlier.ETag, func() (*Answer, error) { return s.answer(e, d, list) }
			out = append(out, one)
			continue
		}
		a, err := s.answer(e, d, list)
		if err != nil {
			return nil, err
		}
		out = append(out, list.desiredInputs(e, a))
	}
	return out, nil
}

// nextReceipts returns the receipts of an answer that is not encoded yet, and an earlier answer with other receipts. Nil: the
// answer must be encoded.
func (s *State) nextReceipts(e *Effective, d *Document, list *descriptor) (earlier *Answer, receipts []Receipt, err error) {
	earlier = e.answers.load(list)
	if earlier == nil || len(earlier.receipts) == 0 || earlier.current.Load() == s.id || s.stillMadeOf(e, list, earlier.deps) {
		return nil, nil, nil
	}
	if known := earlier.next.Load(); known != nil && s.stillMadeOf(e, list, known.deps) {
		return earlier, known.receipts, nil
	}
	if s.bound(e, list) > MaxAnswerBytes {
		return nil, nil, nil // the answer may have no room for receipts
	}
	changed := map[string]bool{}
	for _, dep := range earlier.deps {
		if doc, _ := s.definition(e, list.kind, dep.ID); !sameDocument(doc, dep) {
			changed[dep.ID] = true
		}
	}
	look := affected{before: e, after: e, changed: map[Kind]map[string]bool{list.kind: changed}}.changedIDs(s, list)
	inputs, deps, err := s.resolveInputs(e, list, look)
	if err != nil {
		return nil, nil, err
	}
	_, anew, err := withReceipts(inputs, d.incarnation())
	if err != nil {
		return nil, nil, err
	}
	if len(deps) != len(earlier.receipts) {
		return nil, nil, nil // this cannot happen: the configuration of a cluster never changes
	}
	receipts = slices.Clone(earlier.receipts)
	for i, dep := range deps {
		if look[dep.ID] {
			receipts[i], anew = anew[0], anew[1:]
		}
	}
	if slices.Equal(receipts, earlier.receipts) {
		return nil, nil, nil // the ETag is probably the same too
	}
	earlier.next.Store(&nextReceipts{receipts, deps})
	return earlier, receipts, nil
}

// DesiredInputsIn returns the desired inputs that an answer contains.
func (s *State) DesiredInputsIn(d *Document, kind Kind, a *Answer) DesiredInputs {
	return s.kinds.byKind[kind].desiredInputs(s.Effective(d), a)
}

// desiredInputs describes one list of a cluster and its answer.
func (a *descriptor) desiredInputs(of *Effective, answer *Answer) DesiredInputs {
	return DesiredInputs{List: a.endpoint, ETag: answer.ETag, Receipts: answer.receipts, Inputs: a.entries(of), NoReceipts: a.typed && a.typeDoc.value.(*resourceType).Receipt == receiptNone}
}

// ShowsList reports whether a list of inputs is visible: its resource type is.
func (s *State) ShowsList(name string) bool { return s.kinds.byEndpoint[name] != nil }
