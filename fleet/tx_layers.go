package fleet

import (
	"cmp"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// matchingLayers returns the layers of a cluster with the edits of the Tx. Of the rollouts of the base, only the changes of
// layers matter; Finish refuses edits that they cannot be merged with.
func (tx *Tx) matchingLayers(c *api.Cluster) layerMatch {
	l, reached := tx.layers, tx.layers.reachedBy(c)
	l.mu.Lock()
	_ = l.addOverlay(tx.kinds, tx.rawLayer, reached, &layerResolution{}, map[rolloutMerge]*Document{})
	v := l.overlays[reached]
	l.mu.Unlock()
	return l.match(c, v, nil, nil)
}

// rawLayer returns a layer with the edits of the Tx; nil for other kinds.
func (tx *Tx) rawLayer(kind Kind, id string) *Document {
	if kind != KindLayer {
		return nil
	}
	return tx.raw(kind, id)
}

// effective returns a cluster's effective configuration, with the edits of the Tx. It has references, not their values: these depend on
// definitions, and edits of a Tx come one by one.
func (tx *Tx) effective(d *Document) *Effective {
	if len(tx.layers.ascending) == 0 || d.Deleted() {
		return d.own
	}
	if !tx.layersEdited && tx.base.docs[KindCluster][d.ID] == d {
		e := tx.base.configured(d)
		if e.chain != nil && e.chain.unresolved != nil {
			return tx.kinds.effective(d, e.chain.unresolved, nil)
		}
		return e
	}
	m := tx.matchingLayers(d.Cluster())
	if len(m.layers) == 0 {
		return d.own
	}
	return tx.kinds.effective(d, tx.chain(m), nil)
}

// chain returns the chain of some layers, cached up to the limit of entries.
func (tx *Tx) chain(m layerMatch) *layerChain {
	l := tx.layers
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.chains[m.key]
	if known != nil {
		return known
	}
	for _, d := range m.layers {
		l.cost.chainEntries += d.layer().entryCount()
	}
	st := l.chain(tx.kinds, m, cmp.Or(tx.base.layers, &layerResolution{}))
	if l.cost.chainEntries > maxChainEntries { // validation refuses the change anyway
		delete(l.chains, m.key)
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
	for _, doc := range tx.matchingLayers(c).layers {
		for _, id := range doc.layer().assignedIDs(a) {
			assigned[id] = true
		}
	}
	return assigned
}

// hasComponent reports whether a cluster has a component in the Tx, from its own list or a layer.
func (tx *Tx) hasComponent(cluster *Document, id string) bool {
	return isAssigned(tx.effective(cluster).cluster, id)
}

// checkLayerCountEarly ends a change that creates very many layers: it would only become slower until Finish refuses it.
func (tx *Tx) checkLayerCountEarly() error {
	if n := len(tx.layers.ascending); n > 2*maxLayers {
		return errorf(CodeLimitExceeded, "there would be %d layers or more; at most %d are possible", n, maxLayers)
	}
	return nil
}
