package clusterstatus

import (
	"strings"
	"time"
)

// The tracker keeps two records of a cluster, each with its own rows in the Store: one of the reports with the cluster's own credential,
// and one of the reports with the shared token, which several clusters may have. The second never replaces or completes the first.

// sharedReports is the suffix of the name of a cluster's record of reports with the shared token. Ids of clusters have no slash.
const sharedReports = "/shared"

// WithSharedToken returns the name of the record of a cluster's reports with the shared token.
func WithSharedToken(id string) string { return id + sharedReports }

// clusterOf returns the cluster that the name of a record refers to, and whether the record has the reports with the shared token.
func clusterOf(name string) (id string, shared bool) { return strings.CutSuffix(name, sharedReports) }

// lock returns the locked record that a query is about, and the time of the last poll with a token that is not the cluster's own. It is
// the record of the own credential. If the cluster polls with the shared token, and never polled with its own credential or has missed
// polls with it, it is the record of the shared token.
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
