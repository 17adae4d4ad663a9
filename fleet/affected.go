package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// groupKey is equal for clusters that share their whole configuration, before and after: the removals are equal too.
type groupKey struct {
	before, after *layerChain
	was, is       string // environments
}

// affected is one DNS name whose answers a commit may change. Clusters poll by their name, so the comparison is between the
// document that answered it before and the document that answers it afterwards.
type affected struct {
	id            string // of the cluster that answers afterwards, or that answered before
	name          string // in lower case
	before, after *Effective
	changed       map[Kind]map[string]bool // definitions that changed
	redeployed    bool                     // the deployment of a component changes
	kept          []installation           // left by deleted resource types that exist again
}

// affected returns the names of clusters that change and, with all, those that only refer to a changed definition. Without
// all it still returns the latter if the deployment of a component changes: Flux removes objects then.
func (r Result) affected(all bool) ([]affected, error) {
	out, c := r.affectedDirectly()
	if len(c.definitions) > 0 && (all || c.redeployed) {
		for id := range r.State.docs[KindCluster] {
			if err := r.work.stopped(); err != nil {
				return nil, err
			}
			if a, refers := r.affectedByDefinitions(id, c); refers {
				out = append(out, a)
			}
		}
	}
	return r.addRecreated(out, c.definitions), nil
}

// commitChanges are the changes of a commit that affect clusters.
type commitChanges struct {
	clusters    map[string]bool // whose document or configuration changes, by id
	definitions map[Kind]map[string]bool
	redeployed  bool // the deployment of a component changes
}

// affectedDirectly returns the names of clusters whose document or configuration changes, and the changes of the commit.
func (r Result) affectedDirectly() ([]affected, commitChanges) {
	c, names := commitChanges{clusters: map[string]bool{}, definitions: map[Kind]map[string]bool{}}, map[string]bool{}
	for _, ch := range r.Commit.Changes {
		if ch.Kind == KindCluster {
			c.clusters[ch.ID] = true
			for _, s := range []*State{r.base, r.State} {
				if doc := s.docs[KindCluster][ch.ID]; doc != nil {
					names[lowerName(doc.Cluster())] = true
				}
			}
			continue
		}
		if neverServed(ch.Kind) {
			continue
		}
		if c.definitions[ch.Kind] == nil {
			c.definitions[ch.Kind] = map[string]bool{}
		}
		c.definitions[ch.Kind][ch.ID] = true
	}
	r.State.addChangedTypes(r.base, c.definitions)
	for _, a := range r.lists() {
		for id := range c.definitions[a.kind] {
			was, is := r.base.docs[a.kind][id], r.State.docs[a.kind][id]
			c.redeployed = c.redeployed || was != nil && is != nil && a.redeployed(was, is)
		}
	}
	out, known := []affected{}, map[[2]*layerChain]affected{}
	for name := range names {
		before, after := r.base.clusterByName(name), r.State.clusterByName(name)
		out = append(out, r.withVariants(affected{cmp.Or(after, before).id, name, before, after, c.definitions, c.redeployed, nil}, known))
	}
	for _, one := range r.layerChanges {
		c.clusters[one.doc.ID] = true // it is in the result already
		out = append(out, r.withVariants(affected{one.doc.ID, lowerName(one.doc.Cluster()), one.was, one.is, c.definitions, c.redeployed, nil}, known))
	}
	return out, c
}

// affectedByDefinitions returns a cluster if it is affected only because it refers to a changed definition.
func (r Result) affectedByDefinitions(id string, c commitChanges) (affected, bool) {
	doc := r.State.docs[KindCluster][id]
	if doc == nil || c.clusters[id] {
		return affected{}, false
	}
	e := r.State.Effective(doc)
	if !r.State.kinds.refersTo(e, c.definitions) {
		return affected{}, false
	}
	return affected{id, lowerName(doc.Cluster()), e, e, c.definitions, c.redeployed, nil}, true
}

// withVariants adds to the changed definitions those that the cluster has in another version because other rollouts reach it
// than before. known caches the result for clusters with the same chains.
func (r Result) withVariants(a affected, known map[[2]*layerChain]affected) affected {
	var key [2]*layerChain
	for i, e := range []*Effective{a.before, a.after} {
		if e != nil {
			key[i] = e.chain
		}
	}
	if same, present := known[key]; present {
		a.changed, a.redeployed = same.changed, same.redeployed
		return a
	}
	if keys := r.variantsDiffer(a.before, a.after); len(keys) > 0 {
		changed := make(map[Kind]map[string]bool, len(a.changed)+1)
		for kind, ids := range a.changed {
			changed[kind] = maps.Clone(ids)
		}
		for _, k := range keys {
			if changed[k.kind] == nil {
				changed[k.kind] = map[string]bool{}
			}
			changed[k.kind][k.id] = true
			a.redeployed = a.redeployed || r.variantRedeployed(a.before, a.after, k)
		}
		a.changed = changed
	}
	known[key] = a
	return a
}

// addRecreated adds the clusters that retained objects of a deleted resource type that exists again.
func (r Result) addRecreated(out []affected, changed map[Kind]map[string]bool) []affected {
	revived := r.recreatedTypes()
	for i := range out {
		out[i].kept = revived[out[i].name]
		delete(revived, out[i].name)
	}
	for _, name := range sortedKeys(revived) {
		if before, after := r.base.clusterByName(name), r.State.clusterByName(name); before != nil && after != nil {
			out = append(out, affected{after.id, name, before, after, changed, false, revived[name]})
		}
	}
	return out
}

// addChangedTypes adds the definitions of changed resource types to the changed definitions: inputs depend on both.
func (s *State) addChangedTypes(before *State, changed map[Kind]map[string]bool) {
	for _, a := range s.kinds.lists[s.kinds.compiledCount:] {
		if was := before.kinds.byKind[a.kind]; was == nil || was == a {
			continue
		}
		if changed[a.kind] == nil {
			changed[a.kind] = map[string]bool{}
		}
		for id := range s.docs[a.kind] {
			changed[a.kind][id] = true
		}
	}
}

// compareNames orders clusters by DNS name; nil is first.
func compareNames(a, b *Effective) int {
	name := func(d *Effective) string {
		if d == nil {
			return ""
		}
		return d.cluster.ClusterDNS
	}
	return cmp.Compare(name(a), name(b))
}

// refersTo reports whether a cluster has a changed definition.
func (ks *kindSet) refersTo(c *Effective, changed map[Kind]map[string]bool) bool {
	for _, a := range ks.lists {
		if a.hasAny(c, changed[a.kind]) {
			return true
		}
	}
	return false
}

// uses reports whether a cluster uses one of some documents, in the answers that it receives or in those without freezes.
func (s *State) uses(cluster *Document, documents map[Kind]map[string]bool) bool {
	return s.kinds.refersTo(s.Effective(cluster), documents) || s.kinds.refersTo(s.configured(cluster), documents)
}

// clusterByName returns the cluster that answers polls by a name, or nil.
func (s *State) clusterByName(name string) *Effective {
	d, ok := s.ByDNS(name)
	if !ok {
		return nil
	}
	return s.Effective(d)
}

// groupKey of a cluster; not shared: no other cluster is equal.
func (a affected) groupKey() (like groupKey, shared bool) {
	if a.before == nil || a.after == nil || len(a.kept) > 0 || !a.before.shared || !a.after.shared || a.before.cluster.ClusterName != a.after.cluster.ClusterName {
		return groupKey{}, false
	}
	return groupKey{a.before.chain, a.after.chain, a.before.cluster.Environment, a.after.cluster.Environment}, true
}

// lists returns the lists that clusters have before or after the change; in the later version if both.
func (r Result) lists() []*descriptor { return r.State.kinds.listsWithRemoved(r.base.kinds) }

// sameDeployments reports whether two clusters have the same entries, with the same deployment as far as the entries
// determine it.
func (r Result) sameDeployments(a, b *Effective) bool {
	return r.State.sameAnswers(r.base, a, b) ||
		fluxCluster(a.cluster) == fluxCluster(b.cluster) && !slices.ContainsFunc(r.lists(), func(list *descriptor) bool { return !list.sameDeployments(a, b) })
}

// variantsDiffer returns the definitions that a cluster has in another version than before because rollouts reach it.
func (r Result) variantsDiffer(was, is *Effective) (keys []docKey) {
	looked := map[docKey]bool{}
	for _, e := range []*Effective{was, is} {
		if e == nil || e.chain == nil || e.chain.overlay == nil {
			continue
		}
		for key := range e.chain.overlay.docs {
			if key.kind == KindLayer || looked[key] {
				continue
			}
			looked[key] = true
			before, _ := r.base.definition(was, key.kind, key.id)
			after, _ := r.State.definition(is, key.kind, key.id)
			if !sameDocument(before, after) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// variantRedeployed reports whether the deployment of a definition differs between two versions that a cluster has.
func (r Result) variantRedeployed(was, is *Effective, key docKey) bool {
	a := r.State.kinds.descriptor(key.kind)
	before, had := r.base.definition(was, key.kind, key.id)
	after, has := r.State.definition(is, key.kind, key.id)
	return a != nil && had && has && a.redeployed(before, after)
}
