package fleet

import "iter"

// DesiredInputs are the inputs of one list of a cluster in its current desired state.
type DesiredInputs struct {
	List string // the last part of the path that clusters poll
	ETag string // of the current answer
	// Receipts of the inputs, in their order. Empty if the answer has none, or if there are no inputs.
	Receipts []Receipt
	// NoReceipts: the list's resource type declares that its template sends none.
	NoReceipts bool
	// Inputs yields the ids of the inputs, in the same order, and whether each is enabled.
	Inputs iter.Seq2[string, bool]
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
