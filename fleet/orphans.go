package fleet

import (
	"sync"
	"time"
)

var orphanKind = kindRules{
	name:      KindOrphan,
	noun:      "forgotten cluster",
	empty:     func() any { return new(orphanRecord) },
	normalize: func(map[string]any) {},
	check:     func(*checker, *Document) {},
	bound:     func(any) int { return 0 },
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

// orphanRetention is the time for which a name is recorded: clusters that live for a day, each with a name of its own, would
// otherwise leave one document each forever.
const orphanRetention = 90 * 24 * time.Hour

// maxExpired is the maximum number of records that one commit ends.
const maxExpired = 100

// orphanEdits returns the edits that record the installations under names that are no longer answered, and that end the
// records of names that are answered again.
func (r Result) orphanEdits(affectedNames []affected) ([]edit, error) {
	var edits []edit
	kept := sync.OnceValue(r.keptNow)
	for _, a := range affectedNames {
		switch {
		case a.after != nil && r.base.docs[KindOrphan][a.name] != nil:
			edits = append(edits, edit{KindOrphan, a.name, nil})
		case a.after == nil && a.before != nil && !a.before.Deleted():
			installed := append(r.base.identified(a.before, r.base.installed(a.before, r.Commit.At)), kept()[a.name]...)
			doc, err := r.base.kinds.newRecord(KindOrphan, a.name, orphanRecord{
				ID: a.name, Installed: installed, At: later(r.Commit.At, r.base.newest),
				Incarnation: r.base.docs[KindCluster][a.before.id].incarnation(),
			})
			if err != nil {
				return nil, err
			}
			edits = append(edits, edit{KindOrphan, a.name, doc})
		}
	}
	types, err := r.deletedTypes()
	return append(append(edits, types...), r.expiredOrphans(affectedNames)...), err
}

// expiredOrphans returns the edits that end old records. The time of an earlier commit must confirm their age: an ended
// record no longer guards its name, and a single wrong clock must not cause that.
func (r Result) expiredOrphans(affectedNames []affected) []edit {
	now := r.Commit.At
	if r.base.at.Before(now) {
		now = r.base.at
	}
	here := map[string]bool{}
	for _, a := range affectedNames {
		here[a.name] = true
	}
	var old []*Document
	for name, doc := range r.base.docs[KindOrphan] {
		at := doc.value.(*orphanRecord).At
		if at.IsZero() {
			at = doc.UpdatedAt
		}
		if !here[name] && !isKeptID(name) && now.Sub(at) >= orphanRetention {
			old = append(old, doc)
		}
	}
	sortDocuments(old)
	var edits []edit
	for _, doc := range old[:min(len(old), maxExpired)] {
		edits = append(edits, edit{KindOrphan, doc.ID, nil})
	}
	return edits
}

// installedBefore returns the installations on the cluster that polls by a name.
func (r Result) installedBefore(a affected) []installation {
	if a.before != nil {
		if a.before.Deleted() {
			return a.kept
		}
		return append(r.base.installed(a.before, r.Commit.At), a.kept...)
	}
	if doc := r.base.docs[KindOrphan][a.name]; doc != nil {
		return doc.value.(*orphanRecord).Installed
	}
	return nil
}
