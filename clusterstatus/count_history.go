package clusterstatus

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

const countsSubject = "counts" // the subject of the one row with the history of counts

// CountInterval is the time between two counts of clusters by state, and CountHistory the number of counts that are kept: a day.
const (
	CountInterval = 5 * time.Minute
	CountHistory  = 288
)

// StateCount is the number of clusters in some states at one time.
type StateCount struct {
	At          int64 `json:"at"` // beginning of the interval, in seconds since 1970
	Total       int   `json:"total"`
	Progressing int   `json:"progressing,omitempty"`
	Failed      int   `json:"failed,omitempty"`
	Silent      int   `json:"silent,omitempty"`
}

// countHistory has the counts of the last day. All are in one row of the Store: each process adds its own to the row that it read, and the
// first count of an interval stays.
type countHistory struct {
	sharedRow
	counts map[int64]StateCount // by At
}

// interval returns the beginning of the interval of a time, in seconds since 1970.
func countInterval(t time.Time) int64 { return t.Truncate(CountInterval).Unix() }

// CountDue reports whether no process has counted the clusters in the current interval, as far as this one knows.
func (t *Tracker) CountDue(now time.Time) bool {
	h := &t.counts
	h.mu.Lock()
	defer h.mu.Unlock()
	_, counted := h.counts[countInterval(now)]
	return !counted
}

// RecordCount records a count of the current interval, unless there is one.
func (t *Tracker) RecordCount(c StateCount, now time.Time) {
	c.At = countInterval(now)
	h := &t.counts
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.add(c, now) {
		h.dirty = true
	}
}

// Counts returns the counts of the last day, the oldest first. Intervals in which no process counted are missing.
func (t *Tracker) Counts(now time.Time) []StateCount {
	h := &t.counts
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []StateCount
	for _, at := range slices.Sorted(maps.Keys(h.counts)) {
		if at > countInterval(now)-CountHistory*int64(CountInterval.Seconds()) && at <= countInterval(now) {
			out = append(out, h.counts[at])
		}
	}
	return out
}

// acceptsInterval reports whether at begins an interval of the last day; clocks may differ by one.
func acceptsInterval(at int64, now time.Time) bool {
	const length = int64(CountInterval / time.Second)
	return !outdatedInterval(at, now) && at <= countInterval(now)+length && at%length == 0
}

// outdatedInterval reports whether an interval began more than a day ago.
func outdatedInterval(at int64, now time.Time) bool {
	return at <= countInterval(now)-CountHistory*int64(CountInterval/time.Second)
}

// add adds a count of the last day, unless there is one of its interval. The caller holds the lock.
func (h *countHistory) add(c StateCount, now time.Time) bool {
	maps.DeleteFunc(h.counts, func(at int64, _ StateCount) bool { return outdatedInterval(at, now) })
	if _, known := h.counts[c.At]; known || !acceptsInterval(c.At, now) {
		return false
	}
	if h.counts == nil {
		h.counts = map[int64]StateCount{}
	}
	h.counts[c.At] = c
	return true
}

// merge adds the counts of a stored row. A row that cannot be read is replaced.
func (h *countHistory) merge(r Row, now time.Time) {
	var row []StateCount
	_ = json.Unmarshal([]byte(r.Body), &row)
	h.mu.Lock()
	defer h.mu.Unlock()
	stored := map[int64]bool{}
	for _, c := range row {
		stored[c.At] = true
		h.add(c, now)
	}
	h.dirty, h.writtenAt = false, r.ObservedAt
	for at := range h.counts {
		h.dirty = h.dirty || !stored[at]
	}
}

// encode returns the row to be stored; not ok when the Store has it already.
func (h *countHistory) encode(now time.Time) (Row, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return Row{}, false
	}
	all := []StateCount{}
	for _, at := range slices.Sorted(maps.Keys(h.counts)) {
		all = append(all, h.counts[at])
	}
	body, err := json.Marshal(all)
	return h.row(countsSubject, string(body), now), err == nil
}
