package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/variables"
)

// placeholder replaces the references of a text, for the check of a document alone.
func placeholder(text string) string {
	if !variables.In(text) {
		return text
	}
	out, err := variables.Expand(text, func(string) (string, error) { return "x", nil })
	if err != nil {
		return text // checkReferences reports it
	}
	return out
}

// placeholderValues is placeholder for the values of a map, which is not changed.
func placeholderValues[M ~map[string]json.RawMessage](values M) M {
	out := make(M, len(values))
	for path, value := range values {
		out[path] = json.RawMessage(placeholder(string(value)))
	}
	return out
}

// variables checks the variables of a cluster or a layer.
func (c *checker) variables(vars api.Variables) {
	for _, name := range sortedKeys(vars) {
		if c.full() {
			return
		}
		at := jsontext.Pointer("variables", name)
		if !variables.IsName(name) {
			c.problem(at, "a name of a variable is a letter or _, and then up to 62 letters, digits and _")
		}
		text, ok := variables.Text(vars[name])
		switch {
		case !ok:
			c.problem(at, "must be a string, a number or a boolean")
		case len(text) > maxVariableBytes:
			c.problem(at, "has %d bytes; a variable has at most %d", len(text), maxVariableBytes)
		}
	}
}

// checkReferences checks the form and the places of references in a document: they are not possible where they would decide what is
// installed, or who may act.
func checkReferences(c *checker, d *Document) {
	if !variables.In(d.Body) {
		return
	}
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return // it cannot be read either
	}
	if n := strings.Count(string(d.Body), "${cluster.") + strings.Count(string(d.Body), "${vars."); n > maxReferences {
		c.problem("", "has %d references; at most %d are possible in a document", n, maxReferences)
	}
	for _, field := range sortedKeys(obj) {
		if field != "description" {
			c.references(jsontext.Pointer(field), obj[field], slices.Contains(referringFields(d.Kind), field) && field != "platform_components" && field != "overrides" && field != "resources")
		}
	}
}

// references checks the references in a value; allowed: it may have some.
func (c *checker) references(at string, value any, allowed bool) {
	if c.full() {
		return
	}
	switch v := value.(type) {
	case string:
		switch _, err := variables.Find(v); {
		case !variables.In(v):
		case !allowed:
			c.problem(at, "a reference is not possible here, only in values of patches, names of values_from, labels and annotations of namespaces, specs and overrides of resources, and variables; for the text itself, write $${cluster. and $${vars.")
		case err != nil:
			c.problem(at, "%v", err)
		}
	case []any:
		for i, item := range v {
			c.references(at+jsontext.Pointer(i), item, allowed)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if variables.In(key) {
				c.problem(at+jsontext.Pointer(key), "a reference is not possible in a key")
			}
			// A definition's own settings are in an entry of a list, or in overrides.
			c.references(at+jsontext.Pointer(key), v[key], allowed || key == "overrides" || key == "name" && strings.Contains(at, "/values_from/"))
		}
	}
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
		if was := v.base.docs[KindCluster][doc.ID]; was != nil && v.base.refers > 0 {
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
		g.problem.Detail = fmt.Sprintf("%s, on %s", text, on)
		problems = append(problems, g.problem)
		if len(problems) == maxProblems {
			break
		}
	}
	return &Error{Code: CodeMissingVariable, Detail: summarizeProblems(problems), Problems: problems}
}

// eachChanged calls look for each live cluster that the commit edits, or whose configuration changes through layers or definitions.
func (v *txValidation) eachChanged(edits []edit, look func(*Document)) {
	if v.next.refers == 0 {
		return
	}
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

// mayBeServed reports whether documents of a kind hold what clusters are served.
func (ks *kindSet) mayBeServed(kind Kind) bool {
	return kind == KindCluster || kind == KindLayer || ks.byKind[kind] != nil
}
