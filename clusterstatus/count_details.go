package clusterstatus

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"
	"unique"
)

// detailsSubject is the subject of the one row with the history of components and clusters. It is not read at each sync, but when it was
// written since.
const detailsSubject = "count-details"

// Limits of the history of components and clusters. It takes 2 MiB at most.
const (
	maxDetailComponents = 50     // in one interval: those with the most clusters
	maxDetailClusters   = 10_000 // within a day
	maxDetailBytes      = 4 << 20
)

// ComponentCount is the number of clusters that are in some states with regard to one component.
type ComponentCount struct {
	ID          string `json:"id"`
	Progressing int32  `json:"progressing,omitempty"`
	Failed      int32  `json:"failed,omitempty"`
}

// CountDetails names what a StateCount counted: the components with clusters that fail or progress, and the clusters that fail or are silent.
type CountDetails struct {
	Components     []ComponentCount
	Failed, Silent []string
}

// detailInterval is the part of an interval that is not about clusters.
type detailInterval struct {
	Components     []ComponentCount `json:"components,omitempty"`      // sorted by id; no other component had such clusters
	MoreComponents bool             `json:"more_components,omitempty"` // except that others may have had
	MoreClusters   bool             `json:"more_clusters,omitempty"`   // clusters without a bit may have failed or been silent
}

// dayBits has one bit for each interval of a day, by the number of the interval modulo CountHistory.
type dayBits [CountHistory / 8]byte

// clusterIntervals are the intervals in which a cluster failed, and in which it was silent.
type clusterIntervals struct{ failed, silent dayBits }

// detailHistory is the history of components, and of clusters that fail or are silent, for the intervals of the countHistory. A cluster
// without such an interval takes no memory. As with the counts, each process adds its intervals to the row that it read, and the
// first of an interval stays.
type detailHistory struct {
	sharedRow
	intervals map[int64]detailInterval // by their beginning, in seconds since 1970
	clusters  map[clusterDigest]clusterIntervals
}

func slotOf(at int64) (index int, bit byte) {
	slot := at / int64(CountInterval.Seconds()) % CountHistory
	return int(slot / 8), 1 << (slot % 8)
}

func (b *dayBits) has(at int64) bool { i, bit := slotOf(at); return b[i]&bit != 0 }
func (b *dayBits) set(at int64)      { i, bit := slotOf(at); b[i] |= bit }

// RecordCountDetails records what the count of the current interval counted, unless the interval is known.
func (t *Tracker) RecordCountDetails(d CountDetails, now time.Time) {
	h := &t.countDetails
	h.mu.Lock()
	defer h.mu.Unlock()
	at := countInterval(now)
	if !h.begin(at, now) {
		return
	}
	var of detailInterval
	of.Components = slices.Clone(d.Components)
	if of.MoreComponents = len(of.Components) > maxDetailComponents; of.MoreComponents {
		slices.SortFunc(of.Components, func(a, b ComponentCount) int {
			return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Progressing, a.Progressing), cmp.Compare(a.ID, b.ID))
		})
		of.Components = slices.Clone(of.Components[:maxDetailComponents])
	}
	slices.SortFunc(of.Components, func(a, b ComponentCount) int { return cmp.Compare(a.ID, b.ID) })
	for _, id := range d.Failed {
		of.MoreClusters = !h.mark(digestOf(id), func(c *clusterIntervals) { c.failed.set(at) }) || of.MoreClusters
	}
	for _, id := range d.Silent {
		of.MoreClusters = !h.mark(digestOf(id), func(c *clusterIntervals) { c.silent.set(at) }) || of.MoreClusters
	}
	h.intervals[at], h.dirty = of, true
}

// begin drops what is older than a day, and reports whether an interval is within the day and not known yet. The caller holds the lock.
func (h *detailHistory) begin(at int64, now time.Time) bool {
	if _, known := h.intervals[at]; known || !acceptsInterval(at, now) {
		return false
	}
	if h.intervals == nil {
		h.intervals, h.clusters = map[int64]detailInterval{}, map[clusterDigest]clusterIntervals{}
	}
	maps.DeleteFunc(h.intervals, func(at int64, _ detailInterval) bool { return outdatedInterval(at, now) })
	var kept dayBits
	for at := range h.intervals {
		kept.set(at)
	}
	for id, c := range h.clusters {
		var marked byte
		for i := range kept {
			c.failed[i] &= kept[i]
			c.silent[i] &= kept[i]
			marked |= c.failed[i] | c.silent[i]
		}
		if h.clusters[id] = c; marked == 0 {
			delete(h.clusters, id)
		}
	}
	return true
}

// mark changes the record of a cluster; not ok if there are too many.
func (h *detailHistory) mark(id clusterDigest, change func(*clusterIntervals)) bool {
	c, known := h.clusters[id]
	if !known && len(h.clusters) >= maxDetailClusters {
		return false
	}
	change(&c)
	h.clusters[id] = c
	return true
}

// ComponentCounts returns the counts of the last day with regard to a component, the oldest first. Intervals without a record are missing.
func (t *Tracker) ComponentCounts(id string, now time.Time) []StateCount {
	return t.detailCounts(now, func(h *detailHistory, of detailInterval, c StateCount) (StateCount, bool) {
		i, listed := slices.BinarySearchFunc(of.Components, id, func(c ComponentCount, id string) int { return cmp.Compare(c.ID, id) })
		if !listed {
			return StateCount{At: c.At, Total: c.Total}, !of.MoreComponents
		}
		return StateCount{At: c.At, Total: c.Total, Progressing: int(of.Components[i].Progressing), Failed: int(of.Components[i].Failed)}, true
	})
}

// ClusterCounts returns whether a cluster failed or was silent in the intervals of the last day, as counts of one cluster, the oldest first.
// Intervals without a record are missing.
func (t *Tracker) ClusterCounts(id string, now time.Time) []StateCount {
	digest := digestOf(id)
	return t.detailCounts(now, func(h *detailHistory, of detailInterval, c StateCount) (StateCount, bool) {
		known := h.clusters[digest]
		out := StateCount{At: c.At, Total: 1}
		if known.failed.has(c.At) {
			out.Failed = 1
		}
		if known.silent.has(c.At) {
			out.Silent = 1
		}
		return out, out.Failed+out.Silent > 0 || !of.MoreClusters
	})
}

func (t *Tracker) detailCounts(now time.Time, count func(*detailHistory, detailInterval, StateCount) (StateCount, bool)) (out []StateCount) {
	counts := t.Counts(now)
	h := &t.countDetails
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range counts {
		if of, known := h.intervals[c.At]; known {
			if one, recorded := count(h, of, c); recorded {
				out = append(out, one)
			}
		}
	}
	return out
}

// detailBody is the JSON body of the row, which is compressed.
type detailBody struct {
	Intervals map[int64]detailInterval `json:"intervals"`
	Clusters  []byte                   `json:"clusters"` // of each cluster its digest, and the bits failed and silent
}

const clusterIntervalBytes = len(clusterDigest{}) + 2*len(dayBits{})

// merge adds the intervals of a stored row. A row that cannot be read is replaced.
func (h *detailHistory) merge(r Row, now time.Time) {
	row := decodeDetails(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(row.Intervals)) {
		if !h.begin(at, now) {
			continue
		}
		of := row.Intervals[at]
		for i := range of.Components {
			of.Components[i].ID = unique.Make(of.Components[i].ID).Value() // most intervals have the same
		}
		for chunk := range slices.Chunk(row.Clusters, clusterIntervalBytes) {
			id, c := splitClusterIntervals(chunk)
			if !c.failed.has(at) && !c.silent.has(at) {
				continue
			}
			of.MoreClusters = !h.mark(id, func(mine *clusterIntervals) {
				if c.failed.has(at) {
					mine.failed.set(at)
				}
				if c.silent.has(at) {
					mine.silent.set(at)
				}
			}) || of.MoreClusters
		}
		h.intervals[at] = of
	}
	h.dirty, h.writtenAt = false, r.ObservedAt
	for at := range h.intervals {
		if _, stored := row.Intervals[at]; !stored {
			h.dirty = true
		}
	}
}

func splitClusterIntervals(chunk []byte) (id clusterDigest, c clusterIntervals) {
	n := copy(id[:], chunk)
	n += copy(c.failed[:], chunk[n:])
	copy(c.silent[:], chunk[n:])
	return id, c
}

// decodeDetails returns the content of a row; empty if it cannot be read, or is larger than any that is written.
func decodeDetails(body string) (row detailBody) {
	packed, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil {
		return detailBody{}
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxDetailBytes))
	if err != nil || json.Unmarshal(text, &row) != nil || len(row.Clusters)%clusterIntervalBytes != 0 {
		return detailBody{}
	}
	maps.DeleteFunc(row.Intervals, func(at int64, of detailInterval) bool {
		return at%int64(CountInterval.Seconds()) != 0 || len(of.Components) > maxDetailComponents ||
			!slices.IsSortedFunc(of.Components, func(a, b ComponentCount) int { return cmp.Compare(a.ID, b.ID) })
	})
	return row
}

// encode returns the row to be stored; not ok when the Store has it already.
func (h *detailHistory) encode(now time.Time) (Row, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return Row{}, false
	}
	row := detailBody{Intervals: h.intervals, Clusters: make([]byte, 0, len(h.clusters)*clusterIntervalBytes)}
	for _, id := range slices.SortedFunc(maps.Keys(h.clusters), func(a, b clusterDigest) int { return bytes.Compare(a[:], b[:]) }) {
		c := h.clusters[id]
		row.Clusters = append(append(append(row.Clusters, id[:]...), c.failed[:]...), c.silent[:]...)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return Row{}, false
	}
	var packed bytes.Buffer
	out, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = out.Write(text)
	}
	if err == nil {
		err = out.Close()
	}
	return h.row(detailsSubject, base64.RawStdEncoding.EncodeToString(packed.Bytes()), now), err == nil
}

// resync is called when the Store may have lost the row.
func (h *detailHistory) resync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirty = len(h.intervals) > 0
}
