package fleet

import "iter"

// Asked is what a cluster is asked for in one of its lists.
type DesiredInputs struct {
	List string // as it is polled
	ETag string // of the answer that is served now
	// Receipts are those of the inputs, in their order. None when they are not served, or there are no inputs.
	Receipts []Receipt
	// NoReceipts: the list's resource type declares that its template makes none.
	NoReceipts bool
	// Inputs are the ids of the inputs, in the same order, and whether each is to be there.
	Inputs iter.Seq2[string, bool]
}

// Asked is what a cluster is asked for now, list by list. What cannot be served is an error, as it is for polls.
func (s *State) DesiredInputs(d *Document) ([]DesiredInputs, error) {
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

// AskedIn is what an answer asks of a cluster in one list.
func (s *State) DesiredInputsIn(d *Document, kind Kind, a *Answer) DesiredInputs {
	return s.kinds.byKind[kind].desiredInputs(s.Effective(d), a)
}

func (a *descriptor) desiredInputs(of *Effective, answer *Answer) DesiredInputs {
	return DesiredInputs{List: a.endpoint, ETag: answer.ETag, Receipts: answer.receipts, Inputs: a.entries(of), NoReceipts: a.typed && a.typeDoc.value.(*resourceType).Receipt == receiptNone}
}
