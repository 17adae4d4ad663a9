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
// no readable selector. changed: it must compute all, since variants of rollouts may differ.
func (s *State) recomputeLayers(before *State, edits []edit, changed, committed bool) error {
	var was *layerResolution
	layersChanged := before == nil || changed
	var clusters []*Document
	if before != nil {
		was = before.layers
		for _, e := range edits {
			layersChanged = layersChanged || e.kind == KindLayer
			if d := s.docs[KindCluster][e.id]; e.kind == KindCluster && d != nil {
				clusters = append(clusters, d)
			}
		}
	}
	var err error
	switch {
	case len(s.docs[KindLayer]) == 0 && (s.rollouts == nil || len(s.rollouts.delivering) == 0):
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

// resolveAll resolves the layers of all clusters.
func (ks *kindSet) resolveAll(s, before *State, was *layerResolution, committed bool) (*layerResolution, error) {
	if committed {
		if err := checkSelectors(s.docs[KindLayer]); err != nil {
			return nil, err
		}
	}
	next := &layerResolution{ascending: sortByPriority(s.docs[KindLayer]), chains: map[string]*layerChain{}, effective: make(map[string]*Effective, len(was.effective))}
	next.version = &layersVersion{}
	if s.rollouts != nil {
		next.delivering, next.variants = s.rollouts.delivering, map[rolloutMask]*variants{}
	}
	known := map[*Document]bool{} // unchanged layers
	for _, d := range was.ascending {
		known[d] = true
	}
	clusters := slices.Collect(maps.Values(s.docs[KindCluster]))
	reached, err := next.reach(s, was, clusters)
	if err != nil {
		return nil, err
	}
	found := make([]layerMatch, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		var prev *Document
		if before != nil {
			prev = before.docs[KindCluster][clusters[i].ID]
		}
		found[i] = next.match(ks, clusters[i], reached[i], prev, was, known)
	})
	return next.resolve(ks, was, clusters, found, &costCounter{chains: map[string][]*Document{}}, committed)
}

// reach returns, for each cluster, the set of delivering rollouts that reach it, and computes the variants of these sets.
func (l *layerResolution) reach(s *State, was *layerResolution, clusters []*Document) ([]rolloutMask, error) {
	reached := make([]rolloutMask, len(clusters))
	if len(l.delivering) == 0 {
		return reached, nil
	}
	parallel.Each(len(clusters), func(i int) { reached[i] = l.reachedBy(clusters[i]) })
	merged := map[rolloutMerge]*Document{}
	for _, mask := range reached {
		if err := l.addVariants(s, mask, was, merged); err != nil {
			return nil, err
		}
	}
	return reached, nil
}

// resolveChanged resolves the layers of the changed clusters only.
func (l *layerResolution) resolveChanged(s *State, clusters []*Document, edits []edit, committed bool) (*layerResolution, error) {
	next := &layerResolution{ascending: l.ascending, version: l.version, chains: make(map[string]*layerChain, len(l.chains)), effective: maps.Clone(l.effective), delivering: l.delivering, variants: maps.Clone(l.variants)}
	for _, e := range edits {
		if e.kind == KindCluster {
			delete(next.effective, e.id)
		}
	}
	all := costCounter{chains: map[string][]*Document{}}
	for _, e := range next.effective { // chains without clusters are dropped
		all.add(e.chain.layers, e.chain.key, e.mergedEntries)
		next.chains[e.chain.key] = e.chain
	}
	reached, err := next.reach(s, l, clusters)
	if err != nil {
		return nil, err
	}
	found := make([]layerMatch, len(clusters))
	for i, d := range clusters {
		found[i] = next.match(s.kinds, d, reached[i], nil, l, nil)
	}
	return next.resolve(s.kinds, l, clusters, found, &all, committed)
}

// resolve computes the effective configurations of matched clusters; all has the cost of the other clusters. Unchanged
// results are reused.
func (l *layerResolution) resolve(ks *kindSet, was *layerResolution, clusters []*Document, found []layerMatch, all *costCounter, committed bool) (*layerResolution, error) {
	for _, m := range found {
		all.add(m.layers, m.key, m.mergedEntries)
	}
	if l.cost = all.layerCost; !committed {
		if err := all.check(was.cost, l.delivering); err != nil {
			return nil, err
		}
	}
	chains := make([]*layerChain, len(clusters))
	for i := range clusters {
		chains[i] = l.chain(ks, found[i], was)
	}
	made := make([]*Effective, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		d, st := clusters[i], chains[i]
		if e := was.effective[d.ID]; e != nil && e.chain == st && e.own == d.own {
			made[i] = e
		} else if st != nil {
			made[i] = ks.effective(d, st, e)
		}
	})
	for i, e := range made {
		if e != nil {
			l.effective[clusters[i].ID] = e
		}
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

// match returns the layers of a cluster, and the variants of the rollouts that reach it. An unchanged layer is not matched
// again with an unchanged cluster.
func (l *layerResolution) match(ks *kindSet, d *Document, reached rolloutMask, prev *Document, was *layerResolution, known map[*Document]bool) layerMatch {
	if d.Deleted() {
		return layerMatch{}
	}
	var had []*Document
	v := l.variants[reached]
	same := prev != nil && prev.own == d.own && (v == nil || !v.layers)
	if e := was.effective[d.ID]; same && e != nil {
		had = e.chain.layers
		same = e.chain.variants == nil || !e.chain.variants.layers
	}
	var out []*Document
	for _, doc := range l.ascending {
		if same && known[doc] {
			if slices.Contains(had, doc) {
				out = append(out, doc)
			}
			continue
		}
		if doc, ok := v.matchesWith(doc, d.Cluster()); ok {
			out = append(out, doc)
		}
	}
	key := chainKey(out)
	if v != nil {
		key += v.key()
	}
	return layerMatch{out, key, ks.mergedEntries(d.own, out), v}
}

// chain returns the chain of some layers; nil if there are none. A chain of unchanged layers is reused.
func (l *layerResolution) chain(ks *kindSet, m layerMatch, was *layerResolution) *layerChain {
	if len(m.layers) == 0 && m.variants == nil {
		return nil
	}
	st := l.chains[m.key]
	if st == nil {
		if st = was.chains[m.key]; st == nil || !slices.Equal(st.layers, m.layers) || st.variants != m.variants {
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
				st.key, st.variants = m.key, m.variants
				return &st
			}
		}
	}
	st := ks.newChain(m.layers)
	st.key, st.variants = m.key, m.variants
	return st
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

// matchingLayers returns the layers of a cluster with the edits of the Tx, and their key.
func (tx *Tx) matchingLayers(c *api.Cluster) (layers []*Document, key string) {
	v := tx.variantsOn(c)
	for _, doc := range tx.layers.ascending {
		if doc, ok := v.matchesWith(doc, c); ok {
			layers = append(layers, doc)
		}
	}
	if key = chainKey(layers); v != nil {
		key += v.key()
	}
	return layers, key
}

// variantsOn returns the variants of layers that a cluster has with the rollouts of the base; nil: it has none. Finish
// refuses edits that a variant cannot be merged with.
func (tx *Tx) variantsOn(c *api.Cluster) *variants {
	if tx.base.rollouts == nil {
		return nil
	}
	var reach rolloutMask
	for i, d := range tx.base.rollouts.delivering {
		if d.rollout().reaches(c) {
			reach |= 1 << i
		}
	}
	if reach == 0 {
		return nil
	}
	l := tx.layers
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.variants[reach] == nil {
		if l.variants == nil {
			l.variants = map[rolloutMask]*variants{}
		}
		l.variants[reach] = tx.layerVariants(reach)
	}
	return l.variants[reach]
}

// layerVariants merges the changes of some delivering rollouts into the layers.
func (tx *Tx) layerVariants(reach rolloutMask) *variants {
	v := &variants{docs: map[docKey]*Document{}}
	for i, d := range tx.base.rollouts.delivering {
		if reach&(1<<i) == 0 {
			continue
		}
		v.rollouts = append(v.rollouts, d)
		for _, ch := range d.rollout().Changes {
			key := docKey{ch.Kind, ch.ID}
			now := cmp.Or(v.docs[key], tx.raw(ch.Kind, ch.ID))
			if ch.Kind != KindLayer || now == nil {
				continue
			}
			if doc, conflicts, err := tx.kinds.variant(ch, now); err == nil && len(conflicts) == 0 {
				v.docs[key] = doc
			}
		}
	}
	return v
}

// effective returns a cluster's effective configuration, with the edits of the Tx.
func (tx *Tx) effective(d *Document) *Effective {
	if len(tx.layers.ascending) == 0 || d.Deleted() {
		return d.own
	}
	if !tx.layers.edited && tx.base.docs[KindCluster][d.ID] == d {
		return tx.base.configured(d)
	}
	layers, key := tx.matchingLayers(d.Cluster())
	if len(layers) == 0 {
		return d.own
	}
	return tx.kinds.effective(d, tx.layers.chain(tx.kinds, layers, key), nil)
}

// chain returns the chain of some layers, cached up to the limit of entries.
func (l *txLayers) chain(ks *kindSet, layers []*Document, key string) *layerChain {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st := l.chains[key]; st != nil {
		return st
	}
	st := ks.newChain(layers)
	for _, d := range layers {
		l.cachedEntries += d.layer().entryCount()
	}
	if l.cachedEntries <= maxChainEntries { // otherwise validation refuses the change anyway
		if l.chains == nil {
			l.chains = map[string]*layerChain{}
		}
		l.chains[key] = st
	}
	return st
}

// componentsFromLayers returns the components that layers assign to a cluster, given as an object.
func (tx *Tx) componentsFromLayers(obj map[string]any) map[string]bool {
	assigned := map[string]bool{}
	if len(tx.layers.ascending) == 0 {
		return assigned
	}
	c := &api.Cluster{Labels: map[string]string{}}
	c.ID, _ = obj["id"].(string)
	c.Environment, _ = obj["environment"].(string)
	labels, _ := obj["labels"].(map[string]any)
	for k, v := range labels {
		c.Labels[k], _ = v.(string)
	}
	a := tx.kinds.descriptor(KindComponent)
	layers, _ := tx.matchingLayers(c)
	for _, doc := range layers {
		for _, id := range doc.layer().assignedIDs(a) {
			assigned[id] = true
		}
	}
	return assigned
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
