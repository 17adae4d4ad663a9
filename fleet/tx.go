package fleet

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Tx collects edits to a State, and reads its own edits. It changes no other value; Finish returns the resulting State.
type Tx struct {
	base          *State
	kinds         *kindSet             // with the resource types after the edits
	edits         map[docKey]*Document // nil: deleted
	guard         Guard
	scope         *scope        // nil: the principal has no access documents that limit the change
	withoutAdmin  bool          // see [Tx.RefuseAdminKinds]
	force         bool          // overwrite patches that named managers own
	seed          Seed          // the seed that the documents come from, if any
	shared        *sharedFields // of the clusters that it creates and changes
	work          work
	filters       ClusterFilters
	notesMu       sync.Mutex
	notes         []string // further warnings
	unassigned    []unassigned
	removedValues map[string]map[string]bool // by component and path; true: a cluster or a layer had a value there
	layers        *layerResolution           // with the edits of the Tx
	layersEdited  bool                       // a layer differs from the base
	byLabel       labelIndex
	// recalled are former versions that documents are restored to; they were valid then.
	recalled map[docKey]*Document
	// created are the documents that the Tx creates under the id of a stored one, which may be deleted.
	created map[docKey]bool
	// beforeFinish makes the last edits, which depend on the commit; nil: there are none.
	beforeFinish func(Commit) error

	requested          []doneOperation // what it was asked for
	changedByOperation map[docKey]bool // documents that the current operation of a batch changed; nil: it is no batch
	nested             int             // more than 0: in the middle of one of them

	// What [Tx.updateVersionRecords] needs to know of the edits.
	versionHolds  []requestedHold
	holdsChanged  map[string]bool // components whose holds a request itself changes
	abortedByHold map[string]bool // rollouts
	reverts       bool            // the Tx reverts or restores
	redoes        bool            // one of its reverts makes a change again

	source    string          // the source that makes the change; empty: none does
	foreign   []foreignChange // of documents that other sources manage
	completed map[docKey]bool // documents to which the completion of a rollout wrote its change
	suspended map[string]bool // sources that the restore or revert suspends

	completedRollouts []string

	approvers  func(*State, Principal) (bool, Rights) // see [Tx.Approvers]
	onBehalfOf []Principal
}

// unassigned is a definition that the Tx removes from the list of a cluster.
type unassigned struct {
	cluster string
	list    *descriptor
	id      string
}

// Result is the result of a Tx.
type Result struct {
	Commit   Commit // with its revision and changes; without changes there is nothing to commit
	State    *State // after the commit
	Warnings []string
	// PolicyWarnings are those of Warnings about policies.
	PolicyWarnings []string
	// Stored is the number of problems in the checked documents that were stored before, and so do not refuse the change.
	Stored       int
	base         *State
	layerChanges []layerChange // clusters that layers or pins change
	removals     removals
	objects      *objectChanges
	work         work
	filters      ClusterFilters
	redoes       bool   // a revert makes a change again
	source       string // that makes the change; empty: none does
	// approval returns the approval of the change; an empty hash is computed.
	approval func(planHash string) (approvalUse, error)
	// changedClusters are the numbers of changed clusters for [budgetEntry.Clusters].
	changedClusters map[string]int
}

// Base returns the State before the commit.
func (r Result) Base() *State { return r.base }

// ClusterFilter selects the clusters of one filtered list of clusters. Management clusters provision from such lists: they
// may delete a cluster that leaves one.
type ClusterFilter struct {
	Environment string // empty: every one
	Selector    Selector
}

// ClusterFilters are the filters of the lists of clusters that are polled.
type ClusterFilters struct {
	Filters []ClusterFilter
	// Unknown: there may be other filters that are not known yet. Each cluster whose labels or environment change may leave
	// one of them.
	Unknown bool
}

// Guard limits the removals of a change.
type Guard struct {
	// PlanHash of a reviewed plan: the change is made only if its effect still equals that plan.
	PlanHash string
	// Careful refuses any removal from clusters of a protected environment that RemovesFrom does not name.
	Careful bool
	// RemovesFrom are the protected environments that a careful change may remove from.
	RemovesFrom []string
	// OverrideSources are the ids of the sources whose documents the change may change; it then requires a reason.
	OverrideSources []string
	// Keep refuses any removal from clusters.
	Keep bool
	// OverrideFreezes are the ids of the freezes that the change may ignore; it then requires a reason.
	OverrideFreezes []string
	// OverridePolicies are the ids of the policies that may not refuse the change; it then requires a reason and the right to do so.
	OverridePolicies []string
	// proposed: the change is stored as a rollout in place of being made, so freezes do not forbid it yet.
	proposed bool
	// Off disables the guard; for plans, which commit no change.
	Off bool
}

// removals are the installations that a change makes Flux uninstall, on all clusters.
type removals struct {
	count         int                           // including one for each cluster that leaves without any uninstallation
	leaving       int                           // number of these clusters
	unlisted      int                           // clusters that leave a filtered list of clusters without any uninstallation
	moving        int                           // clusters that leave a protected environment without any uninstallation
	byName        map[string][]installation     // by the DNS name of the cluster
	namespaces    map[string]int                // deleted with all their content: number of clusters, by name
	protected     map[string]protectedCluster   // clusters with deletion_protection, by id
	byEnvironment map[string]*api.ProtectedLoss // removals from protected environments, by name
	warnings      []string                      // about clusters that leave a list or an environment
	mustConfirm   []string                      // reasons that require confirmation, however few the removals
}

// protectedCluster is a cluster with deletion_protection, and the ids that would be removed from it.
type protectedCluster struct {
	cluster *Effective
	leaving []string
}

// scope holds the access documents of a principal that may still permit a change. Each check removes documents; each document that
// remains permits the whole change.
type scope struct {
	rights  Rights
	grants  []grant
	visible *State // see [Tx.visibleBase]
}

// grant is an access document that may permit a change.
type grant struct {
	*access
	planned bool // it permits only the plan of the change
}

// labelIndex holds the ids of the clusters of a Tx by label and value, so that a batch with thousands of selectors need not
// match each selector with each cluster. A label is indexed when a selector first requires values of it.
type labelIndex map[string]map[string]map[string]bool

// doneOperation is an operation that a Tx has run.
type doneOperation struct {
	api.RevisionOperation
	// changed are the documents that the operation changed, rest those that it was applied to without a change. Both are
	// empty for an operation on one document. They are keys, because the versions between two operations of a batch would
	// fill the memory.
	changed, rest []docKey
}

// Seed is a set of documents to initialize a fleet, from a seed file or the database of another program.
type Seed []SeedDocument

// SeedDocument is one document of a seed; At is its place, for messages. Kind and ID are known after reading.
type SeedDocument struct {
	Kind Kind
	ID   string
	At   string

	// A seed may contain 10,000 clusters, so each is parsed in its turn, and the parsed form is dropped when its document
	// exists.
	text  jsontext.Text
	obj   map[string]any // the parsed form, if it is parsed already
	doc   *Document
	under *Rules // the rules under which the whole seed was found valid
}

// foreignChange is a change of a managed document that its source does not make.
type foreignChange struct {
	key docKey
	by  manager
}

// requestedHold is a hold that a person requests.
type requestedHold struct {
	component string
	VersionHold
}

// Begin starts a Tx on the State.
func (s *State) Begin() *Tx {
	tx := &Tx{base: s, kinds: s.kinds, edits: map[docKey]*Document{}, shared: newSharedFields(), removedValues: map[string]map[string]bool{}, work: s.newWork(context.Background())}
	var layers []*Document
	if s.layers != nil {
		layers = s.layers.ascending
	}
	tx.layers = newLayers(layers, s.rollouts)
	return tx
}

// note adds a warning to the result.
func (tx *Tx) note(format string, args ...any) {
	tx.notesMu.Lock()
	defer tx.notesMu.Unlock()
	if note := fmt.Sprintf(format, args...); !slices.Contains(tx.notes, note) {
		tx.notes = append(tx.notes, note)
	}
}

// sortedNotes returns the warnings in an order that does not depend on the edits, which run on many clusters concurrently.
func (tx *Tx) sortedNotes() []string { return slices.Sorted(slices.Values(tx.notes)) }

// Base returns the State that the Tx was begun on.
func (tx *Tx) Base() *State { return tx.base }

// Get returns a document with the edits of the Tx.
func (tx *Tx) Get(kind Kind, id string) (*Document, error) {
	doc := tx.raw(kind, id)
	if doc == nil || doc.Deleted() || tx.kinds.byName[kind] == nil {
		return nil, tx.notFound(kind, id)
	}
	return doc, nil
}

func (tx *Tx) notFound(kind Kind, id string) *Error { return tx.kinds.notFound(kind, id) }

// recordValue records a document that the service itself writes.
func (tx *Tx) recordValue(kind Kind, id string, value any) (*Document, error) {
	doc, err := tx.kinds.newRecord(kind, id, value)
	if err == nil {
		tx.record(kind, id, doc)
	}
	return doc, err
}

// recordUnlessSame is recordValue if the document differs.
func (tx *Tx) recordUnlessSame(kind Kind, id string, value any) error {
	doc, err := tx.kinds.newRecord(kind, id, value)
	if err != nil {
		return err
	}
	if was := tx.raw(kind, id); was == nil || !bytes.Equal(was.Body, doc.Body) {
		tx.record(kind, id, doc)
	}
	return nil
}

// record records an edit; a nil document deletes. Every edit goes through this function.
func (tx *Tx) record(kind Kind, id string, doc *Document) {
	was := tx.raw(kind, id)
	if tx.changedByOperation != nil && (was == nil || doc == nil || !bytes.Equal(was.Body, doc.Body)) {
		tx.changedByOperation[docKey{kind, id}] = true
	}
	if kind == KindCluster {
		tx.byLabel.update(was, doc)
	}
	tx.edits[docKey{kind, id}] = doc
	if kind == KindResourceType {
		tx.kinds = tx.kinds.withType(id, doc)
	}
	if kind == KindLayer {
		tx.recomputeLayers()
	}
}

// descriptor returns a kind of definition with the edits of the Tx. If the Tx deleted its type it returns the kind before
// that, so that the remaining entries on clusters can still be removed. Nil if there is none.
func (tx *Tx) descriptor(kind Kind) *descriptor {
	return cmp.Or(tx.kinds.descriptor(kind), tx.base.kinds.descriptor(kind))
}

// raw returns a document with the edits of the Tx, also a decommissioned cluster; nil if there is none.
func (tx *Tx) raw(kind Kind, id string) *Document {
	if doc, edited := tx.edits[docKey{kind, id}]; edited {
		return doc
	}
	return tx.base.docs[kind][id]
}

// each visits the documents of a kind, with the edits of the Tx.
func (tx *Tx) each(kind Kind, visit func(*Document)) {
	for id, doc := range tx.base.docs[kind] {
		if _, edited := tx.edits[docKey{kind, id}]; !edited {
			visit(doc)
		}
	}
	for key, doc := range tx.edits {
		if doc != nil && !pendingTombstone(doc) && key.kind == kind {
			visit(doc)
		}
	}
}

// update applies an edit of a cluster. Both versions may be nil.
func (x labelIndex) update(before, after *Document) {
	for label, values := range x {
		if before != nil {
			if value, ok := (clusterLabels{before.Cluster()}).Lookup(label); ok {
				delete(values[value], before.ID)
			}
		}
		if after == nil {
			continue
		}
		if value, ok := (clusterLabels{after.Cluster()}).Lookup(label); ok {
			if values[value] == nil {
				values[value] = map[string]bool{}
			}
			values[value][after.ID] = true
		}
	}
}

// recomputeLayers applies an edit of a layer.
func (tx *Tx) recomputeLayers() {
	layers := map[string]*Document{}
	tx.each(KindLayer, func(d *Document) { layers[d.ID] = d })
	tx.layers, tx.layersEdited = newLayers(sortByPriority(layers), tx.base.rollouts), true
}

// UseContext lets the work on the Tx, its plan included, end with ctx. The error is then the cause of ctx's end.
func (tx *Tx) UseContext(ctx context.Context) { tx.work = tx.base.newWork(ctx) }

// ReadsEverything reports whether the principal may read the whole fleet, so that the change may use the history of any document.
func (tx *Tx) ReadsEverything() bool { return tx.scope == nil || tx.scope.rights.Everywhere(RightRead) }

// RefuseAdminKinds makes operations on documents that only admins may change fail with CodeOutOfScope, also if they change nothing.
func (tx *Tx) RefuseAdminKinds() { tx.withoutAdmin = true }

// checkAdminKind refuses a change of a document that only admins may change.
func (tx *Tx) checkAdminKind(kind Kind) error {
	use := tx.kinds.useOf(kind)
	switch {
	case !tx.withoutAdmin || !use.forAdmins():
		return nil
	case !use.policies:
		return errorf(CodeOutOfScope, "changes of access documents, webhooks and sources need the role or the right admin")
	case tx.scope == nil || !tx.scope.rights.Everywhere(RightPolicy):
		return errorf(CodeOutOfScope, "changes of policies need the role or the right admin, or the right %s", RightPolicy)
	}
	return nil
}
