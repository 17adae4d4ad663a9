package fleet

import (
	"fmt"
	"slices"
)

// A list whose resource type is deleted is answered with 404, and Flux keeps its objects. If a type of that id is created
// again, the list exists and is empty: Flux uninstalls everything. So the log records the inputs that clusters had of a
// deleted type, until the type exists again.

// keptID is the id of the document that records a deleted resource type, among those of orphaned clusters. No DNS name
// contains a slash.
func keptID(kind Kind) string { return string(kind) }

// deletedTypes returns the edits that record the installations of resource types which the change deletes, and that end the
// records of those which exist again.
func (r Result) deletedTypes() ([]edit, error) {
	var edits []edit
	if r.base.kinds == r.State.kinds {
		return nil, nil
	}
	for _, list := range r.State.kinds.lists[r.State.kinds.compiledCount:] {
		if r.base.docs[KindOrphan][keptID(list.kind)] != nil {
			edits = append(edits, edit{KindOrphan, keptID(list.kind), nil})
		}
	}
	for _, list := range r.base.kinds.lists[r.base.kinds.compiledCount:] {
		if r.State.kinds.byKind[list.kind] != nil {
			continue
		}
		kept, err := r.keptOf(list)
		if err != nil {
			return nil, err
		}
		if len(kept) == 0 {
			continue
		}
		doc, err := r.base.kinds.newRecord(KindOrphan, keptID(list.kind), orphanRecord{
			ID: keptID(list.kind), Installed: []installation{}, Kept: kept, At: later(r.Commit.At, r.base.newest),
		})
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit{KindOrphan, keptID(list.kind), doc})
	}
	return edits, nil
}

// keptOf returns the installations of a resource type before it is deleted, grouped by equality, in a fixed order.
func (r Result) keptOf(list *descriptor) ([]keptOn, error) {
	groups := map[string]*keptOn{}
	for id, doc := range r.base.docs[KindCluster] {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		cluster := r.base.Effective(doc)
		if doc.Deleted() || list.count(cluster) == 0 {
			continue
		}
		installed := slices.DeleteFunc(r.base.installed(cluster, nil, r.Commit.At), func(i installation) bool { return i.Kind != list.kind })
		if len(installed) == 0 {
			continue
		}
		installed = r.identified(cluster, installed)
		key := fmt.Sprint(installed)
		if groups[key] == nil {
			groups[key] = &keptOn{Installed: installed, Clusters: map[string]string{}}
		}
		groups[key].Clusters[id] = lowerName(doc.Cluster())
	}
	var out []keptOn
	for _, key := range sortedKeys(groups) {
		out = append(out, *groups[key])
	}
	return out, nil
}

// recreatedTypes returns the retained installations of deleted resource types that exist again, by the DNS name of the
// cluster.
func (r Result) recreatedTypes() map[string][]installation {
	if r.base.kinds == r.State.kinds {
		return nil
	}
	out := map[string][]installation{}
	for _, list := range r.State.kinds.lists[r.State.kinds.compiledCount:] {
		doc := r.base.docs[KindOrphan][keptID(list.kind)]
		if doc == nil || r.base.kinds.byKind[list.kind] != nil {
			continue
		}
		r.base.keptByName(doc, func(name string, installed []installation) { out[name] = append(out[name], installed...) })
	}
	return out
}

// keptByName visits the DNS names of clusters that have retained installations of a deleted resource type: the names at that
// time, and the names that the clusters have now.
func (s *State) keptByName(doc *Document, visit func(name string, installed []installation)) {
	for _, kept := range doc.value.(*orphanRecord).Kept {
		for id, name := range kept.Clusters {
			visit(name, kept.Installed)
			if now := s.docs[KindCluster][id]; now != nil && lowerName(now.Cluster()) != name {
				visit(lowerName(now.Cluster()), kept.Installed)
			}
		}
	}
}

// keptNow returns the retained installations of missing resource types, by the DNS name of the cluster.
func (r Result) keptNow() map[string][]installation {
	out := map[string][]installation{}
	for id, doc := range r.base.docs[KindOrphan] {
		if isKeptID(id) && r.base.kinds.byKind[Kind(id)] == nil {
			r.base.keptByName(doc, func(name string, installed []installation) { out[name] = append(out[name], installed...) })
		}
	}
	return out
}
