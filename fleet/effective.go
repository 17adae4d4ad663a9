package fleet

import (
	"maps"
	"reflect"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Effective is what a cluster has: what its document says, laid over what the layers say that match it. Polls, and
// everything that asks what is on a cluster, go by it; what somebody wrote is in the [Document]. The two are different types
// so that neither is taken for the other: an answer made of the document alone would lack what layers give, and Flux
// uninstalls what an answer lacks. It never changes.
type Effective struct {
	id            string
	value         any          // of the clusters' model
	cluster       *api.Cluster // the same
	bound         int          // see answer_size.go
	block         int          // size of the cluster's own block, which every input repeats
	answers       *answers
	chain         *layerChain // of the layers that match; nil: none does, and the document says it all
	shared        bool        // the document says nothing: it has what all others like it have
	mergedEntries int         // see layer_limits.go
	own           *Effective  // what the document says by itself; nil where that is all

	// checked are the definitions by which nothing refuses the lists, the patches and the size of the answers.
	checked atomic.Pointer[definitionsID]
}

// Cluster is the cluster with everything that it has. The result must not be changed.
func (e *Effective) Cluster() *api.Cluster { return e.cluster }

// Deleted tells whether this is a decommissioned cluster, which has nothing.
func (e *Effective) Deleted() bool { return e.cluster.DeletedAt != nil }

// written is what the document says by itself.
func (e *Effective) withoutLayers() *Effective {
	if e.own != nil {
		return e.own
	}
	return e
}

// alone is what a cluster's document says by itself: all it has where no layer matches it.
func (ks *kindSet) newOwn(rec Record, value any, cluster *api.Cluster) *Effective {
	return &Effective{
		id: rec.ID, value: value, cluster: cluster, answers: newAnswers(ks.compiledCount),
		bound: ks.clusterBound(value), block: encodedSize(fluxCluster(cluster)),
	}
}

// Effective is what a cluster of the State has.
func (s *State) Effective(d *Document) *Effective {
	if s.layers != nil {
		if e := s.layers.effective[d.ID]; e != nil {
			return e
		}
	}
	return d.own
}

// HasComponent tells whether a component is on a cluster of the State, switched off or not.
func (s *State) HasComponent(d *Document, component string) bool {
	_, has := s.kinds.descriptor(KindComponent).enabled(s.Effective(d), component)
	return has
}

// effective is what a cluster has by a document on a stack of layers.
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

// saysNothing tells whether a cluster adds nothing to its layers: it shares what they amount to with all others like it.
func (ks *kindSet) hasNoSettings(own *Effective) bool {
	for _, a := range ks.lists[:ks.compiledCount] {
		if a.count(own) > 0 {
			return false
		}
	}
	return len(own.cluster.Patches) == 0 && len(own.cluster.Resources) == 0 && own.cluster.Excludes == nil
}

// fold lays what a document says over a stack of layers.
func (ks *kindSet) applyCluster(st *layerChain, own, e *Effective) {
	for _, a := range ks.lists[:ks.compiledCount] {
		a.merger.apply(st.lists[a.kind], own, e)
	}
	e.cluster.Resources = st.resourcesOver(own.cluster)
	e.cluster.Patches = ks.patchesOf(st, own, e)
	e.bound = ks.clusterBound(e.value)
}

// patchesOf are the patches of the components that a cluster has: per path, the highest who says it.
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

// sameAnswers reports whether a cluster is certainly answered the same as in an earlier State, whatever has become of its labels. It
// takes the same time for any content; false may also mean that this is not known.
func (s *State) sameAnswers(base *State, was, is *Effective) bool {
	return s.definitions == base.definitions && s.kinds.sameContent(was, is)
}

// sameContent reports whether two versions of a cluster have the same names, lists and patches because the later one took them over
// from the earlier one, as [kindSet.rewrite] does with each field that an edit leaves alone. It compares places in memory: false may
// also mean that equal content was read twice.
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

// EffectiveView is what a cluster has as the API shows it, as if its document said it all, with the layers that match it.
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

// layerIDs are the layers that match, by rising priority.
func (e *Effective) layerIDs() []string {
	if e.chain == nil {
		return nil
	}
	return idsOf(e.chain.layers)
}

func fluxCluster(c *api.Cluster) api.FluxCluster {
	return api.FluxCluster{Name: c.ClusterName, DNS: c.ClusterDNS, Environment: c.Environment}
}
