package knownversions

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
)

// Source is where the versions of a component, or of one of its images, come from.
type Source struct {
	Component string
	Image     string // of image policies; empty: the component itself
	// Identity differs when the versions of a component with this name are other ones: it was deleted and created again, or has another
	// registry.
	Identity string
	Tracked  []string // tags that are kept however old they are
}

// Observation is a version that was pushed or found.
type Observation struct {
	Version string
	Digest  string    // empty: unknown
	Created time.Time // zero: unknown
}

// Store holds the known versions of all components. A [clusterstatus.Tracker] exchanges them with other processes, in one row for each
// component.
type Store struct {
	mu         sync.Mutex
	components map[string]*component
	changed    map[string]bool // since the last call of TakeChanged
}

var _ clusterstatus.ServiceRows = (*Store)(nil)

type component struct {
	entries []*entry // sorted by image and identity
	dirty   bool     // the stored row lacks something
	stored  time.Time
}

// New returns an empty Store.
func New() *Store {
	return &Store{components: map[string]*component{}, changed: map[string]bool{}}
}

// TakeChanged returns the components whose known versions or scans have changed since the last call, sorted.
func (s *Store) TakeChanged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := slices.Sorted(maps.Keys(s.changed))
	clear(s.changed)
	return changed
}

// Push adds versions that a client announced. It reports whether anything is new.
func (s *Store) Push(src Source, now time.Time, found ...Observation) (isNew bool) {
	return s.update(src, func(e *entry) { e.observe(now, found) })
}

// IsNew reports whether a push of a version would add anything.
func (s *Store) IsNew(src Source, o Observation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(src)
	if e == nil {
		return true
	}
	for _, v := range e.Versions {
		if v.Version == o.Version {
			sameDigest := o.Digest == "" || len(v.Digests) > 0 && v.Digests[0].Digest == o.Digest
			return !sameDigest || !o.Created.IsZero() && o.Created.UnixMilli() > v.Created
		}
	}
	return true
}

// RecordScan adds the result of a scan: the versions that are of interest, and the names of those that the source has. Known versions that
// an earlier scan found, and that it does not have any more, count as withdrawn. No names: the source was not read to its end.
func (s *Store) RecordScan(src Source, now time.Time, result Scan, found []Observation, listed []string) {
	s.update(src, func(e *entry) {
		e.Scan = laterScan(e.Scan, result)
		e.observe(now, found)
		if result.Error != "" || listed == nil {
			return
		}
		e.Scan.Complete = max(e.Scan.Complete, result.At)
		names := make(map[string]bool, len(listed))
		for _, name := range listed {
			names[name] = true
		}
		for i := range e.Versions {
			if v := &e.Versions[i]; names[v.Version] {
				v.Listed = max(v.Listed, result.At)
			}
		}
	})
}

// observe adds versions that exist now.
func (e *entry) observe(now time.Time, found []Observation) {
	at := now.UnixMilli()
	for _, o := range found {
		v := Version{Version: strings.Clone(o.Version), FirstSeen: at}
		if !o.Created.IsZero() {
			v.Created = o.Created.UnixMilli()
		}
		if o.Digest != "" {
			v.Digests = []Digest{{Digest: strings.Clone(o.Digest), FirstSeen: at, LastSeen: max(at, e.lastSeen(o)), Created: v.Created}}
		}
		e.add(v)
	}
	e.trim()
}

// lastSeen returns the earliest time at which an observed digest is later than those that are known.
func (e *entry) lastSeen(o Observation) int64 {
	for _, v := range e.Versions {
		if v.Version == o.Version && len(v.Digests) > 0 && v.Digests[0].Digest != o.Digest {
			return v.Digests[0].LastSeen + 1
		}
	}
	return 0
}

// update changes what is known of a source, and reports whether that added more than a later time.
func (s *Store) update(src Source, change func(*entry)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.components[src.Component]
	if c == nil {
		c = &component{}
		s.components[strings.Clone(src.Component)] = c
	}
	e := c.entry(src.Image, src.Identity)
	e.Tracked = slices.Sorted(slices.Values(src.Tracked))
	before := e.clone()
	change(e)
	c.dirty = true
	if e.Scan == before.Scan && sameVersions(e.Versions, before.Versions) {
		return false
	}
	s.changed[src.Component] = true
	return !sameVersions(e.Versions, before.Versions)
}

// sameVersions reports whether two lists are equal, except for the times of the last observations.
func sameVersions(a, b []Version) bool {
	return slices.EqualFunc(a, b, func(a, b Version) bool {
		return a.Version == b.Version && a.FirstSeen == b.FirstSeen && a.Created == b.Created && slices.EqualFunc(a.Digests, b.Digests, func(a, b Digest) bool {
			return a.Digest == b.Digest && a.FirstSeen == b.FirstSeen && a.Created == b.Created
		})
	})
}

func (e *entry) clone() *entry {
	out := *e
	out.Versions = slices.Clone(e.Versions)
	for i := range out.Versions {
		out.Versions[i].Digests = slices.Clone(out.Versions[i].Digests)
	}
	return &out
}

// entry returns the entry of a source, and creates it on first use.
func (c *component) entry(image, identity string) *entry {
	i, found := slices.BinarySearchFunc(c.entries, [2]string{image, identity}, func(e *entry, key [2]string) int {
		return cmp.Or(strings.Compare(e.Image, key[0]), strings.Compare(e.Identity, key[1]))
	})
	if !found {
		c.entries = slices.Insert(c.entries, i, &entry{Image: strings.Clone(image), Identity: strings.Clone(identity)})
	}
	return c.entries[i]
}

// find returns the entry of a source; nil: there is none.
func (s *Store) find(src Source) *entry {
	c := s.components[src.Component]
	if c == nil {
		return nil
	}
	for _, e := range c.entries {
		if e.Image == src.Image && e.Identity == src.Identity {
			return e
		}
	}
	return nil
}

// Known returns the versions of a source, sorted by their text, and the state of its scans.
func (s *Store) Known(src Source) ([]Version, Scan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(src)
	if e == nil {
		return nil, Scan{}
	}
	out := e.clone()
	return out.Versions, out.Scan
}

// Retain forgets what belongs to none of the current sources at two calls in a row. A single one may come from a process that has not
// read the newest commits yet.
func (s *Store) Retain(current func(component string) []Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.components {
		sources := current(id)
		before := len(c.entries)
		c.entries = slices.DeleteFunc(c.entries, func(e *entry) bool {
			used := slices.ContainsFunc(sources, func(src Source) bool { return src.Image == e.Image && src.Identity == e.Identity })
			gone := !used && e.unused
			e.unused = !used
			return gone
		})
		if len(c.entries) < before {
			c.dirty, s.changed[id] = true, true
		}
		if len(c.entries) == 0 && !c.dirty && len(sources) == 0 {
			delete(s.components, id)
		}
	}
}

// MergeRow implements [clusterstatus.ServiceRows].
func (s *Store) MergeRow(r clusterstatus.Row) {
	id := strings.TrimPrefix(r.Subject, clusterstatus.VersionPrefix)
	var read []*entry
	if id == "" || json.Unmarshal([]byte(r.Body), &read) != nil {
		return // it counts as lost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.components[id]
	if c == nil && len(read) == 0 {
		return
	}
	if c == nil {
		c = &component{}
		s.components[strings.Clone(id)] = c
	}
	before := encode(c.entries)
	for _, other := range read {
		if other == nil {
			continue
		}
		c.entry(other.Image, other.Identity).merge(other)
	}
	after := encode(c.entries)
	c.stored = r.ObservedAt
	c.dirty = after != r.Body
	if after != before {
		s.changed[id] = true
	}
}

// PendingRows implements [clusterstatus.ServiceRows].
func (s *Store) PendingRows(now time.Time) []clusterstatus.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []clusterstatus.Row
	for _, id := range slices.Sorted(maps.Keys(s.components)) {
		c := s.components[id]
		if !c.dirty {
			continue
		}
		at := now.Truncate(time.Microsecond)
		if !at.After(c.stored) {
			at = c.stored.Add(time.Microsecond) // the table keeps the row of the later time
		}
		body := encode(c.entries)
		rows = append(rows, clusterstatus.Row{Subject: clusterstatus.VersionPrefix + id, Body: body, ObservedAt: at})
	}
	return rows
}

// MarkWritten implements [clusterstatus.ServiceRows].
func (s *Store) MarkWritten(rows []clusterstatus.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		c := s.components[strings.TrimPrefix(r.Subject, clusterstatus.VersionPrefix)]
		if c == nil {
			continue
		}
		c.stored = r.ObservedAt
		c.dirty = encode(c.entries) != r.Body
	}
}

// Resync implements [clusterstatus.ServiceRows].
func (s *Store) Resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.components {
		c.dirty = true
	}
}

// encode returns the body of a row; equal entries have equal bodies.
func encode(entries []*entry) string {
	if len(entries) == 0 {
		return "[]"
	}
	body, _ := json.Marshal(entries) // it has no types that can fail
	return string(body)
}
