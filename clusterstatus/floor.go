package clusterstatus

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// floorLifetime is how long a floor counts. It is longer than a process usually answers from a copy that the store has not
// confirmed, and short for the case that the history of the store was replaced by one with fewer revisions.
const floorLifetime = time.Minute

// floor is the lowest revision that a list of a cluster may be served from, because another process has served it from there.
type floor struct {
	revision int64
	at       int64 // when it was served, in milliseconds since 1970
}

// maxRevision is the highest floor of all lists. A process at this revision or above skips the lookup of a floor.
type maxRevision struct{ revision atomic.Int64 }

func (h *maxRevision) raise(revision int64) {
	for {
		old := h.revision.Load()
		if revision <= old || h.revision.CompareAndSwap(old, revision) {
			return
		}
	}
}

// ServedNewer reports whether another process has served a list from a newer revision, with another content. A cluster that
// receives the older list after the newer one removes and installs all differences, so its poll has to fail.
func (t *Tracker) ServedNewer(id, list string, revision int64, now time.Time) bool {
	if revision >= t.maxFloor.revision.Load() {
		return false
	}
	return t.lookup(id).servedNewer(list, revision, now) || t.lookup(WithSharedToken(id)).servedNewer(list, revision, now)
}

func (c *cluster) servedNewer(list string, revision int64, now time.Time) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range [...]*listPoll{c.poll(list), c.uncounted.find(list)} {
		if p != nil && revision < p.floor.revision && now.UnixMilli()-p.floor.at < floorLifetime.Milliseconds() {
			return true
		}
	}
	return false
}

// learnFloor sets the floor of a list from the row of a poll that another process served, unless a later poll is known.
func (c *cluster) learnFloor(t *Tracker, s subject, text string, at int64, now time.Time) {
	list := s.key.list.Value()
	p := c.poll(list)
	if s.kind == kindUncounted {
		p = c.uncountedPoll(list)
		p.last = max(p.last, at)
	}
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
