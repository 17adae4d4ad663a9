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
type layering struct {
	rising []*Document // layers by rising priority
	since  *layersID   // the same until some layer changes
	stacks map[string]*stack
	of     map[string]*Effective // of the clusters that some layer matches
	extent extent
}

// layersID identifies layers for as long as none of them changes, without keeping alive what they once made of clusters.
type layersID struct{ _ byte }

// byPriority sorts layers, the lowest first. No two have one priority, but for what somebody has put into the store.
func byPriority(layers map[string]*Document) []*Document {
	return slices.SortedFunc(maps.Values(layers), func(a, b *Document) int {
		return cmp.Or(cmp.Compare(a.layer().Priority, b.layer().Priority), cmp.Compare(a.ID, b.ID))
	})
}

// relayer works out what clusters have after edits of another State, which is nil for all that this one has. It fails where that
// is too much, unless it is there already, and where a layer that is there cannot be told to match.
func (s *State) relayer(before *State, edits []edit, there bool) error {
	var was *layering
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
		s.layers, err = s.kinds.layered(s, before, cmp.Or(was, &layering{}), there)
	case !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == KindCluster }):
		s.layers = was
	default:
		s.layers, err = was.after(s.kinds, clusters, edits, there)
	}
	return err
}

// layered is the layering of all clusters.
func (ks *kindSet) layered(s, before *State, was *layering, there bool) (*layering, error) {
	if there {
		if err := readable(s.docs[KindLayer]); err != nil {
			return nil, err
		}
	}
	next := &layering{rising: byPriority(s.docs[KindLayer]), stacks: map[string]*stack{}, of: make(map[string]*Effective, len(was.of))}
	next.since = &layersID{}
	known := map[*Document]bool{} // layers that were there before
	for _, d := range was.rising {
		known[d] = true
	}
	clusters := slices.Collect(maps.Values(s.docs[KindCluster]))
	found := make([]matched, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		var prev *Document
		if before != nil {
			prev = before.docs[KindCluster][clusters[i].ID]
		}
		found[i] = next.match(ks, clusters[i], prev, was, known)
	})
	return next.folded(ks, was, clusters, found, &surveyor{stacks: map[string][]*Document{}}, there)
}

// after is the layering when only some clusters have changed.
func (l *layering) after(ks *kindSet, clusters []*Document, edits []edit, there bool) (*layering, error) {
	next := &layering{rising: l.rising, since: l.since, stacks: make(map[string]*stack, len(l.stacks)), of: maps.Clone(l.of)}
	for _, e := range edits {
		if e.kind == KindCluster {
			delete(next.of, e.id)
		}
	}
	all := surveyor{stacks: map[string][]*Document{}}
	for _, e := range next.of { // what nobody has any more is let go
		all.add(e.stack.layers, e.stack.key, e.laid)
		next.stacks[e.stack.key] = e.stack
	}
	found := make([]matched, len(clusters))
	for i, d := range clusters {
		found[i] = next.match(ks, d, nil, l, nil)
	}
	return next.folded(ks, l, clusters, found, &all, there)
}

// folded is a layering with what clusters have by the layers that match them, of which all has those of the others. What is the same as it was
// is taken over.
func (l *layering) folded(ks *kindSet, was *layering, clusters []*Document, found []matched, all *surveyor, there bool) (*layering, error) {
	for _, m := range found {
		all.add(m.layers, m.key, m.laid)
	}
	if l.extent = all.extent; !there {
		if err := all.within(was.extent); err != nil {
			return nil, err
		}
	}
	stacks := make([]*stack, len(clusters))
	for i := range clusters {
		stacks[i] = l.stack(ks, found[i], was)
	}
	made := make([]*Effective, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		d, st := clusters[i], stacks[i]
		if e := was.of[d.ID]; e != nil && e.stack == st && e.own == d.alone {
			made[i] = e
		} else if st != nil {
			made[i] = ks.effective(d, st)
		}
	})
	for i, e := range made {
		if e != nil {
			l.of[clusters[i].ID] = e
		}
	}
	return l, nil
}

// anyOf tells whether a layer matches some cluster.
func (l *layering) anyOf(layer string) bool {
	for _, e := range l.of {
		if slices.ContainsFunc(e.stack.layers, func(d *Document) bool { return d.ID == layer }) {
			return true
		}
	}
	return false
}

// match is the layers of a cluster. What has not changed is not matched again.
func (l *layering) match(ks *kindSet, d, prev *Document, was *layering, known map[*Document]bool) matched {
	if d.Deleted() {
		return matched{}
	}
	var had []*Document
	same := prev != nil && prev.alone == d.alone
	if e := was.of[d.ID]; same && e != nil {
		had = e.stack.layers
	}
	var out []*Document
	for _, doc := range l.rising {
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
	return matched{out, stackKey(out), ks.laid(d.alone, out)}
}

// stack is the stack of some layers; nil when there are none. One whose layers have not changed is taken over.
func (l *layering) stack(ks *kindSet, m matched, was *layering) *stack {
	if len(m.layers) == 0 {
		return nil
	}
	st := l.stacks[m.key]
	if st == nil {
		if st = was.stacks[m.key]; st == nil || !slices.Equal(st.layers, m.layers) {
			st = ks.stackOf(m.layers)
		}
		l.stacks[m.key] = st
	}
	return st
}

// relayering is a cluster of which its layers make something else than before.
type relayering struct {
	doc     *Document
	was, is *Effective
}

// relayered are the clusters that do not change themselves in some edits of another State, and of which their layers make
// something else than before, by id.
func (s *State) relayered(before *State, edits []edit) []relayering {
	if s.layers == before.layers || s.layers != nil && before.layers != nil && s.layers.since == before.layers.since {
		return nil // no layer has changed
	}
	edited := map[string]bool{}
	for _, e := range edits {
		edited[e.id] = edited[e.id] || e.kind == KindCluster
	}
	var out []relayering
	add := func(id string) {
		d, old := s.docs[KindCluster][id], before.docs[KindCluster][id]
		if d == nil || old == nil || edited[id] {
			return
		}
		if was, is := before.Effective(old), s.Effective(d); was != is {
			out = append(out, relayering{d, was, is})
		}
	}
	if s.layers != nil {
		for id := range s.layers.of {
			add(id)
		}
	}
	if before.layers != nil {
		for id := range before.layers.of {
			if s.layers == nil || s.layers.of[id] == nil {
				add(id)
			}
		}
	}
	slices.SortFunc(out, func(a, b relayering) int { return strings.Compare(a.doc.ID, b.doc.ID) })
	return out
}

// layersInTx is what clusters have while a Tx is edited: layers and clusters as the edits have them. Edits run on many
// clusters at once.
type layersInTx struct {
	rising []*Document
	edited bool // a layer is not what it is in the base
	mu     sync.Mutex
	stacks map[string]*stack
	kept   int // what these say
}

// relayer takes up an edit of a layer.
func (tx *Tx) relayer() {
	layers := map[string]*Document{}
	tx.each(KindLayer, func(d *Document) { layers[d.ID] = d })
	tx.layers = &layersInTx{rising: byPriority(layers), edited: true}
}

// matching are the layers of a cluster as the Tx sees them.
func (tx *Tx) matching(c *api.Cluster) []*Document {
	var out []*Document
	for _, doc := range tx.layers.rising {
		if doc.layer().matches(c) {
			out = append(out, doc)
		}
	}
	return out
}

// effective is what a cluster has as the Tx sees it.
func (tx *Tx) effective(d *Document) *Effective {
	if len(tx.layers.rising) == 0 || d.Deleted() {
		return d.alone
	}
	if !tx.layers.edited && tx.base.docs[KindCluster][d.ID] == d {
		return tx.base.Effective(d)
	}
	layers := tx.matching(d.Cluster())
	if len(layers) == 0 {
		return d.alone
	}
	return tx.kinds.effective(d, tx.layers.stack(tx.kinds, layers))
}

func (l *layersInTx) stack(ks *kindSet, layers []*Document) *stack {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := stackKey(layers)
	if st := l.stacks[key]; st != nil {
		return st
	}
	st := ks.stackOf(layers)
	for _, d := range layers {
		l.kept += d.layer().says()
	}
	if l.kept <= maxStacked { // or it is refused, as a rule
		if l.stacks == nil {
			l.stacks = map[string]*stack{}
		}
		l.stacks[key] = st
	}
	return st
}

// gives are the components that layers give to a cluster whose object this is.
func (tx *Tx) gives(obj map[string]any) map[string]bool {
	given := map[string]bool{}
	if len(tx.layers.rising) == 0 {
		return given
	}
	c := &api.Cluster{Labels: map[string]string{}}
	c.ID, _ = obj["id"].(string)
	c.Environment, _ = obj["environment"].(string)
	labels, _ := obj["labels"].(map[string]any)
	for k, v := range labels {
		c.Labels[k], _ = v.(string)
	}
	a := tx.kinds.assigned(KindComponent)
	for _, doc := range tx.matching(c) {
		for _, id := range doc.layer().entriesOf(a) {
			given[id] = true
		}
	}
	return given
}
