package fleet

import "bytes"

// adviseAnswerBytes is the size of an answer above which there is a warning.
const adviseAnswerBytes = MaxAnswerBytes * 7 / 10

// Validation must know the size of 10,000 clusters' answers after a change of a catalog entry, without encoding them. So
// every document caches an upper bound of the size that it adds, and an answer is encoded only if its bounds add up to
// nearly the limit. A cluster's bound covers its overrides, patches, and the cluster block, which every input repeats; a
// definition's bound covers an input without cluster settings. Merged patches are never larger than both sets together,
// since merging only shares or replaces values.

// bound returns an upper bound of the size of a cluster's answer, in bytes.
func (s *State) bound(d *Effective, a *descriptor) int {
	n := envelopeBytes + a.overrideBound(d)
	for id := range a.entries(d) {
		if def, ok := s.definition(d, a.kind, id); ok {
			n += def.bound + d.block + receiptBytes
		}
	}
	return n
}

// checkSizes checks the answers of a cluster against Flux's limit.
func checkSizes(c *checker, d *Effective, lists ...*descriptor) {
	if c.alreadyValid {
		return
	}
	for _, a := range lists {
		if c.next.bound(d, a) < adviseAnswerBytes {
			continue
		}
		inputs, _, err := c.next.resolveInputs(d, a, nil)
		if err != nil {
			continue // reported as the invalid reference or patch
		}
		var body bytes.Buffer
		if err := encodeInputs(&body, values(inputs)); err != nil {
			c.problem("", "the %s of cluster %q cannot be encoded: %v", a.endpoint, d.id, err)
			continue
		}
		switch n := body.Len() + len(inputs)*receiptBytes; {
		case n > MaxAnswerBytes:
			c.limitOf(n, a.pointer(), "the %s of cluster %q would be %d bytes; Flux Operator accepts %d", a.endpoint, d.id, n, MaxAnswerBytes)
		case n > adviseAnswerBytes:
			c.warn("the %s of cluster %q are %d bytes, above 70 %% of the %d that Flux Operator accepts", a.endpoint, d.id, n, MaxAnswerBytes)
		}
	}
}
