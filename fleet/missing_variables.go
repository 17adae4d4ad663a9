package fleet

import (
	"fmt"
	"slices"
)

// checkReferenceCounts refuses documents with too many references, before their values are computed. A stored document that exceeds the
// limit may keep its number of references.
func (tx *Tx) checkReferenceCounts(edits []edit) error {
	for _, e := range edits {
		if e.doc == nil {
			continue
		}
		n, stored := countReferences(e.doc), tx.base.docs[e.kind][e.id]
		if n > maxReferences && (stored == nil || countReferences(stored) < n) {
			problem := Problem{Kind: e.kind, ID: e.id, Detail: fmt.Sprintf("%s %q has %d references; at most %d are possible in a document", e.doc.rules.noun, e.id, n, maxReferences)}
			return &Error{Code: CodeInvalid, Detail: problem.Detail, Problems: []Problem{problem}}
		}
	}
	return nil
}

// checkMissing refuses a change after which a cluster would be served a reference without a value.
func (v *txValidation) checkMissing(tx *Tx, edits []edit) error {
	type group struct {
		problem Problem
		ids     []string
		hidden  int
	}
	groups := map[string]*group{}
	look := func(doc *Document) {
		before := map[string]bool{}
		if was := v.base.docs[KindCluster][doc.ID]; was != nil {
			for _, text := range v.base.missingOn(v.base.configured(was)) {
				before[text] = true
			}
		}
		for _, text := range v.next.missingOn(v.next.configured(doc)) {
			if before[text] {
				v.warn("stored before and still wrong: " + text)
				continue
			}
			g := groups[text]
			if g == nil {
				g = &group{problem: Problem{Detail: text}}
				groups[text] = g
			}
			if tx.hides(doc) {
				g.hidden++
			} else {
				g.ids = append(g.ids, doc.ID)
			}
		}
	}
	v.eachChanged(edits, look)
	if len(groups) == 0 {
		return nil
	}
	var problems []Problem
	for _, text := range sortedKeys(groups) {
		g := groups[text]
		slices.Sort(g.ids)
		on := plural(len(g.ids)+g.hidden, "cluster")
		if len(g.ids) > 0 {
			on += ": " + firstIDs(g.ids, 5)
		}
		if g.problem.Detail = fmt.Sprintf("%s, on %s", text, on); len(g.ids) == 0 {
			g.problem.Detail = "a reference would have no value, on " + on + " that you may not read"
		}
		problems = append(problems, g.problem)
		if len(problems) == maxProblems {
			break
		}
	}
	return &Error{Code: CodeMissingVariable, Detail: summarizeProblems(problems), Problems: problems}
}

// eachChanged calls look for each live cluster that the commit edits, or whose configuration changes through layers or definitions.
func (v *txValidation) eachChanged(edits []edit, look func(*Document)) {
	for _, e := range edits {
		if e.kind == KindCluster && e.doc != nil && !e.doc.Deleted() {
			look(v.next.docs[KindCluster][e.id])
		}
	}
	for _, one := range v.layerChanges {
		if !one.doc.Deleted() {
			look(one.doc)
		}
	}
}

// missingOn returns a text for each reference in the inputs of a cluster that has no value.
func (s *State) missingOn(e *Effective) (out []string) {
	if e.chain == nil || e.chain.facts == nil || len(e.chain.facts.missing) == 0 {
		return nil
	}
	for _, u := range e.unresolved {
		by := ""
		if u.kind == KindComponent && u.path != "values_from" {
			by = ", set by " + e.setBy(u.id, u.path)
		}
		out = append(out, fmt.Sprintf("%v (%s of the %s %q%s)", u.err, u.path, s.kinds.noun(u.kind), u.id, by))
	}
	for _, def := range e.chain.facts.definitions {
		a := s.kinds.byKind[def.Kind]
		if _, on := a.enabled(e, def.ID); !on {
			continue
		}
		for _, ref := range def.references {
			if reason := e.chain.facts.missing[ref]; reason != "" {
				out = append(out, fmt.Sprintf("%s: %s (in the %s %q)", ref, reason, a.rules.noun, def.ID))
			}
		}
	}
	return out
}

// expandedOn returns a definition with the values of references, if a cluster has it; nil: it has not.
func (s *State) expandedOn(e *Effective, def *Document) *Document {
	a := s.kinds.byKind[def.Kind]
	if a == nil || e.chain == nil {
		return nil
	}
	if _, has := a.enabled(e, def.ID); !has {
		return nil
	}
	return e.chain.overlay.get(def.Kind, def.ID)
}

// checkExpanded checks the definitions that clusters have with the values of references, each once.
func (v *txValidation) checkExpanded(edits []edit) {
	first := map[*Document]string{}
	var all []*Document
	v.eachChanged(edits, func(doc *Document) {
		e := v.next.configured(doc)
		if e.chain == nil || e.chain.facts == nil {
			return
		}
		var before *Effective
		if was := v.base.docs[KindCluster][doc.ID]; was != nil {
			before = v.base.configured(was)
		}
		for _, def := range e.chain.facts.definitions {
			made := v.next.expandedOn(e, def)
			if made == nil || first[made] != "" || before != nil && v.base.expandedOn(before, def) == made {
				continue // the cluster has no such input, or had the same one before
			}
			first[made] = doc.ID
			all = append(all, made)
		}
	})
	for i, f := range v.checkEach(len(all), func(i int) checkResult {
		now := &checker{next: v.next, base: v.base, limit: maxProblems, work: v.work, valid: &v.valid}
		all[i].rules.check(now, all[i])
		return checkResult{now, &checker{next: v.base, work: v.work}}
	}) {
		if f.now != nil {
			v.add(inCluster(inDocument(f.now, all[i]), first[all[i]]), f.was)
		}
	}
}
