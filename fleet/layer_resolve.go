package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// recomputeLayers computes the effective configurations after edits of another State; before is nil to compute all. It
// returns an error if they exceed the limits, unless the edits are committed already (there), and if a committed layer has
// no readable selector. changed: it must compute all, since overlays of rollouts may differ.
func (s *State) recomputeLayers(before *State, edits []edit, changed, committed bool) error {
	var was *layerResolution
	layersChanged := before == nil || changed
	var clusters []*Document
	if before != nil {
		was = before.layers
		layersChanged = layersChanged || (s.refers == 0) != (before.refers == 0) || !slices.Equal(s.referring, before.referring)
		for _, e := range edits {
			layersChanged = layersChanged || e.kind == KindLayer
			if d := s.docs[KindCluster][e.id]; e.kind == KindCluster && d != nil {
				clusters = append(clusters, d)
			}
		}
	}
	var err error
	switch {
	case len(s.docs[KindLayer]) == 0 && s.refers == 0 && (s.rollouts == nil || len(s.rollouts.delivering) == 0):
		s.layers = nil
	case layersChanged:
		s.layers, err = s.kinds.resolveAll(s, before, cmp.Or(was, &layerResolution{}), committed)
	case !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == KindCluster }):
		s.layers = was
	default:
		s.layers, err = was.resolveChanged(s, clusters, edits, committed)
	}
	return err
}

// newLayers returns layers, given by rising priority, that are not resolved for any cluster yet.
func newLayers(ascending []*Document, open *openRollouts) *layerResolution {
	l := &layerResolution{ascending: ascending, version: &layersVersion{}, chains: map[string]*layerChain{}, overlays: map[rolloutMask]*Overlay{}}
	if open != nil {
		l.delivering = open.delivering
	}
	return l
}

// resolveAll resolves the layers of all clusters.
func (ks *kindSet) resolveAll(s, before *State, was *layerResolution, committed bool) (*layerResolution, error) {
	if committed {
		if err := checkSelectors(s.docs[KindLayer]); err != nil {
			return nil, err
		}
	}
	next := newLayers(sortByPriority(s.docs[KindLayer]), s.rollouts)
	next.effective = make(map[string]*Effective, len(was.effective))
	known := map[*Document]bool{} // unchanged layers
	for _, d := range was.ascending {
		known[d] = true
	}
	clusters := slices.Collect(maps.Values(s.docs[KindCluster]))
	reached, err := next.reach(s, was, clusters)
	if err != nil {
		return nil, err
	}
	budget := newResultBudget(was, committed)
	found := make([]layerMatch, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		var prev *Document
		if before != nil {
			prev = before.docs[KindCluster][clusters[i].ID]
		}
		found[i] = next.matchAgain(ks, clusters[i], reached[i], prev, was, known)
		s.addFacts(clusters[i], &found[i], budget)
	})
	return next.resolve(ks, was, clusters, found, &costCounter{chains: map[string][]*Document{}}, budget, committed)
}

// reach returns, for each cluster, the set of delivering rollouts that reach it, and computes the overlays of these sets.
func (l *layerResolution) reach(s *State, was *layerResolution, clusters []*Document) ([]rolloutMask, error) {
	reached := make([]rolloutMask, len(clusters))
	if len(l.delivering) == 0 {
		return reached, nil
	}
	parallel.Each(len(clusters), func(i int) {
		if !clusters[i].Deleted() {
			reached[i] = l.reachedBy(clusters[i].Cluster())
		}
	})
	merged := map[rolloutMerge]*Document{}
	for _, mask := range reached {
		if err := l.addOverlay(s.kinds, s.stored, mask, was, merged); err != nil {
			return nil, err
		}
	}
	return reached, nil
}

// resolveChanged resolves the layers of the changed clusters only.
func (l *layerResolution) resolveChanged(s *State, clusters []*Document, edits []edit, committed bool) (*layerResolution, error) {
	next := &layerResolution{ascending: l.ascending, version: l.version, chains: make(map[string]*layerChain, len(l.chains)), effective: maps.Clone(l.effective), delivering: l.delivering, overlays: maps.Clone(l.overlays)}
	for _, e := range edits {
		if e.kind == KindCluster {
			delete(next.effective, e.id)
		}
	}
	all := costCounter{chains: map[string][]*Document{}}
	for _, e := range next.effective { // chains without clusters are dropped
		all.add(e.chain.layers, e.chain.key, e.mergedEntries)
		if key := e.chain.mapKey(); next.chains[key] == nil {
			next.chains[key] = e.chain
			next.keepExpanded(e.chain)
		}
		if e.chain.unresolved != nil {
			next.chains[e.chain.key] = e.chain.unresolved
		}
	}
	next.expansions = l.expansions
	reached, err := next.reach(s, l, clusters)
	if err != nil {
		return nil, err
	}
	budget := newResultBudget(l, committed)
	found := make([]layerMatch, len(clusters))
	for i, d := range clusters {
		found[i] = next.matchAgain(s.kinds, d, reached[i], nil, l, nil)
		s.addFacts(d, &found[i], budget)
	}
	return next.resolve(s.kinds, l, clusters, found, &all, budget, committed)
}

// resolve computes the effective configurations of matched clusters; all has the cost of the other clusters. Unchanged
// results are reused.
func (l *layerResolution) resolve(ks *kindSet, was *layerResolution, clusters []*Document, found []layerMatch, all *costCounter, budget *resultBudget, committed bool) (*layerResolution, error) {
	for _, m := range found {
		all.add(m.layers, m.key, m.mergedEntries)
	}
	if l.cost = all.layerCost; !committed {
		if err := all.check(was.cost, l.delivering); err != nil {
			return nil, err
		}
	}
	chains := make([]*layerChain, len(clusters))
	for i := 0; i < len(clusters) && !budget.exceeded(); i++ {
		expanded, known := l.expandedBytes, len(l.chains)
		chains[i] = l.chain(ks, found[i], was)
		if budget.spend(l.expandedBytes - expanded); len(l.chains) > known && chains[i].base != nil {
			budget.spend(chains[i].base.resolvedBytes)
		}
	}
	made := make([]*Effective, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		d, st := clusters[i], chains[i]
		if budget.exceeded() {
			return
		}
		if e := was.effective[d.ID]; e != nil && e.chain == st && e.own == d.own {
			made[i] = e
		} else if st != nil {
			if made[i] = ks.effective(d, st, e); !made[i].shared {
				budget.spend(made[i].resolvedBytes)
			}
		}
	})
	if budget.exceeded() {
		return nil, errorf(CodeLimitExceeded, "the values of references would take more than %d bytes in the settings of all clusters (before: %d); at most %d are possible: use fewer references, or shorter values", budget.spent.Load()-1, was.resolvedBytes, maxResolvedBytes)
	}
	for i, e := range made {
		if e != nil {
			l.effective[clusters[i].ID] = e
		}
	}
	if l.countResolved(); !committed && l.resolvedBytes > maxResolvedBytes && l.resolvedBytes > was.resolvedBytes {
		return nil, errorf(CodeLimitExceeded, "the values of references would take %d bytes in the settings of all clusters (before: %d); at most %d are possible: use fewer references, or shorter values", l.resolvedBytes, was.resolvedBytes, maxResolvedBytes)
	}
	return l, nil
}

// matchesAny reports whether a layer matches some cluster.
func (l *layerResolution) matchesAny(layer string) bool {
	for _, e := range l.effective {
		if slices.ContainsFunc(e.chain.layers, func(d *Document) bool { return d.ID == layer }) {
			return true
		}
	}
	return false
}

// matchAgain matches the layers with a cluster of the State. An unchanged layer is not matched again with an unchanged cluster.
func (l *layerResolution) matchAgain(ks *kindSet, d *Document, reached rolloutMask, prev *Document, was *layerResolution, known map[*Document]bool) layerMatch {
	if d.Deleted() {
		return layerMatch{}
	}
	var had []*Document
	v := l.overlays[reached]
	same := prev != nil && prev.own == d.own && (v == nil || !v.layers)
	if e := was.effective[d.ID]; same && e != nil {
		had = e.chain.layers
		same = e.chain.overlay == nil || !e.chain.overlay.layers
	}
	if !same {
		known = nil
	}
	m := l.match(d.Cluster(), v, known, had)
	m.mergedEntries = ks.mergedEntries(d.own, m.layers)
	return m
}

// match returns the layers of a cluster that has an overlay. Of the known layers, had are those that match.
func (l *layerResolution) match(c *api.Cluster, v *Overlay, known map[*Document]bool, had []*Document) layerMatch {
	m := layerMatch{overlay: v}
	for _, doc := range l.ascending {
		if known[doc] {
			if slices.Contains(had, doc) {
				m.layers = append(m.layers, doc)
			}
		} else if doc, ok := v.matchesWith(doc, c); ok {
			m.layers = append(m.layers, doc)
		}
	}
	m.key = chainKey(m.layers) + v.key()
	return m
}

// chain returns the chain of some layers; nil if there are none. A chain of unchanged layers is reused.
func (l *layerResolution) chain(ks *kindSet, m layerMatch, was *layerResolution) *layerChain {
	if len(m.layers) == 0 && m.overlay == nil && m.facts == nil {
		return nil
	}
	st := l.unresolvedChain(ks, m, was)
	if m.facts == nil {
		return st
	}
	key := m.key + m.facts.key
	resolved := l.chains[key]
	if resolved == nil {
		if resolved = was.chains[key]; resolved == nil || resolved.unresolved != st || !resolved.facts.sameAs(m.facts) {
			resolved = l.withFacts(ks, st, m.facts, was)
		} else {
			l.keepExpanded(resolved)
		}
		l.chains[key] = resolved
	}
	return resolved
}

// mapKey is the key of the chain among those of all clusters.
func (st *layerChain) mapKey() string {
	if st.facts == nil {
		return st.key
	}
	return st.key + st.facts.key
}

// unresolvedChain is chain without the results of references.
func (l *layerResolution) unresolvedChain(ks *kindSet, m layerMatch, was *layerResolution) *layerChain {
	st := l.chains[m.key]
	if st == nil {
		if st = was.chains[m.key]; st == nil || !slices.Equal(st.layers, m.layers) || st.overlay != m.overlay {
			st = l.chainWithVariants(ks, m, was)
		}
		l.chains[m.key] = st
	}
	return st
}

// chainWithVariants returns a new chain. Chains of the same layers share their lists.
func (l *layerResolution) chainWithVariants(ks *kindSet, m layerMatch, was *layerResolution) *layerChain {
	for _, from := range []*layerResolution{l, was} {
		for _, key := range []string{chainKey(m.layers), m.key} {
			if other := from.chains[key]; other != nil && slices.Equal(other.layers, m.layers) {
				st := *other
				st.key, st.overlay = m.key, m.overlay
				return &st
			}
		}
	}
	st := ks.newChain(m.layers)
	st.key, st.overlay = m.key, m.overlay
	return st
}

// layerChange is a change of a cluster's effective configuration through its layers.
type layerChange struct {
	doc     *Document
	was, is *Effective
}

// layerChanges returns the clusters that are not edited themselves, and whose effective configuration changes through their
// layers, by id.
func (s *State) layerChanges(before *State, edits []edit) []layerChange {
	if s.layers == before.layers || s.layers != nil && before.layers != nil && s.layers.version == before.layers.version {
		return nil // no layer has changed
	}
	edited := map[string]bool{}
	for _, e := range edits {
		edited[e.id] = edited[e.id] || e.kind == KindCluster
	}
	var out []layerChange
	add := func(id string) {
		d, old := s.docs[KindCluster][id], before.docs[KindCluster][id]
		if d == nil || old == nil || edited[id] {
			return
		}
		if was, is := before.configured(old), s.configured(d); was != is {
			out = append(out, layerChange{d, was, is})
		}
	}
	if s.layers != nil {
		for id := range s.layers.effective {
			add(id)
		}
	}
	if before.layers != nil {
		for id := range before.layers.effective {
			if s.layers == nil || s.layers.effective[id] == nil {
				add(id)
			}
		}
	}
	slices.SortFunc(out, func(a, b layerChange) int { return strings.Compare(a.doc.ID, b.doc.ID) })
	return out
}

// newChain merges layers, which are sorted by rising priority.
func (ks *kindSet) newChain(docs []*Document) *layerChain {
	layers := make([]*layer, len(docs))
	for i, d := range docs {
		layers[i] = d.layer()
	}
	st := &layerChain{layers: docs, key: chainKey(docs), lists: map[Kind]any{}, resources: map[string]*overlay.Merged[api.ResourceAssignment]{}, patches: api.Patches{}}
	for _, a := range ks.lists[:ks.compiledCount] {
		st.lists[a.kind] = a.mergeLayers(layers)
	}
	for _, l := range layers {
		for typeID := range l.resources {
			if st.resources[typeID] == nil {
				st.resources[typeID] = resourceMerge.merge(layers, func(l *layer) []overlay.Entry[api.ResourceAssignment] { return l.resources[typeID] })
			}
		}
		for component, values := range l.Patches {
			if st.patches[component] == nil {
				st.patches[component] = api.PatchValues{}
			}
			for path, value := range values {
				if st.patches[component][path] = value; string(value) == "null" {
					st.patches[component][path] = nil
				}
			}
		}
		for name, value := range l.Variables {
			if st.variables == nil {
				st.variables = api.Variables{}
			}
			st.variables[name] = value
		}
		if l.DeletionProtection != nil {
			st.deletionProtection = *l.DeletionProtection
		}
	}
	empty := ks.emptyCluster()
	st.base = &Effective{value: ks.copyValue(empty.value)}
	st.base.cluster = ks.cluster(st.base.value)
	ks.applyCluster(st, empty, st.base)
	return st
}

// checkSelectors refuses committed layers without a readable selector. If they matched no cluster, clusters would get valid
// answers that lack the definitions of these layers.
func checkSelectors(layers map[string]*Document) error {
	for _, id := range sortedKeys(layers) {
		l := layers[id].layer()
		switch {
		case l.All:
		case l.selectorErr != nil:
			return fmt.Errorf("layer %q cannot be read: %w", id, l.selectorErr)
		case strings.TrimSpace(l.Selector) == "":
			return fmt.Errorf("layer %q cannot be read: it has neither all nor a selector", id)
		}
	}
	return nil
}
