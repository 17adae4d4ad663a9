package fleet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

var orphanKind = recordKind(KindOrphan, "forgotten cluster", func() any { return new(orphanRecord) })

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
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		switch {
		case a.after != nil && r.base.docs[KindOrphan][a.name] != nil:
			edits = append(edits, edit{KindOrphan, a.name, nil})
		case a.after == nil && a.before != nil && !a.before.Deleted():
			installed := append(r.identified(a.before, r.base.installed(a.before, nil, r.Commit.At)), kept()[a.name]...)
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

// recordRemovals adds to a commit the records that later commits need: removals without confirmation, changed clusters, and installations
// under names that are no longer answered.
func (r Result) recordRemovals(affectedNames []affected, confirmed bool, used []edit) (Result, error) {
	edits, err := r.orphanEdits(affectedNames)
	if err = cmp.Or(err, r.work.stopped()); err != nil {
		return r, err // the objects of an identity may be missing
	}
	unconfirmed := r.removals.count
	if confirmed {
		unconfirmed = 0
	}
	budget, err := r.base.charge(r.Commit, unconfirmed, r.changedClusters)
	if err != nil {
		return r, err
	}
	edits = append(used, edits...)
	if budget != nil {
		edits = append([]edit{{KindBudget, budgetID, budget}}, edits...)
	}
	if len(edits) == 0 {
		return r, nil
	}
	changes := changesOf(r.base, edits)
	r.Commit.Changes = append(r.Commit.Changes, changes...)
	slices.SortFunc(r.Commit.Changes, func(a, b Change) int {
		return strings.Compare(string(a.Kind)+"/"+a.ID, string(b.Kind)+"/"+b.ID)
	})
	r.State, err = r.State.with(r.Commit, edits, true)
	return r, err
}
