package fleet

import (
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A deleted cluster is decommissioned: a short document remains, which answers its polls with empty lists so that Flux
// uninstalls, until the cluster is orphaned or a live cluster gets its DNS name.

// Decommissioned returns the clusters that were deleted and still answer empty lists, sorted by id.
func (s *State) Decommissioned() []*Document {
	return s.sorted(KindCluster, (*Document).Deleted)
}

// decommissioned returns the remaining content of a deleted cluster: enough to answer its polls with empty lists.
func decommissioned(c *api.Cluster, at string) map[string]any {
	return map[string]any{
		"id": c.ID, "cluster_name": c.ClusterName, "cluster_dns": c.ClusterDNS, "environment": c.Environment,
		"labels": c.Labels, "deleted_at": at,
	}
}

// deletedAt formats the time of a decommissioning for storage.
func deletedAt(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// tombstone returns the document of a cluster that is decommissioned now.
func (tx *Tx) tombstone(doc *Document, now time.Time) (*Document, error) {
	kept := decommissioned(doc.Cluster(), deletedAt(now))
	if n := tx.base.docs[KindCluster][doc.ID].incarnation(); n > 0 {
		kept[incarnationField] = n
	}
	return tx.kinds.compose(KindCluster, doc.ID, nil, kept, nil)
}

// endTombstones removes decommissioned clusters whose DNS name a live cluster gets in this commit.
func (tx *Tx) endTombstones(edits []edit) []edit {
	taken := map[string]string{}
	for _, e := range edits {
		if e.kind == KindCluster && e.doc != nil && !e.doc.Deleted() {
			taken[e.doc.Cluster().ClusterDNS] = e.id
		}
	}
	var kept []edit
	for _, e := range edits {
		if e.kind == KindCluster && e.doc != nil && e.doc.Deleted() && taken[e.doc.Cluster().ClusterDNS] != "" {
			if e.doc = nil; tx.base.docs[e.kind][e.id] == nil {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// endDecommission removes the decommissioned cluster with the DNS name of a new live cluster.
func (tx *Tx) endDecommission(c *api.Cluster) {
	old, ok := tx.base.ByDNS(c.ClusterDNS)
	if ok && old.Deleted() && old.ID != c.ID {
		tx.record(KindCluster, old.ID, nil)
	}
}
