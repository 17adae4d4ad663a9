package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// countReferring counts a document that is added to, or removed from, the State.
func (s *State) countReferring(d *Document, n int) {
	if d != nil && d.refers {
		s.refers += n
	}
}

// listReferring lists the definitions with references.
func (s *State) listReferring() {
	s.referring = nil
	for _, a := range s.kinds.lists {
		for _, d := range s.docs[a.kind] {
			if d.refers {
				s.referring = append(s.referring, d)
			}
		}
	}
	sortDocuments(s.referring)
}

// expanded returns a document with the values of its references.
func (ks *kindSet) expanded(d *Document, value func(ref string) (string, error)) (*Document, error) {
	obj, err := unstructured.Open(d.Body)
	if err != nil {
		return nil, d.Unreadable(err)
	}
	for _, field := range referringFields(d.Kind) {
		if text, ok := obj[field].(jsontext.Text); ok && variables.In(text) {
			result, err := expandText(json.RawMessage(text), value)
			if err != nil {
				return nil, err
			}
			obj[field] = jsontext.Text(result)
		}
	}
	rec := d.Record
	if rec.Body, err = jsontext.Canonical(obj); err != nil {
		return nil, err
	}
	out, err := ks.document(rec)
	if err != nil {
		return nil, err
	}
	out.refers = false
	if r, ok := out.value.(*resource); ok {
		r.expanded = true
	}
	return out, nil
}

// resultBudget limits the bytes of the values of references, and of the strings with them, that one change computes. A change that
// exceeds it is refused, and computes no more of them. A nil budget has no limit.
type resultBudget struct {
	limit int64
	spent atomic.Int64
	known sync.Map // facts by key
}

func newResultBudget(was *layerResolution, committed bool) *resultBudget {
	if committed {
		return &resultBudget{limit: math.MaxInt64}
	}
	return &resultBudget{limit: int64(max(maxResolvedBytes, was.resolvedBytes))}
}

func (b *resultBudget) spend(n int) { b.spent.Add(int64(n)) }

func (b *resultBudget) exceeded() bool { return b != nil && b.spent.Load() > b.limit }

// share returns the equal facts of another cluster if there are some, so that each is stored once. It spends the size of new facts.
func (b *resultBudget) share(f *facts) *facts {
	if b == nil {
		return f
	}
	if known, ok := b.known.LoadOrStore(f.key, f); ok && known.(*facts).sameAs(f) {
		return known.(*facts)
	}
	b.spend(f.bytes)
	return f
}

// addFacts adds the facts of a cluster to the layers that match it.
func (s *State) addFacts(d *Document, m *layerMatch, budget *resultBudget) {
	if m.facts = nil; s.refers == 0 && m.overlay == nil || d.Deleted() || budget.exceeded() {
		return
	}
	var refs []string
	found := d.refers
	if d.refers {
		refs = append(refs, d.references...)
	}
	for _, l := range m.layers {
		found = found || l.refers
		refs = append(refs, l.references...)
	}
	f := &facts{values: map[string]string{}, missing: map[string]string{}}
	add := func(def *Document) {
		if !def.refers {
			return
		}
		key, a := docKey{def.Kind, def.ID}, s.kinds.byKind[def.Kind]
		if a == nil {
			return
		}
		if _, own := a.enabled(d.own, def.ID); own || slices.ContainsFunc(m.layers, func(l *Document) bool { return l.layer().assigns(s.kinds, key) }) {
			f.definitions = append(f.definitions, def)
			refs = append(refs, def.references...)
		}
	}
	for _, def := range s.referring {
		if m.overlay.get(def.Kind, def.ID) == nil {
			add(def)
		}
	}
	if m.overlay != nil {
		for _, def := range m.overlay.docs {
			add(def)
		}
	}
	if !found && len(f.definitions) == 0 {
		return
	}
	sortDocuments(f.definitions)
	slices.Sort(refs)
	key := sha256.New()
	look := resolver{own: d.own.cluster, layers: m.layers, known: map[string]*resolved{}}
	for _, ref := range slices.Compact(refs) {
		r := look.resolve(ref)
		if r.reason != "" {
			f.missing[ref] = r.reason
		} else {
			f.values[ref] = r.text
			f.bytes += len(r.text)
		}
		fmt.Fprintf(key, "\x02%s\x00%d\x00%s%s", ref, len(r.text), r.text, r.reason)
	}
	for _, def := range f.definitions {
		fmt.Fprintf(key, "\x03%s/%s", def.Kind, def.ID)
	}
	f.key = string(key.Sum(nil))
	m.facts = budget.share(f)
}

// assigns reports whether a layer assigns a definition.
func (l *layer) assigns(ks *kindSet, key docKey) bool {
	l.assigned.once.Do(func() {
		l.assigned.set = map[docKey]bool{}
		for _, a := range ks.lists[:ks.compiledCount] {
			for _, id := range l.assignedIDs(a) {
				l.assigned.set[docKey{a.kind, id}] = true
			}
		}
		for typeID, entries := range l.resources {
			for _, e := range entries {
				l.assigned.set[docKey{ResourceKind(typeID), e.Value.ID}] = true
			}
		}
	})
	return l.assigned.set[key]
}

// resolver finds the values of references on one cluster.
type resolver struct {
	own    *api.Cluster // from the document alone
	layers []*Document  // by rising priority
	known  map[string]*resolved
}

// resolved is the value of a reference, or the reason for which it has none.
type resolved struct {
	text, reason string
	nested       int // variables that it is taken through
}

func (r *resolver) resolve(ref string) *resolved {
	if known := r.known[ref]; known != nil {
		return known
	}
	r.known[ref] = &resolved{reason: "it refers to itself"} // seen while its own value is computed
	out := r.compute(ref)
	switch {
	case out.reason != "":
	case out.nested > maxNested:
		out = &resolved{reason: fmt.Sprintf("it is taken through more than %d variables", maxNested)}
	case len(out.text) > maxResultBytes:
		out = &resolved{reason: fmt.Sprintf("the value has %d bytes; at most %d are possible", len(out.text), maxResultBytes)}
	}
	r.known[ref] = out
	return out
}

func (r *resolver) compute(ref string) *resolved {
	name, label := variables.Parts(ref)
	switch {
	case name != "":
		return r.variable(name)
	case label != "":
		if v, ok := r.own.Labels[label]; ok {
			return &resolved{text: v}
		}
		return &resolved{reason: fmt.Sprintf("there is no label %q", label)}
	}
	switch ref {
	case "${cluster.id}":
		return &resolved{text: r.own.ID}
	case "${cluster.name}":
		return &resolved{text: r.own.ClusterName}
	case "${cluster.dns}":
		return &resolved{text: r.own.ClusterDNS}
	case "${cluster.environment}":
		return &resolved{text: r.own.Environment}
	}
	return &resolved{reason: "it is not a reference"}
}

// variable returns the value of a variable: that of the cluster, or of the highest layer that sets it.
func (r *resolver) variable(name string) *resolved {
	raw, _ := variableOf(r.own, r.layers, name)
	text, ok := variables.Text(raw)
	if !ok {
		return &resolved{reason: fmt.Sprintf("there is no variable %q", name)}
	}
	nested := 0
	var failed *resolved
	out, err := variables.Expand(text, func(ref string) (string, error) {
		v := r.resolve(ref)
		if v.reason != "" {
			failed = &resolved{reason: fmt.Sprintf("%s: %s", ref, v.reason)}
			return "", &noValueError{ref, v.reason}
		}
		nested = max(nested, v.nested)
		return v.text, nil
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return &resolved{reason: err.Error()}
	}
	return &resolved{text: out, nested: nested + 1}
}

// variableOf returns a variable of a cluster with the document that sets it, which is nil for the cluster itself. No value: there is none.
func variableOf(own *api.Cluster, layers []*Document, name string) (value json.RawMessage, layer *Document) {
	if v, ok := own.Variables[name]; ok {
		return v, nil
	}
	for _, d := range slices.Backward(layers) {
		if v, ok := d.layer().Variables[name]; ok {
			return v, d
		}
	}
	return nil, nil
}

// withFacts returns a chain with the results of references.
func (l *layerResolution) withFacts(ks *kindSet, unresolved *layerChain, f *facts, was *layerResolution) *layerChain {
	st := *unresolved
	st.unresolved, st.facts = unresolved, f
	f.expanded = nil // another chain of this resolution may share the facts
	st.overlay = &Overlay{docs: map[docKey]*Document{}}
	if v := unresolved.overlay; v != nil {
		*st.overlay = *v
		st.overlay.docs = maps.Clone(v.docs)
	}
	for _, def := range f.definitions {
		if made := l.expandedDefinition(ks, def, f, was); made != nil {
			st.overlay.docs[docKey{def.Kind, def.ID}] = made
		}
	}
	if len(st.layers) > 0 {
		empty := ks.emptyCluster()
		st.base = &Effective{value: ks.copyValue(empty.value)}
		st.base.cluster = ks.cluster(st.base.value)
		ks.applyCluster(&st, empty, st.base)
	}
	return &st
}

// expandedDefinition returns a definition with the values of its references; nil: one has none. Clusters with equal values share it.
func (l *layerResolution) expandedDefinition(ks *kindSet, def *Document, f *facts, was *layerResolution) *Document {
	var values strings.Builder
	for _, ref := range def.references {
		v, err := f.value(ref)
		if err != nil {
			return nil
		}
		fmt.Fprintf(&values, "%d\x00%s", len(v), v)
	}
	key := expandedKey{def, values.String()}
	made := l.expanded[key]
	if made == nil {
		made = was.expanded[key]
	}
	if made == nil || made.rules != ks.byName[def.Kind] {
		var err error
		if made, err = ks.expanded(def, f.value); err != nil {
			return nil // it is refused as a document without a value
		}
		l.expandedBytes += len(made.Body)
	}
	if was.expanded[key] != made {
		l.expansions = &definitionsID{}
	}
	l.addExpanded(key, made)
	f.expanded = append(f.expanded, key)
	return made
}

func (l *layerResolution) addExpanded(key expandedKey, made *Document) {
	if l.expanded == nil {
		l.expanded = map[expandedKey]*Document{}
	}
	l.expanded[key] = made
}

// keepExpanded adds the expanded definitions of a chain that stays.
func (l *layerResolution) keepExpanded(st *layerChain) {
	if st.facts != nil {
		for _, key := range st.facts.expanded {
			l.addExpanded(key, st.overlay.get(key.from.Kind, key.from.ID))
		}
	}
}

// expansionsID identifies the definitions with the values of references; nil: there are none.
func (l *layerResolution) expansionsID() *definitionsID {
	if l == nil {
		return nil
	}
	return l.expansions
}

// countResolved computes resolvedBytes. Clusters of one chain share the results, but those with settings of their own.
func (l *layerResolution) countResolved() {
	l.resolvedBytes = 0
	seen, counted := map[*layerChain]bool{}, map[*facts]bool{}
	for _, e := range l.effective {
		if e.chain.facts == nil || e.shared && seen[e.chain] {
			continue
		}
		if l.resolvedBytes += e.resolvedBytes; seen[e.chain] {
			continue
		}
		if seen[e.chain] = true; !counted[e.chain.facts] {
			counted[e.chain.facts] = true
			l.resolvedBytes += e.chain.facts.bytes
		}
		if e.chain.base != nil {
			l.resolvedBytes += e.chain.base.resolvedBytes
		}
	}
	for _, d := range l.expanded {
		l.resolvedBytes += len(d.Body)
	}
}
