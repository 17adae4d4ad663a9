package fleet

import "github.com/flux-resourceset/flux-resourceset/gen/api"

// DeleteOptions control the deletion of a document.
type DeleteOptions struct {
	// Cascade removes a definition from every document that refers to it.
	Cascade bool
	// Orphan deletes a cluster at once instead of answering its polls with empty lists: Flux keeps its objects.
	Orphan bool
}

// Delete deletes a document. Finish decides whether a document still refers to it, so that a Tx may first delete and then
// unassign.
func (tx *Tx) Delete(kind Kind, id string, opt DeleteOptions) (*Document, error) {
	doc, clusters, err := tx.delete(kind, id, opt)
	if err == nil {
		op := api.RevisionOperation{Op: "delete", Kind: string(kind), ID: id, Cascade: opt.Cascade && kind != KindCluster, Clusters: clusters}
		if opt.Orphan {
			op.Mode = "orphan"
		}
		tx.recordOperation(op)
	}
	return doc, err
}

// delete is Delete, and returns the number of clusters that it removes a definition from.
func (tx *Tx) delete(kind Kind, id string, opt DeleteOptions) (doc *Document, clusters int, err error) {
	doc = tx.raw(kind, id)
	if doc == nil || doc.Deleted() && !opt.Orphan {
		return nil, 0, tx.notFound(kind, id)
	}
	if kind != KindCluster {
		if err := doc.checkDeletable(); err != nil {
			return nil, 0, err
		}
		if opt.Cascade {
			clusters = tx.countClustersWith(kind, id)
		}
		tx.record(kind, id, nil)
		switch {
		case !opt.Cascade: // Finish finds remaining references
		case kind == KindResourceType:
			err = tx.deleteResources(id)
		default:
			err = tx.unassignEverywhere(kind, id)
		}
		if err == nil && kind == KindComponent {
			err = tx.dropPatches(id)
		}
		return doc, clusters, err
	}
	// Neither deletion protection nor a pin can be lifted in the commit that deletes. The layers in this Tx may differ from those before,
	// so both count.
	stored, exists := tx.base.Get(kind, id)
	if doc.own.cluster.DeletionProtection {
		return nil, 0, doc.own.protectedError()
	}
	if exists && tx.base.configured(stored).cluster.DeletionProtection {
		return nil, 0, tx.base.configured(stored).protectedError()
	}
	if doc.Cluster().Pinned != nil || exists && stored.Cluster().Pinned != nil { // also if this Tx unpins it
		return nil, 0, pinnedError([]string{id})
	}
	if opt.Orphan {
		tx.record(kind, id, nil)
		return doc, 0, nil
	}
	// Finish completes it, since it knows the time.
	tx.record(kind, id, &Document{Record: Record{Kind: kind, ID: id}, value: doc.value, rules: doc.rules, own: doc.own})
	return doc, 0, nil
}
