package fleet

import (
	"maps"
	"reflect"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Cluster returns the cluster with its effective configuration. The result must not be changed.
func (e *Effective) Cluster() *api.Cluster { return e.cluster }

// Deleted reports whether this is a decommissioned cluster, which has empty lists.
func (e *Effective) Deleted() bool { return e.cluster.DeletedAt != nil }

// withoutLayers returns the configuration from the document alone.
func (e *Effective) withoutLayers() *Effective {
	if e.own != nil {
		return e.own
	}
	return e
}

// newOwn returns the configuration from a cluster's document alone, which is complete if no layer matches.
func (ks *kindSet) newOwn(rec Record, value any, cluster *api.Cluster) *Effective {
	return &Effective{
		id: rec.ID, value: value, cluster: cluster, answers: newAnswers(ks.compiledCount),
		bound: ks.clusterBound(value), block: encodedSize(fluxCluster(cluster)),
	}
}

// Effective returns the effective configuration of a cluster of the State.
func (s *State) Effective(d *Document) *Effective {
	if s.layers != nil {
		if e := s.layers.effective[d.ID]; e != nil {
			return e
		}
	}
	return d.own
}

// HasComponent reports whether a cluster of the State has a component, enabled or not.
func (s *State) HasComponent(d *Document, component string) bool {
	_, has := s.kinds.descriptor(KindComponent).enabled(s.Effective(d), component)
	return has
}

// effective merges a document over a chain of layers.
func (ks *kindSet) effective(d *Document, st *layerChain) *Effective {
	own := d.own
	if st == nil || d.Deleted() {
		return own
	}
	e := &Effective{id: own.id, value: ks.copyValue(own.value), block: own.block, answers: newAnswers(ks.compiledCount), chain: st, shared: ks.hasNoSettings(own), mergedEntries: ks.mergedEntries(own, st.layers), own: own}
	e.cluster = ks.cluster(e.value)
	e.cluster.DeletionProtection = own.cluster.DeletionProtection || st.deletionProtection
	if e.shared {
		for _, a := range ks.lists[:ks.compiledCount] {
			a.merger.copyList(st.base, e)
		}
		e.cluster.Patches, e.cluster.Resources, e.bound = st.base.cluster.Patches, st.base.cluster.Resources, st.base.bound
		return e
	}
	ks.applyCluster(st, own, e)
	return e
}

// hasNoSettings reports whether a cluster adds no settings to its layers: it shares their merged lists with all such
// clusters.
func (ks *kindSet) hasNoSettings(own *Effective) bool {
	for _, a := range ks.lists[:ks.compiledCount] {
		if a.count(own) > 0 {
			return false
		}
	}
	return len(own.cluster.Patches) == 0 && len(own.cluster.Resources) == 0 && own.cluster.Excludes == nil
}

// applyCluster merges a cluster's own settings over a chain of layers.
func (ks *kindSet) applyCluster(st *layerChain, own, e *Effective) {
	for _, a := range ks.lists[:ks.compiledCount] {
		a.merger.apply(st.lists[a.kind], own, e)
	}
	e.cluster.Resources = st.resourcesOver(own.cluster)
	e.cluster.Patches = ks.patchesOf(st, own, e)
	e.bound = ks.clusterBound(e.value)
}

// patchesOf returns the patches of the components that a cluster has: for each path, those of the highest layer or of the
// cluster.
func (ks *kindSet) patchesOf(st *layerChain, own, e *Effective) api.Patches {
	out := api.Patches{}
	for id := range ks.byKind[KindComponent].eachID(e) {
		below, above := st.patches[id], own.cluster.Patches[id]
		switch {
		case len(below) == 0 && len(above) == 0:
		case len(below) == 0:
			out[id] = above
		case len(above) == 0:
			out[id] = below
		default:
			merged := make(api.PatchValues, len(below)+len(above))
			maps.Copy(merged, below)
			maps.Copy(merged, above)
			out[id] = merged
		}
	}
	return out
}

// sameAnswers reports whether the answers to a cluster are certainly the same as in an earlier State, regardless of its
// labels. It takes constant time; false may also mean unknown.
func (s *State) sameAnswers(base *State, was, is *Effective) bool {
	return s.definitions == base.definitions && s.kinds.sameContent(was, is)
}

// sameContent reports whether two versions of a cluster have the same names, lists and patches because the later version
// shares them with the earlier one, as [kindSet.rewrite] does for each field that an edit leaves unchanged. It compares
// addresses: false may also mean that equal content was decoded twice.
func (ks *kindSet) sameContent(a, b *Effective) bool {
	if a == b {
		return true
	}
	if a.chain != b.chain || fluxCluster(a.cluster) != fluxCluster(b.cluster) {
		return false
	}
	x, y := a.withoutLayers(), b.withoutLayers()
	for _, list := range ks.lists[:ks.compiledCount] {
		if !list.identical(x, y) {
			return false
		}
	}
	return x.cluster.Excludes == y.cluster.Excludes && identical(x.cluster.Patches, y.cluster.Patches) && identical(x.cluster.Resources, y.cluster.Resources)
}

// identical reports whether two maps are the same one, or both are empty.
func identical[M ~map[string]V, V any](a, b M) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer())
}

// EffectiveView returns the effective configuration as the API shows it: like a document that contains all settings, with
// the matching layers.
func (s *State) EffectiveView(d *Document) any {
	e := s.Effective(d)
	view := s.kinds.viewOf(d, e.value)
	c := s.kinds.cluster(view)
	c.Layers, c.Excludes = append([]string{}, e.layerIDs()...), nil
	c.Patches = make(api.Patches, len(e.cluster.Patches))
	for component, values := range e.cluster.Patches {
		if values = overlayPatches(nil, values); len(values) > 0 {
			c.Patches[component] = values
		}
	}
	return view
}

// layerIDs returns the matching layers by rising priority.
func (e *Effective) layerIDs() []string {
	if e.chain == nil {
		return nil
	}
	return idsOf(e.chain.layers)
}

// fluxCluster returns the cluster block of inputs.
func fluxCluster(c *api.Cluster) api.FluxCluster {
	return api.FluxCluster{Name: c.ClusterName, DNS: c.ClusterDNS, Environment: c.Environment}
}
