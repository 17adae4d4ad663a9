package fleet

import (
	"fmt"
	"maps"
	"slices"
)

// checkVariants checks the fleet with all open rollouts completed, so that a change cannot make a variant invalid. It checks the
// variants and the changed documents. It checks changed clusters, and clusters with changed layers, with the variants of definitions
// and with their current layers.
func (v *txValidation) checkVariants(edits []edit) error {
	if v.next.rollouts == nil {
		return nil
	}
	var docs []*Document
	relevant := false
	is := v.next.withVariants()
	for _, e := range edits {
		relevant = relevant || e.kind != KindCluster && !isInternal(e.kind)
		if doc := is.docs[e.kind][e.id]; doc != nil && !neverServed(e.kind) && v.next.rollouts.all.get(e.kind, e.id) == nil {
			docs = append(docs, doc)
		}
	}
	if relevant {
		docs = slices.AppendSeq(docs, maps.Values(v.next.rollouts.all.docs))
	}
	sortDocuments(docs)
	was := v.base.withVariants()
	var problems []Problem
	for _, doc := range docs {
		if v.work.stopped() != nil || len(problems) >= maxProblems {
			break
		}
		now, before := check(is, doc, maxProblems, v.work), &checker{}
		if len(now.problems) == 0 {
			continue
		}
		for _, s := range []*State{was, v.next} { // a problem of the stored document is reported there
			if old := s.docs[doc.Kind][doc.ID]; old != nil {
				before.problems = append(before.problems, check(s, old, 0, v.work).problems...)
			}
		}
		problems = appendVariantProblems(problems, doc, now, before)
	}
	if slices.ContainsFunc(edits, func(e edit) bool { return e.kind == KindLayer }) {
		problems = v.checkLayersWithVariants(problems, was, is)
	}
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}

// appendVariantProblems appends the problems of a document that it did not have before.
func appendVariantProblems(problems []Problem, doc *Document, now, before *checker) []Problem {
	for _, p := range now.problems {
		if !slices.ContainsFunc(before.problems, p.noWorseThan) {
			p.Detail = fmt.Sprintf("%s %q, with the changes of the rollouts that are not completed or aborted: %s", doc.rules.noun, doc.ID, p.at(p.Pointer))
			p.Pointer, p.Kind, p.ID = "", doc.Kind, doc.ID
			problems = append(problems, p)
		}
	}
	return problems
}

// checkLayersWithVariants checks the clusters whose layers changed. If the assignments of a layer do not fit the variants, no stage
// could start. was and is have the variants.
func (v *txValidation) checkLayersWithVariants(problems []Problem, was, is *State) []Problem {
	for _, group := range v.layerGroups() {
		if v.work.stopped() != nil || len(problems) >= maxProblems {
			break
		}
		one := group[0]
		now, before := &checker{next: is, limit: maxProblems, work: v.work}, &checker{next: was, work: v.work}
		if checkEffective(now, one.is); len(now.problems) == 0 {
			continue
		}
		checkEffective(before, one.was)
		stored := &checker{next: v.next, work: v.work}
		checkEffective(stored, one.is) // a problem without variants is reported there
		before.problems = append(before.problems, stored.problems...)
		problems = appendVariantProblems(problems, one.doc, now, before)
	}
	return problems
}

// withVariants returns the State with the variants of all open rollouts in place of the stored documents, to check documents
// only: the layers of clusters are those of this State.
func (s *State) withVariants() *State {
	if s.rollouts == nil {
		return s
	}
	out := &State{kinds: s.kinds, rules: s.rules, docs: map[Kind]map[string]*Document{}, byDNS: s.byDNS, layers: s.layers, shared: s.shared, definitions: s.definitions}
	maps.Copy(out.docs, s.docs)
	copied := map[Kind]bool{}
	for key, doc := range s.rollouts.all.docs {
		if !copied[key.kind] {
			copied[key.kind] = true
			out.docs[key.kind] = maps.Clone(s.docs[key.kind])
		}
		out.docs[key.kind][key.id] = doc
	}
	return out
}
