package clusterstatus

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// floorFor is how long the revision that another process served counts. It is longer than a process usually may answer from a copy
// that the store has not confirmed, and short for a store whose history was replaced by one with fewer revisions.
const floorLifetime = time.Minute

// floor is the least revision that a list of a cluster may be served from: another process has served it from there.
type floor struct {
	revision int64
	at       int64 // when it was served, in milliseconds since 1970
}

// highest is the highest floor of all lists, so that a process that is not behind need not look for one.
type maxRevision struct{ revision atomic.Int64 }

func (h *maxRevision) raise(revision int64) {
	for {
		old := h.revision.Load()
		if revision <= old || h.revision.CompareAndSwap(old, revision) {
			return
		}
	}
}

// ServedFrom records the revision that a list was served from when it became another one: see Polled.
func (t *Tracker) RecordRevision(id, list string, revision int64) {
	c := t.cluster(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.poll(list); p != nil && p.revision == 0 {
		p.revision = revision
	}
}

// Behind reports whether another process has served a newer version of a list than that of a revision. A cluster that gets the
// older one after the newer one removes and installs what lies between, so it must get an error.
func (t *Tracker) ServedNewer(id, list string, revision int64, now time.Time) bool {
	if revision >= t.maxFloor.revision.Load() {
		return false
	}
	t.mu.RLock()
	c := t.clusters[id]
	t.mu.RUnlock()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.poll(list)
	return p != nil && revision < p.floor.revision && now.UnixMilli()-p.floor.at < floorLifetime.Milliseconds()
}

// learnFloor takes the floor of a list from the row of a poll. The row that was written last counts.
func (c *cluster) learnFloor(t *Tracker, list, text string, at int64, now time.Time) {
	p := c.poll(list)
	if p == nil || at <= p.floor.at || now.UnixMilli()-at >= floorLifetime.Milliseconds() {
		return
	}
	var body pollBody
	if json.Unmarshal([]byte(text), &body) != nil || body.Revision <= 0 {
		return
	}
	p.floor = floor{body.Revision, at}
	if p.etag == body.ETag {
		p.revision = body.Revision
	}
	t.maxFloor.raise(body.Revision)
}
