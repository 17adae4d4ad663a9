package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// layering is the layers of a State and what they make of its clusters. It is worked out when a layer or a cluster changes,
// and only for what they change; a poll looks it up.
type layerResolution struct {
	ascending []*Document    // layers by rising priority
	version   *layersVersion // the same until some layer changes
	chains    map[string]*layerChain
	effective map[string]*Effective // of the clusters that some layer matches
	cost      layerCost
}

// layersID identifies layers for as long as none of them changes, without keeping alive what they once made of clusters.
type layersVersion struct{ _ byte }

// byPriority sorts layers, the lowest first. No two have one priority, but for what somebody has put into the store.
func sortByPriority(layers map[string]*Document) []*Document {
	return slices.SortedFunc(maps.Values(layers), func(a, b *Document) int {
		return cmp.Or(cmp.Compare(a.layer().Priority, b.layer().Priority), cmp.Compare(a.ID, b.ID))
	})
}

// relayer works out what clusters have after edits of another State, which is nil for all that this one has. It fails where that
// is too much, unless it is there already, and where a layer that is there cannot be told to match.
func (s *State) recomputeLayers(before *State, edits []edit, there bool) error {
	var was *layerResolution
	layersChanged := before == nil
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
	case len(s.docs[KindLayer]) == 0:
		s.layers = nil
	case layersChanged:
		s.layers, err = s.kinds.resolveAll(s, before, cmp.Or(was, &layerResolution{}), there)
	case !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == KindCluster }):
		s.layers = was
	default:
		s.layers, err = was.resolveChanged(s.kinds, clusters, edits, there)
	}
	return err
}

// layered is the layering of all clusters.
func (ks *kindSet) resolveAll(s, before *State, was *layerResolution, there bool) (*layerResolution, error) {
	if there {
		if err := checkSelectors(s.docs[KindLayer]); err != nil {
			return nil, err
		}
	}
	next := &layerResolution{ascending: sortByPriority(s.docs[KindLayer]), chains: map[string]*layerChain{}, effective: make(map[string]*Effective, len(was.effective))}
	next.version = &layersVersion{}
	known := map[*Document]bool{} // layers that were there before
	for _, d := range was.ascending {
		known[d] = true
	}
	clusters := slices.Collect(maps.Values(s.docs[KindCluster]))
	found := make([]layerMatch, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		var prev *Document
		if before != nil {
			prev = before.docs[KindCluster][clusters[i].ID]
		}
		found[i] = next.match(ks, clusters[i], prev, was, known)
	})
	return next.resolve(ks, was, clusters, found, &costCounter{chains: map[string][]*Document{}}, there)
}

// after is the layering when only some clusters have changed.
func (l *layerResolution) resolveChanged(ks *kindSet, clusters []*Document, edits []edit, there bool) (*layerResolution, error) {
	next := &layerResolution{ascending: l.ascending, version: l.version, chains: make(map[string]*layerChain, len(l.chains)), effective: maps.Clone(l.effective)}
	for _, e := range edits {
		if e.kind == KindCluster {
			delete(next.effective, e.id)
		}
	}
	all := costCounter{chains: map[string][]*Document{}}
	for _, e := range next.effective { // what nobody has any more is let go
		all.add(e.chain.layers, e.chain.key, e.mergedEntries)
		next.chains[e.chain.key] = e.chain
	}
	found := make([]layerMatch, len(clusters))
	for i, d := range clusters {
		found[i] = next.match(ks, d, nil, l, nil)
	}
	return next.resolve(ks, l, clusters, found, &all, there)
}

// folded is a layering with what clusters have by the layers that match them, of which all has those of the others. What is the same as it was
// is taken over.
func (l *layerResolution) resolve(ks *kindSet, was *layerResolution, clusters []*Document, found []layerMatch, all *costCounter, there bool) (*layerResolution, error) {
	for _, m := range found {
		all.add(m.layers, m.key, m.mergedEntries)
	}
	if l.cost = all.layerCost; !there {
		if err := all.check(was.cost); err != nil {
			return nil, err
		}
	}
	stacks := make([]*layerChain, len(clusters))
	for i := range clusters {
		stacks[i] = l.chain(ks, found[i], was)
	}
	made := make([]*Effective, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		d, st := clusters[i], stacks[i]
		if e := was.effective[d.ID]; e != nil && e.chain == st && e.own == d.own {
			made[i] = e
		} else if st != nil {
			made[i] = ks.effective(d, st)
		}
	})
	for i, e := range made {
		if e != nil {
			l.effective[clusters[i].ID] = e
		}
	}
	return l, nil
}

// anyOf tells whether a layer matches some cluster.
func (l *layerResolution) matchesAny(layer string) bool {
	for _, e := range l.effective {
		if slices.ContainsFunc(e.chain.layers, func(d *Document) bool { return d.ID == layer }) {
			return true
		}
	}
	return false
}

// match is the layers of a cluster. What has not changed is not matched again.
func (l *layerResolution) match(ks *kindSet, d, prev *Document, was *layerResolution, known map[*Document]bool) layerMatch {
	if d.Deleted() {
		return layerMatch{}
	}
	var had []*Document
	same := prev != nil && prev.own == d.own
	if e := was.effective[d.ID]; same && e != nil {
		had = e.chain.layers
	}
	var out []*Document
	for _, doc := range l.ascending {
		if same && known[doc] {
			if slices.Contains(had, doc) {
				out = append(out, doc)
			}
			continue
		}
		if doc.layer().matches(d.Cluster()) {
			out = append(out, doc)
		}
	}
	return layerMatch{out, chainKey(out), ks.mergedEntries(d.own, out)}
}

// stack is the stack of some layers; nil when there are none. One whose layers have not changed is taken over.
func (l *layerResolution) chain(ks *kindSet, m layerMatch, was *layerResolution) *layerChain {
	if len(m.layers) == 0 {
		return nil
	}
	st := l.chains[m.key]
	if st == nil {
		if st = was.chains[m.key]; st == nil || !slices.Equal(st.layers, m.layers) {
			st = ks.newChain(m.layers)
		}
		l.chains[m.key] = st
	}
	return st
}

// relayering is a cluster of which its layers make something else than before.
type layerChange struct {
	doc     *Document
	was, is *Effective
}

// relayered are the clusters that do not change themselves in some edits of another State, and of which their layers make
// something else than before, by id.
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
		if was, is := before.Effective(old), s.Effective(d); was != is {
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

// layersInTx is what clusters have while a Tx is edited: layers and clusters as the edits have them. Edits run on many
// clusters at once.
type txLayers struct {
	ascending     []*Document
	edited        bool // a layer is not what it is in the base
	mu            sync.Mutex
	chains        map[string]*layerChain
	cachedEntries int // what these say
}

// relayer takes up an edit of a layer.
func (tx *Tx) recomputeLayers() {
	layers := map[string]*Document{}
	tx.each(KindLayer, func(d *Document) { layers[d.ID] = d })
	tx.layers = &txLayers{ascending: sortByPriority(layers), edited: true}
}

// matching are the layers of a cluster as the Tx sees them.
func (tx *Tx) matchingLayers(c *api.Cluster) []*Document {
	var out []*Document
	for _, doc := range tx.layers.ascending {
		if doc.layer().matches(c) {
			out = append(out, doc)
		}
	}
	return out
}

// effective is what a cluster has as the Tx sees it.
func (tx *Tx) effective(d *Document) *Effective {
	if len(tx.layers.ascending) == 0 || d.Deleted() {
		return d.own
	}
	if !tx.layers.edited && tx.base.docs[KindCluster][d.ID] == d {
		return tx.base.Effective(d)
	}
	layers := tx.matchingLayers(d.Cluster())
	if len(layers) == 0 {
		return d.own
	}
	return tx.kinds.effective(d, tx.layers.chain(tx.kinds, layers))
}

func (l *txLayers) chain(ks *kindSet, layers []*Document) *layerChain {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := chainKey(layers)
	if st := l.chains[key]; st != nil {
		return st
	}
	st := ks.newChain(layers)
	for _, d := range layers {
		l.cachedEntries += d.layer().entryCount()
	}
	if l.cachedEntries <= maxChainEntries { // or it is refused, as a rule
		if l.chains == nil {
			l.chains = map[string]*layerChain{}
		}
		l.chains[key] = st
	}
	return st
}

// gives are the components that layers give to a cluster whose object this is.
func (tx *Tx) componentsFromLayers(obj map[string]any) map[string]bool {
	given := map[string]bool{}
	if len(tx.layers.ascending) == 0 {
		return given
	}
	c := &api.Cluster{Labels: map[string]string{}}
	c.ID, _ = obj["id"].(string)
	c.Environment, _ = obj["environment"].(string)
	labels, _ := obj["labels"].(map[string]any)
	for k, v := range labels {
		c.Labels[k], _ = v.(string)
	}
	a := tx.kinds.descriptor(KindComponent)
	for _, doc := range tx.matchingLayers(c) {
		for _, id := range doc.layer().assignedIDs(a) {
			given[id] = true
		}
	}
	return given
}
