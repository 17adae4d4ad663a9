package fleet

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// unassignEverywhere removes a definition from every cluster, from every layer, and from the dependencies of other
// definitions.
func (tx *Tx) unassignEverywhere(kind Kind, id string) (err error) {
	tx.nested++ // this is part of the deletion
	defer func() { tx.nested-- }()
	for _, user := range tx.referrers(kind, id) {
		switch user.Kind {
		case KindCluster:
			_, err = tx.unassignFrom(user.ID, kind, id)
		case KindLayer:
			_, err = tx.edit(user, func(obj map[string]any) map[string]any { return tx.descriptor(kind).removeFromLayer(obj, id) })
		default:
			_, err = tx.edit(user, func(obj map[string]any) map[string]any {
				deps, _ := obj["depends_on"].([]any)
				obj["depends_on"] = slices.DeleteFunc(deps, func(v any) bool { return v == id })
				return obj
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlistedPatches returns the clusters that have patches of a component and do not list it, by id.
func (tx *Tx) unlistedPatches(component string) []*Document {
	var clusters []*Document
	tx.each(KindCluster, func(d *Document) {
		if !d.Deleted() && len(d.Cluster().Patches[component]) > 0 && !isAssigned(d.Cluster(), component) {
			clusters = append(clusters, d)
		}
	})
	sortDocuments(clusters)
	return clusters
}

// dropPatches removes the patches of a deleted component from the clusters that do not list it. Otherwise they would apply
// to a new component with the same id.
func (tx *Tx) dropPatches(component string) error {
	for _, d := range tx.unlistedPatches(component) {
		doc, err := tx.applyEdit(d, func(before *Document, obj map[string]any) (bool, error) {
			o := patchesOn(before.Cluster(), component)
			for path := range before.Cluster().Patches[component] {
				o.Remove(path)
			}
			return true, setPatches(before, obj, component, o)
		})
		if err != nil {
			return err
		}
		tx.record(KindCluster, d.ID, doc)
	}
	return nil
}

// deleteResources deletes the definitions of a resource type, and removes them from every cluster.
func (tx *Tx) deleteResources(typeID string) error {
	a := tx.descriptor(ResourceKind(typeID))
	if a == nil {
		return nil
	}
	for _, doc := range tx.referrers(KindResourceType, typeID) {
		tx.record(doc.Kind, doc.ID, nil)
	}
	var clusters []*Document
	tx.each(KindCluster, func(d *Document) {
		if !d.Deleted() && a.count(d.own) > 0 {
			clusters = append(clusters, d)
		}
	})
	after := make([]*Document, len(clusters))
	failed := parallel.Errors(len(clusters), func(i int) (err error) {
		after[i], err = tx.applyEdit(clusters[i], func(before *Document, obj map[string]any) (bool, error) {
			if _, err := a.openEntries(obj, ""); err != nil {
				return false, before.Unreadable(err)
			}
			a.setEntries(obj, nil)
			return true, nil
		})
		return err
	})
	for _, doc := range after {
		if doc != nil {
			tx.record(KindCluster, doc.ID, doc)
		}
	}
	for _, d := range tx.layers.ascending {
		if len(d.layer().assignedIDs(a)) == 0 {
			continue
		}
		if _, err := tx.edit(d, func(obj map[string]any) map[string]any { a.setEntries(obj, nil); return obj }); err != nil {
			return err
		}
	}
	return failed
}

// referrers returns the documents that refer to a definition or belong to a resource type, with the edits of the Tx, sorted
// by kind and id.
func (tx *Tx) referrers(kind Kind, id string) []*Document {
	if kind == KindResourceType {
		var out []*Document
		tx.each(ResourceKind(id), func(d *Document) { out = append(out, d) })
		sortDocuments(out)
		return out
	}
	return tx.referrersOf(kind, map[string]bool{id: true})[id]
}

// referrersOf returns the documents that refer to each of some definitions.
func (tx *Tx) referrersOf(kind Kind, ids map[string]bool) map[string][]*Document {
	out := map[string][]*Document{}
	a := tx.descriptor(kind)
	if a == nil {
		return out
	}
	add := func(id string, user *Document) {
		if n := len(out[id]); ids[id] && (n == 0 || out[id][n-1] != user) {
			out[id] = append(out[id], user)
		}
	}
	tx.each(KindCluster, func(d *Document) {
		if d.Deleted() {
			return
		}
		for id := range a.entries(d.own) {
			add(id, d)
		}
	})
	for _, d := range tx.layers.ascending {
		for _, id := range d.layer().referencedIDs(a) {
			add(id, d)
		}
	}
	tx.each(kind, func(d *Document) {
		for _, id := range a.dependsOn(d) {
			add(id, d)
		}
	})
	for _, users := range out {
		sortDocuments(users)
	}
	return out
}
