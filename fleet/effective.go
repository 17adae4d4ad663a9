package fleet

import (
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Cluster returns the cluster with its effective configuration. The result must not be changed.
func (e *Effective) Cluster() *api.Cluster { return e.cluster }

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

// Effective returns the configuration that a cluster of the State is served.
func (s *State) Effective(d *Document) *Effective {
	if p := s.pinned[d.ID]; p != nil {
		return p.served
	}
	return s.configured(d)
}

// configured returns the configuration of a cluster of the State without pins: changes are validated
// with it.
func (s *State) configured(d *Document) *Effective {
	if s.layers != nil {
		if e := s.layers.effective[d.ID]; e != nil {
			return e
		}
	}
	return d.own
}

// effective merges a document over a chain of layers. previous is the configuration of the cluster in an earlier State, or
// nil: if only variants of rollouts differ, its lists and answers are reused. Cached answers stay correct, since
// [State.Answer] compares the definitions that they were made of.
func (ks *kindSet) effective(d *Document, st *layerChain, previous *Effective) *Effective {
	own := d.own
	if st == nil || d.Deleted() {
		return own
	}
	var same *Effective
	switch {
	case len(st.layers) == 0 && !d.refers:
		same = own
	case previous != nil && previous.own == own && slices.Equal(previous.chain.layers, st.layers) && previous.chain.facts.sameAs(st.facts):
		same = previous
	}
	if same != nil {
		return &Effective{
			id: own.id, value: same.value, cluster: same.cluster, bound: same.bound, block: own.block, answers: same.answers,
			chain: st, shared: ks.hasNoSettings(own), mergedEntries: same.mergedEntries, own: own, unresolved: same.unresolved, resolvedBytes: same.resolvedBytes,
		}
	}
	e := &Effective{id: own.id, value: ks.copyValue(own.value), block: own.block, answers: newAnswers(ks.compiledCount), chain: st, shared: ks.hasNoSettings(own), mergedEntries: ks.mergedEntries(own, st.layers), own: own}
	e.cluster = ks.cluster(e.value)
	e.cluster.DeletionProtection = own.cluster.DeletionProtection || st.deletionProtection
	if len(st.variables) > 0 {
		e.cluster.Variables = maps.Clone(st.variables)
		maps.Copy(e.cluster.Variables, own.cluster.Variables)
	}
	if e.shared && len(st.layers) > 0 {
		for _, a := range ks.lists[:ks.compiledCount] {
			a.copyList(st.base, e)
		}
		e.cluster.Patches, e.cluster.Resources, e.bound, e.unresolved = st.base.cluster.Patches, st.base.cluster.Resources, st.base.bound, st.base.unresolved
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
		a.applyLayers(st.lists[a.kind], own, e)
	}
	e.cluster.Resources = st.resourcesOver(own.cluster)
	e.cluster.Patches = ks.patchesOf(st, own, e)
	if st.facts != nil {
		e.resolveSettings(st.facts)
	}
	e.bound = ks.clusterBound(e.value)
}

// patchesOf returns the patches of the components that a cluster has: for each path, those of the highest layer or of the
// cluster.
func (ks *kindSet) patchesOf(st *layerChain, own, e *Effective) api.Patches {
	out := api.Patches{}
	for id := range ks.byKind[KindComponent].entries(e) {
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
// shares them with the earlier one, as [kindSet.compose] does for each field that an edit leaves unchanged. It compares
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

// layerIDs returns the matching layers by rising priority.
func (e *Effective) layerIDs() []string {
	if e.chain == nil {
		return nil
	}
	return idsOf(e.chain.layers)
}

// fluxCluster returns the cluster block of inputs.
func fluxCluster(c *api.Cluster) api.FluxCluster {
	return api.FluxCluster{Name: c.ClusterName, DNS: c.ClusterDNS, Environment: c.Environment, ReconcileRequestedAt: c.ReconcileRequestedAt}
}

// clusterBound is the sum of the bounds of a cluster's settings in all compiled-in lists.
func (ks *kindSet) clusterBound(value any) int {
	n := 0
	for _, a := range ks.lists[:ks.compiledCount] {
		if a.overrides != nil && !a.overrides.sizeFromType {
			n += a.overrides.size(ks.cluster(value))
		}
	}
	return n
}

// overlayPatches merges a cluster's patches of a component over those of the catalog: for each path, the cluster wins.
func overlayPatches(catalog, cluster api.PatchValues) api.PatchValues {
	merged := make(api.PatchValues, len(catalog)+len(cluster))
	maps.Copy(merged, catalog)
	for path, value := range cluster {
		if value == nil { // a layer removes the path
			delete(merged, path)
			continue
		}
		merged[path] = value
	}
	return merged
}

// idsOf returns the ids of documents.
func idsOf(docs []*Document) []string {
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	return ids
}

// mergedEntries returns the number of entries of layers that are merged with a cluster's own settings.
func (ks *kindSet) mergedEntries(own *Effective, layers []*Document) int {
	if len(layers) == 0 || ks.hasNoSettings(own) {
		return 0
	}
	all, n := own.cluster.Excludes != nil, 0
	for _, a := range ks.lists[:ks.compiledCount] {
		if !all && a.count(own) == 0 {
			continue
		}
		for _, d := range layers {
			n += d.layer().entryCounts[a.kind]
		}
	}
	for _, d := range layers {
		for typeID, entries := range d.layer().resources {
			if all || len(own.cluster.Resources[typeID]) > 0 {
				n += len(entries)
			}
		}
		n += len(d.layer().Patches)
		for component := range own.cluster.Patches { // merging copies them
			n += len(d.layer().Patches[component])
		}
	}
	return n
}

// clusterByID returns the effective configuration of a cluster, decommissioned or not; nil: there is none.
func (s *State) clusterByID(cluster string) *Effective {
	doc := s.docs[KindCluster][cluster]
	if doc == nil {
		return nil
	}
	return s.Effective(doc)
}
