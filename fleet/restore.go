package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// restore restores documents to a former revision, patch owners included.
func (b *Batch) restore(op api.Operation) ([]*Document, error) {
	base := b.tx.base.Revision()
	rev := Revision(op.Revision)
	kind, err := b.tx.kindOf(op)
	if err != nil {
		return nil, err
	}
	switch {
	case rev < 1: // also if it is missing: revision 0 would be an empty fleet
		return nil, Invalid([]Problem{{Detail: "revision: is required, and at least 1"}})
	case len(op.ClusterIds) > 0 || op.Selector != "" || op.All || len(op.Layers) > 0:
		return nil, Invalid([]Problem{{Detail: "restore takes kind and id, or everything; not cluster_ids, selector, all or layers"}})
	case rev > base:
		return nil, errorf(CodeNotFound, "there is no revision %d", rev)
	case op.Kind != "" && !slices.Contains(b.tx.kinds.names(), kind):
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("kind: %q is nothing that can be restored", op.Kind)}})
	case (op.Kind == "") != (op.ID == ""):
		return nil, Invalid([]Problem{{Detail: "kind and id name one document together; leave out both to restore everything"}})
	}
	past, err := b.past.Past(PastQuery{At: rev, UpTo: base, Kind: kind, ID: op.ID})
	if err != nil {
		return nil, err
	}
	if op.ID != "" {
		_, changed := past[kind][op.ID]
		if _, exists := b.tx.base.docs[kind][op.ID]; !changed && !exists {
			return nil, errorf(CodeNotFound, "there was no %s %q at revision %d, and there is none now", b.tx.kinds.noun(kind), op.ID, rev)
		}
	}
	b.tx.reverts = true
	var docs []*Document
	for _, group := range b.tx.restoreOrder(past) {
		for _, id := range slices.Sorted(maps.Keys(group.docs)) {
			doc, err := b.tx.restore(group.kind, id, group.docs[id])
			if err != nil {
				return nil, err
			}
			if doc != nil {
				docs = append(docs, doc)
			}
		}
	}
	if op.ID == "" && len(docs) > 0 {
		if err := cmp.Or(b.tx.suspendPolicies(docs), b.tx.suspendSources(func(string) bool { return true })); err != nil {
			return nil, err
		}
		paused, err := b.tx.pauseRollouts()
		return append(docs, paused...), err
	}
	return docs, b.tx.suspendRecreated(docs)
}

// suspendRecreated suspends the version policies of the components that a revert or restore recreates: the holds of a component end
// with its deletion, so they would move it to versions that were held.
func (tx *Tx) suspendRecreated(docs []*Document) error {
	return tx.suspendPoliciesOf(docs, func(d *Document) bool { return tx.base.docs[KindComponent][d.ID] == nil })
}

// suspendPolicies suspends the version policies of the components that a restore of everything brought back: they would move the
// versions that it took back forward again.
func (tx *Tx) suspendPolicies(docs []*Document) error {
	return tx.suspendPoliciesOf(docs, func(*Document) bool { return true })
}

func (tx *Tx) suspendPoliciesOf(docs []*Document, of func(*Document) bool) error {
	for i, d := range docs {
		now := tx.raw(d.Kind, d.ID)
		if d.Kind != KindComponent || now == nil || !of(d) {
			continue
		}
		doc, err := tx.kinds.suspended(now)
		if err != nil {
			return err
		}
		if doc != now {
			tx.record(KindComponent, d.ID, doc)
			docs[i] = doc
			tx.note("the version policies of component %q are suspended: resume them when its versions may move again", d.ID)
		}
	}
	return nil
}

// suspended returns a component with its version policies suspended, or the same document if it has none that are not.
func (ks *kindSet) suspended(d *Document) (*Document, error) {
	targets := movingTargets(d.Component(), true)
	if len(targets) == 0 {
		return d, nil
	}
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return nil, d.Unreadable(err)
	}
	policies := unstructured.NestedObject(obj, "version_policies")
	for _, target := range targets {
		policy := unstructured.NestedObject(policies, target)
		policy["suspended"] = true
		policies[target] = policy
	}
	obj["version_policies"] = policies
	return ks.compose(KindComponent, d.ID, nil, obj, nil)
}

// restored holds documents of one kind to be restored.
type restored struct {
	kind Kind
	docs map[string]json.RawMessage
}

// restoreOrder returns the order in which documents can be restored: a resource type must exist while its definitions do.
func (tx *Tx) restoreOrder(past Documents) []restored {
	came, went := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for id, body := range past[KindResourceType] {
		if body == nil {
			went[id] = nil
		} else {
			came[id] = body
		}
	}
	order := []restored{{KindResourceType, came}}
	for _, kind := range slices.Sorted(maps.Keys(past)) {
		if _, typed := kind.ResourceType(); typed {
			order = append(order, restored{kind, past[kind]})
		}
	}
	for _, kind := range tx.kinds.names() {
		if _, typed := kind.ResourceType(); !typed && kind != KindResourceType {
			order = append(order, restored{kind, past[kind]})
		}
	}
	return append(order, restored{KindResourceType, went}, restored{KindStrategy, past[KindStrategy]}, restored{KindRollout, past[KindRollout]})
}

// restore restores one document; a nil body deletes it under the rules of Delete.
func (tx *Tx) restore(kind Kind, id string, body json.RawMessage) (*Document, error) {
	now := tx.raw(kind, id)
	if body == nil {
		if now == nil {
			return nil, nil
		}
		if kind == KindRollout {
			return tx.restoreBeforeRollout(now)
		}
		if now.Deleted() { // decommissioned since: at that revision it did not exist
			tx.record(kind, id, nil)
			return now, nil
		}
		doc, _, err := tx.delete(kind, id, DeleteOptions{})
		return doc, err
	}
	if tx.kinds.byName[kind] == nil {
		return nil, tx.notFound(kind, id)
	}
	body, err := tx.keepPin(kind, id, body)
	if err != nil {
		return nil, err
	}
	was, err := tx.kinds.document(Record{Kind: kind, ID: id, Body: body})
	if err != nil {
		return nil, fmt.Errorf("%s %q as it was: %w", tx.kinds.noun(kind), id, err)
	}
	if kind == KindRollout {
		if was, err = tx.kinds.withoutPendingApprovals(was); err == nil {
			tx.record(kind, id, was)
		}
		return was, err
	}
	if was.Deleted() && now != nil && !now.Deleted() {
		doc, _, err := tx.delete(kind, id, DeleteOptions{}) // under the rules of Delete: it may be protected
		return doc, err
	}
	tx.record(kind, id, was)
	if tx.recalled == nil {
		tx.recalled = map[docKey]*Document{}
	}
	tx.recalled[docKey{kind, id}] = was
	delete(tx.created, docKey{kind, id}) // it is the former one again
	return was, nil
}

// pauseRollouts pauses the rollouts that would advance after a restore: none of them does so by itself.
func (tx *Tx) pauseRollouts() (paused []*Document, err error) {
	var all []*Document
	tx.each(KindRollout, func(d *Document) { all = append(all, d) })
	sortDocuments(all)
	for _, d := range all {
		doc, err := tx.kinds.paused(d)
		if err != nil {
			return nil, err
		}
		if doc != d {
			tx.record(KindRollout, d.ID, doc)
			paused = append(paused, doc)
		}
	}
	return paused, nil
}

// restoreBeforeRollout deletes a rollout, also if it is open: the documents that it changes are restored too. One that changes
// a deletion policy is aborted instead, because clusters may have been served it: see mayHaveHadVariant.
func (tx *Tx) restoreBeforeRollout(d *Document) (*Document, error) {
	r := *d.rollout()
	if r.changedDeletionPolicy() == "" {
		tx.record(KindRollout, d.ID, nil)
		return d, nil
	}
	if !r.open() {
		return nil, nil
	}
	r.State = rolloutAborted
	return tx.recordValue(KindRollout, d.ID, &r)
}

// paused returns a rollout as paused if it is running or starts by itself, or else the same document.
func (ks *kindSet) paused(d *Document) (*Document, error) {
	if d.rollout().State != rolloutRunning && !d.rollout().advances() {
		return d, nil
	}
	r := *d.rollout()
	r.State = rolloutPaused
	return ks.newRecord(KindRollout, d.ID, &r)
}

// PauseAutomation returns the changes that pause the rollouts that are running or start by themselves, and suspend the version
// policies and sources among the documents of a store.
// They are made when its content replaces what clusters were served, such as a backup: nothing advances by itself from there.
func PauseAutomation(records []Record) ([]Change, error) {
	ks := compiledIn
	var changes []Change
	for _, rec := range records {
		pause := ks.paused
		switch rec.Kind {
		case KindRollout:
		case KindComponent:
			pause = ks.suspended
		case KindSource:
			pause = ks.suspendedSource
		default:
			continue
		}
		before, err := ks.document(rec)
		if err != nil {
			return nil, err
		}
		after, err := pause(before)
		if err != nil {
			return nil, err
		}
		if after != before {
			changes = append(changes, Change{rec.Kind, rec.ID, before.Body, after.Body})
		}
	}
	return changes, nil
}
