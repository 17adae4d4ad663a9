package knownversions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const (
	// MaxVersions are kept of each source: those that were seen last, and of these the highest.
	MaxVersions = 100
	maxTracked  = 50
	maxDigests  = 2 // of a version: the current one, and the one before, by which a moved tag is noticed
)

// Version is a known version or tag. Times are milliseconds since 1970; zero: unknown.
type Version struct {
	Version   string `json:"v"`
	FirstSeen int64  `json:"f"`
	Created   int64  `json:"c,omitempty"`
	// Listed is the time of the last scan that found it; zero: it was pushed only.
	Listed  int64    `json:"l,omitempty"`
	Digests []Digest `json:"d,omitempty"` // the one that was observed last is the first
}

// Digest is what a tag refers or referred to.
type Digest struct {
	Digest    string `json:"d"`
	FirstSeen int64  `json:"f"`
	LastSeen  int64  `json:"l"`
	Created   int64  `json:"c,omitempty"`
}

// Scan is the state of the scans of a source.
type Scan struct {
	At       int64  `json:"at"`                 // of the last attempt; zero: none
	Next     int64  `json:"next,omitempty"`     // the time of the next one
	Attempts int    `json:"attempts,omitempty"` // that failed, since the last success
	Error    string `json:"error,omitempty"`    // of the last attempt
	// Complete is the time of the last scan that succeeded. A version that an earlier scan found, and this one did not, was withdrawn.
	Complete int64 `json:"complete,omitempty"`
}

// entry is what is known of one source.
type entry struct {
	Image    string    `json:"image,omitempty"`
	Identity string    `json:"identity"`
	Tracked  []string  `json:"tracked,omitempty"` // tags that are kept however old they are
	Versions []Version `json:"versions,omitempty"`
	Scan     Scan      `json:"scan,omitzero"`

	unused bool // it was not one of the current sources at the last call of Retain
}

// merge adds what another process knows of the same source.
func (e *entry) merge(other *entry) {
	for _, v := range other.Versions {
		e.add(v)
	}
	e.Scan = laterScan(e.Scan, other.Scan)
	e.Tracked = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(e.Tracked), other.Tracked...))))
	e.Tracked = e.Tracked[:min(len(e.Tracked), maxTracked)]
	e.trim()
}

// add merges one version; trim must follow.
func (e *entry) add(v Version) {
	i, found := slices.BinarySearchFunc(e.Versions, v.Version, func(have Version, name string) int { return strings.Compare(have.Version, name) })
	if !found {
		v.Digests = slices.Clone(v.Digests)
		e.Versions = slices.Insert(e.Versions, i, v)
		return
	}
	e.Versions[i].merge(v)
}

func (v *Version) merge(other Version) {
	v.FirstSeen = min(v.FirstSeen, other.FirstSeen)
	v.Created = max(v.Created, other.Created) // the later one, so that a false one makes nothing earlier
	v.Listed = max(v.Listed, other.Listed)
	for _, d := range other.Digests {
		i := slices.IndexFunc(v.Digests, func(have Digest) bool { return have.Digest == d.Digest })
		if i < 0 {
			v.Digests = append(v.Digests, d)
			continue
		}
		have := &v.Digests[i]
		have.FirstSeen, have.LastSeen, have.Created = min(have.FirstSeen, d.FirstSeen), max(have.LastSeen, d.LastSeen), max(have.Created, d.Created)
	}
	slices.SortFunc(v.Digests, func(a, b Digest) int {
		return cmp.Or(cmp.Compare(b.LastSeen, a.LastSeen), strings.Compare(a.Digest, b.Digest))
	})
	v.Digests = v.Digests[:min(len(v.Digests), maxDigests)]
}

// trim removes all but the newest versions. Versions stay sorted by name.
func (e *entry) trim() {
	if len(e.Versions) <= MaxVersions {
		return
	}
	ranked := slices.Clone(e.Versions)
	slices.SortFunc(ranked, func(a, b Version) int {
		return cmp.Or(
			-compareBool(slices.Contains(e.Tracked, a.Version), slices.Contains(e.Tracked, b.Version)), cmp.Compare(b.FirstSeen, a.FirstSeen), -Compare(a.Version, b.Version),
		)
	})
	ranked = ranked[:MaxVersions]
	slices.SortFunc(ranked, func(a, b Version) int { return strings.Compare(a.Version, b.Version) })
	e.Versions = ranked
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// laterScan returns the state that was written later.
func laterScan(a, b Scan) Scan {
	complete := max(a.Complete, b.Complete)
	if cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Next, b.Next), cmp.Compare(a.Attempts, b.Attempts), strings.Compare(a.Error, b.Error)) < 0 {
		a = b
	}
	a.Complete = complete
	return a
}

// Compare orders versions: those that are not semantic versions first, then by precedence, then by text.
func Compare(a, b string) int {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	if errA != nil || errB != nil {
		return cmp.Or(compareBool(errA == nil, errB == nil), strings.Compare(a, b))
	}
	return cmp.Or(va.Compare(vb), strings.Compare(a, b))
}

// SortHighestFirst sorts versions in the reverse order of Compare.
func SortHighestFirst(versions []Version) {
	slices.SortFunc(versions, func(a, b Version) int { return -Compare(a.Version, b.Version) })
}
