package fleet

import (
	"slices"
	"strings"
	"time"
)

// keptOn holds the retained installations of a deleted resource type, for clusters where they are equal.
type keptOn struct {
	Installed []installation    `json:"installed"`
	Clusters  map[string]string `json:"clusters"` // DNS names in lower case, by the cluster's id
}

type orphanRecord struct {
	ID        string         `json:"id"` // the DNS name, in lower case
	Installed []installation `json:"installed"`
	// At is the time of that commit, or the newest time of any commit before it. Documents of earlier versions have none.
	At time.Time `json:"at,omitzero"`
	// Incarnation of the cluster that had the name.
	Incarnation int `json:"incarnation,omitempty"`
	// Kept are the installations of a deleted resource type, in the document for that type.
	Kept []keptOn `json:"kept,omitempty"`
}

func isKeptID(id string) bool { return strings.HasPrefix(id, resourcePrefix) }

// desiredInstallations returns the enabled entries of a cluster, of kinds with some documents; nil: of all kinds.
func (s *State) desiredInstallations(cluster *Effective, only map[Kind]map[string]bool) []installation {
	n, skipped := 0, func(a *descriptor) bool { return only != nil && len(only[a.kind]) == 0 }
	for _, a := range s.kinds.lists {
		if !skipped(a) {
			n += a.count(cluster)
		}
	}
	out := make([]installation, 0, n)
	for _, a := range s.kinds.lists {
		if !skipped(a) {
			out = a.appendInstallations(out, s, cluster)
		}
	}
	return out
}

// InstallCount returns the number of enabled entries in a cluster's lists.
func (s *State) InstallCount(d *Document) int {
	n, cluster := 0, s.Effective(d)
	for _, a := range s.kinds.lists {
		for _, enabled := range a.entries(cluster) {
			if enabled {
				n++
			}
		}
	}
	return n
}

// installed returns the installations that Flux would remove if the answer lacked them.
func (s *State) installed(cluster *Effective, only map[Kind]map[string]bool, now time.Time) []installation {
	return slices.DeleteFunc(s.desiredInstallations(cluster, only), func(i installation) bool {
		a := s.kinds.descriptor(i.Kind)
		doc, ok := s.definition(cluster, i.Kind, i.ID)
		return a.kept != nil && (!ok || a.kept(doc, now) && !s.mayHaveHadVariant(cluster, doc, now))
	})
}
