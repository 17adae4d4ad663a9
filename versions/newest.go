package versions

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// tagForm is the form of a tag in the specification of OCI.
var tagForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// versionForm is the form of a version in an index, which may have build metadata.
var versionForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$`)

// newest keeps the highest versions that a source wants, in bounded memory.
type newest struct {
	keep  int
	wants func(version string) bool
	known map[string]bool // false: it was not found yet

	versions []ordered
	listed   int
	invalid  int
	dropped  bool // the list has more versions than were read
}

// ordered is a version with its precedence; nil: it is not a semantic version.
type ordered struct {
	Version

	precedence *semver.Version
}

// newNewest returns an empty list for a source.
func newNewest(source Source, keep int, wants func(string) bool) *newest {
	n := &newest{keep: keep, wants: wants, known: map[string]bool{}}
	for _, v := range source.Known {
		n.known[v.Version] = false
	}
	return n
}

func (n *newest) add(v Version) {
	n.listed++
	if _, ok := n.known[v.Version]; ok {
		n.known[v.Version] = true
	}
	if n.wants == nil || !n.wants(v.Version) {
		return
	}
	precedence, _ := semver.NewVersion(v.Version) // nil for others
	n.versions = append(n.versions, ordered{v, precedence})
	if len(n.versions) >= 2*n.keep {
		n.trim()
	}
}

// trim sorts the versions, and drops duplicates and all but the newest ones.
func (n *newest) trim() {
	slices.SortStableFunc(n.versions, func(a, b ordered) int {
		switch {
		case a.precedence != nil && b.precedence != nil:
			return cmp.Or(b.precedence.Compare(a.precedence), strings.Compare(b.Version.Version, a.Version.Version))
		case a.precedence != nil:
			return -1
		case b.precedence != nil:
			return 1
		}
		return strings.Compare(b.Version.Version, a.Version.Version)
	})
	n.versions = slices.CompactFunc(n.versions, func(a, b ordered) bool { return a.Version.Version == b.Version.Version })
	if len(n.versions) > n.keep {
		clear(n.versions[n.keep:])
		n.versions = n.versions[:n.keep]
	}
}

// present returns the versions that exist, of the list and of the known ones.
func (n *newest) present(list []Version) []string {
	out := make([]string, 0, len(list)+len(n.known))
	for _, v := range list {
		out = append(out, v.Version)
	}
	for version, found := range n.known {
		if found {
			out = append(out, version)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// list returns the versions, highest first.
func (n *newest) list() []Version {
	n.trim()
	out := make([]Version, len(n.versions))
	for i, v := range n.versions {
		out[i] = v.Version
	}
	return out
}
