package fleet

import (
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// KindForgotten is the kind of documents that remember, by its DNS name, what is installed on a cluster whose polls are
// answered with 404: Flux keeps that. Should the name be registered again, with less, it is uninstalled then. They are
// as internal as the budget, but for the history, which shows them.
const KindOrphan Kind = "forgotten"

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
	// At is when that was, or the newest time of any commit before. Those of earlier versions have none.
	At time.Time `json:"at,omitzero"`
	// Incarnation is that of the cluster which had the name.
	Incarnation int `json:"incarnation,omitempty"`
	// Kept is what clusters have of a deleted resource type, in the document of that.
	Kept []keptOn `json:"kept,omitempty"`
}

// forgottenFor is how long a name is remembered: clusters that live for a day, each with a name of its own, would otherwise
// leave one each for ever.
const orphanRetention = 90 * 24 * time.Hour

// maxExpired is how many names one commit ends at most.
const maxExpired = 100

// internal tells whether a kind is no part of what clusters get.
func isInternal(kind Kind) bool {
	return kind == KindToken || kind == KindBudget || kind == KindOrphan
}

// installation is one thing that Flux has on a cluster because of us, and would remove if it was no longer told of it.
type installation struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	deployment
	// Identity is what the objects of a resource type's input are named after, in what is stored of orphaned clusters.
	Identity string `json:"identity,omitempty"`
}

// deployment is what Flux knows an installed component by: when it changes, Flux uninstalls what is there and installs
// anew, or removes what the new source does not have.
type deployment struct {
	Type      string `json:"type,omitempty"`
	Release   string `json:"release,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Path      string `json:"path,omitempty"`
	URL       string `json:"url,omitempty"`
}

// forgets are the edits that remember what is installed under names that are no longer answered, and that end this for
// names that are answered again.
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

// expired are the edits that end names which were forgotten long ago. A commit before this one has to say that it was: a
// name that ends is no longer guarded, and that is not for a single clock to decide.
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

// installedUnder is what Flux has installed on the cluster that polls by a name.
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

func lowerName(c *api.Cluster) string { return lowerASCII(c.ClusterDNS) }
