package fleet

import (
	"fmt"
	"slices"
)

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

// checkExpanded checks the definitions that clusters have with the values of references, each once.
func (v *txValidation) checkExpanded(edits []edit) {
	first := map[*Document]string{}
	if v.base.layers != nil { // these were checked when they were made
		for _, made := range v.base.layers.expanded {
			first[made] = "(checked)"
		}
	}
	var all []*Document
	v.eachChanged(edits, func(doc *Document) {
		e := v.next.configured(doc)
		if e.chain == nil || e.chain.facts == nil {
			return
		}
		for _, def := range e.chain.facts.definitions {
			made := e.chain.overlay.get(def.Kind, def.ID)
			if made == nil || made.refers || first[made] != "" {
				continue
			}
			if _, on := v.next.kinds.byKind[def.Kind].enabled(e, def.ID); on {
				first[made] = doc.ID
				all = append(all, made)
			}
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
