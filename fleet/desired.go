package fleet

import "iter"

// Asked is what a cluster is asked for in one of its lists.
type Asked struct {
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
func (s *State) Asked(d *Document) ([]Asked, error) {
	e := s.Effective(d)
	out := make([]Asked, 0, len(s.kinds.lists))
	for _, list := range s.kinds.lists {
		a, err := s.Answer(d, list.kind)
		if err != nil {
			return nil, err
		}
		out = append(out, list.asked(e, a))
	}
	return out, nil
}

// AskedIn is what an answer asks of a cluster in one list.
func (s *State) AskedIn(d *Document, kind Kind, a *Answer) Asked {
	return s.kinds.byKind[kind].asked(s.Effective(d), a)
}

func (a *assigned) asked(of *Effective, answer *Answer) Asked {
	return Asked{List: a.endpoint, ETag: answer.ETag, Receipts: answer.receipts, Inputs: a.entries(of), NoReceipts: a.typed && a.of.value.(*resourceType).Receipt == receiptNone}
}
