package clusterstatus

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

const (
	filtersSubject      = "filters"           // the subject of the one row with all filters
	filterLifetime      = 90 * 24 * time.Hour // since its last poll
	filterWriteInterval = time.Hour           // between two writes of the time of a filter's last poll
	maxFilters          = 200                 // a further one replaces the one that was polled least recently
	maxFilterBytes      = 4 << 10
)

// filters are those by which management clusters poll the list of clusters. All are in one row of the Store: each process adds
// its own to the row that it read.
type filters struct {
	sharedRow
	known map[string]*filter
}

type filter struct {
	Environment string `json:"environment,omitempty"`
	Selector    string `json:"selector,omitempty"`
	At          int64  `json:"at"` // last poll, in milliseconds since 1970
	parsed      fleet.ClusterFilter
}

// RecordFilter records that a management cluster polled a filtered list of clusters.
func (t *Tracker) RecordFilter(environment, selector string, now time.Time) {
	if len(environment)+len(selector) > maxFilterBytes {
		return
	}
	t.filters.add(&filter{Environment: strings.Clone(environment), Selector: strings.Clone(selector), At: now.UnixMilli()})
}

// Filters returns the filters by which the list of clusters was polled within filterLifetime.
func (t *Tracker) Filters() fleet.ClusterFilters {
	f := &t.filters
	f.mu.Lock()
	defer f.mu.Unlock()
	out := fleet.ClusterFilters{Unknown: !t.complete.Load()}
	for _, key := range slices.Sorted(maps.Keys(f.known)) {
		out.Filters = append(out.Filters, f.known[key].parsed)
	}
	return out
}

func (f *filters) add(one *filter) {
	parsed, err := fleet.ParseClusterFilter(one.Environment, one.Selector)
	key := ""
	if err == nil {
		key = parsed.String()
	}
	if key == "" {
		return // the whole list, or an invalid filter
	}
	one.parsed = parsed
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.known[key]; old != nil {
		if one.At-old.At >= filterWriteInterval.Milliseconds() {
			f.dirty = true
			old.At = one.At
		}
		return
	}
	if f.known == nil {
		f.known = map[string]*filter{}
	}
	f.known[key], f.dirty = one, true
	for len(f.known) > maxFilters {
		oldest := key
		for other, k := range f.known {
			if k.At < f.known[oldest].At {
				oldest = other
			}
		}
		delete(f.known, oldest)
	}
}

// merge adds the filters of a stored row.
func (f *filters) merge(r Row) {
	var row []*filter
	if json.Unmarshal([]byte(r.Body), &row) != nil {
		return
	}
	has := map[string]int64{}
	for _, one := range row {
		if one == nil {
			continue
		}
		has[one.Environment+"\x00"+one.Selector] = one.At
		f.add(one)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty, f.writtenAt = false, r.ObservedAt
	for _, one := range f.known {
		at, there := has[one.Environment+"\x00"+one.Selector]
		f.dirty = f.dirty || !there || one.At-at >= filterWriteInterval.Milliseconds()
	}
}

// encode returns the row to be stored; not ok when the Store has it already.
func (f *filters) encode(now time.Time) (Row, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.known {
		if now.UnixMilli()-one.At > filterLifetime.Milliseconds() {
			delete(f.known, key)
			f.dirty = true
		}
	}
	if !f.dirty {
		return Row{}, false
	}
	all := []*filter{}
	for _, key := range slices.Sorted(maps.Keys(f.known)) {
		all = append(all, f.known[key])
	}
	body, err := json.Marshal(all)
	return f.row(filtersSubject, string(body), now), err == nil
}
