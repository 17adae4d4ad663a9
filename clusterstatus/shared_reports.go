package clusterstatus

import (
	"strings"
	"time"
)

// Reports with a token that several clusters may have are recorded apart from those with a cluster's own credential, so that they never
// replace or complete these. They have records, and rows in the Store, of their own.

// sharedReports is the end of the name of a cluster's record of reports with the shared token. No id of a cluster has a slash.
const sharedReports = "/shared"

// WithSharedToken returns the name under which receipts and events of a cluster are recorded that were sent with the shared token.
func WithSharedToken(id string) string { return id + sharedReports }

// clusterOf returns the cluster of the name of a record, and whether the record has the reports with the shared token.
func clusterOf(name string) (id string, shared bool) { return strings.CutSuffix(name, sharedReports) }

// lock returns the locked record that a query is about, and the last poll with a token that is not the cluster's own. The record is
// that of the cluster's own credential, unless the cluster never used one or has missed polls with it, and polls with the shared token.
func (t *Tracker) lock(q *Query) (c *cluster, sharedAt int64) {
	shared, own := t.lookup(WithSharedToken(q.Cluster)), t.lookup(q.Cluster)
	if shared != nil {
		shared.mu.Lock()
		shared.reset(q.CreatedAt.UnixMilli())
		sharedAt = shared.seen
		shared.mu.Unlock()
	}
	counts := sharedAt > 0 && !q.OwnCredential
	if own == nil && counts {
		shared.mu.Lock()
		return shared, sharedAt
	}
	own = t.cluster(q.Cluster)
	own.mu.Lock()
	own.reset(q.CreatedAt.UnixMilli())
	if counts && sharedAt > own.seen && own.missedPolls(q) {
		own.mu.Unlock()
		shared.mu.Lock()
		return shared, sharedAt
	}
	return own, max(sharedAt, own.sharedSeen)
}

// missedPolls reports whether the cluster is silent or offline, or has never polled.
func (c *cluster) missedPolls(q *Query) bool {
	return c.seen == 0 || q.Now.Sub(time.UnixMilli(c.seen)) > min(q.OfflineAfter, max(silentIntervals*c.interval, minSilence))
}
