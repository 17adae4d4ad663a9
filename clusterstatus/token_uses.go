package clusterstatus

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	tokenUsesSubject    = "token-uses"
	tokenUseInterval    = time.Hour // between two times that are recorded for a token
	tokenUseWriteFactor = 10        // the row is written less often than the last poll of a cluster, by this factor
	maxTokenUses        = 10_000    // a further one replaces the one that was used least recently
)

// tokenUses are the last uses of tokens that are not those of a cluster, by the ids of the tokens, in seconds since 1970. All are in one row
// of the Store: each process adds its own to the row that it read. It is not read at each sync, but when it was written since.
type tokenUses struct {
	sharedRow
	last map[string]int64
}

// RecordTokenUse records that a token was used, once in tokenUseInterval.
func (t *Tracker) RecordTokenUse(id string, now time.Time) {
	u := &t.tokenUses
	u.mu.RLock()
	recent := now.Unix()-u.last[id] < int64(tokenUseInterval.Seconds())
	u.mu.RUnlock()
	if recent {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(strings.Clone(id), now.Unix())
	u.dirty = true
}

// LastTokenUse returns the last recorded use of a token; the zero time: there is none.
func (t *Tracker) LastTokenUse(id string) time.Time {
	t.tokenUses.mu.RLock()
	defer t.tokenUses.mu.RUnlock()
	if at := t.tokenUses.last[id]; at > 0 {
		return time.Unix(at, 0).UTC()
	}
	return time.Time{}
}

// LastOwnPoll returns the last poll of a cluster with a credential of its own; the zero time: there is none.
func (t *Tracker) LastOwnPoll(cluster string) time.Time {
	c := t.lookup(cluster)
	if c == nil {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.seen).UTC()
}

// add keeps the later use of a token. The caller holds the lock.
func (u *tokenUses) add(id string, at int64) {
	if u.last == nil {
		u.last = map[string]int64{}
	}
	u.last[id] = max(u.last[id], at)
	if len(u.last) <= maxTokenUses {
		return
	}
	oldest := id
	for other, at := range u.last {
		if at < u.last[oldest] {
			oldest = other
		}
	}
	delete(u.last, oldest)
}

// merge adds the uses of a stored row. Those of a process whose clock is ahead count as uses now. A row that cannot be read is replaced.
func (u *tokenUses) merge(r Row, now time.Time) {
	stored := map[string]int64{}
	if json.Unmarshal([]byte(r.Body), &stored) != nil || len(stored) > maxTokenUses {
		stored = nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, at := range stored {
		u.add(id, min(at, now.Unix()))
	}
	u.dirty, u.writtenAt = false, r.ObservedAt
	for id, at := range u.last {
		u.dirty = u.dirty || at > stored[id]
	}
}

// encode returns the row to be stored; not ok when the Store has it already, or a row that is younger than age.
func (u *tokenUses) encode(now time.Time, age time.Duration) (Row, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if !u.dirty || now.Sub(u.writtenAt).Abs() < age {
		return Row{}, false
	}
	body, err := json.Marshal(u.last)
	return u.row(tokenUsesSubject, string(body), now), err == nil
}

// markWritten is called with the body of the row, since uses may have been recorded during the write.
func (u *tokenUses) markWritten(r Row) {
	u.merge(r, r.ObservedAt)
}

// resync is called when the Store may have lost the row.
func (u *tokenUses) resync() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dirty, u.writtenAt = len(u.last) > 0, time.Time{}
}
