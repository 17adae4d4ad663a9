package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/threeway"
)

// revert reverts the changes of one revision and keeps later changes: for each document it is a three-way merge of the
// version that the revision made, the current one, and the one before the revision.
func (b *Batch) revert(op api.Operation) ([]*Document, error) {
	rev := Revision(op.Revision)
	prefer := jsontext.Side(op.Prefer)
	kind, err := b.tx.revertedKind(op)
	if err != nil {
		return nil, err
	}
	switch {
	case rev < 1:
		return nil, Invalid([]Problem{{Detail: "revision: is required, and at least 1"}})
	case len(op.ClusterIds) > 0 || op.Selector != "" || op.All || len(op.Layers) > 0:
		return nil, Invalid([]Problem{{Detail: "revert takes kind and id, or all that the revision changed; not cluster_ids, selector, all or layers"}})
	case (op.Kind == "") != (op.ID == ""):
		return nil, Invalid([]Problem{{Detail: "kind and id name one document together; leave out both to revert all that the revision changed"}})
	case prefer != "" && prefer != jsontext.Ours && prefer != jsontext.Theirs:
		return nil, Invalid([]Problem{{Detail: "prefer: must be ours or theirs"}})
	case rev > b.tx.base.Revision():
		return nil, errorf(CodeNotFound, "there is no revision %d", rev)
	}
	changes, err := b.past.Changes(rev)
	if err != nil {
		return nil, err
	}
	applied := map[string]bool{} // sources whose artifact the revision applied
	for _, ch := range changes {
		if ch.Kind == KindSourceState && ch.After != nil {
			applied[ch.ID] = true
		}
	}
	changes, err = b.tx.reverted(rev, changes, kind, op.ID)
	if err != nil {
		return nil, err
	}
	b.tx.reverts = true
	if err := b.checkDirection(rev); err != nil {
		return nil, err
	}
	docs, err := b.revertChanges(changes, prefer)
	if err != nil {
		return nil, err
	}
	return docs, cmp.Or(b.tx.suspendRecreated(docs), b.tx.suspendSources(func(id string) bool { return applied[id] }))
}

// checkDirection records that a revert may make a change again, which freezes with windows forbid: its revision may have taken one back.
func (b *Batch) checkDirection(rev Revision) error {
	if !b.tx.base.hasWindows() {
		return nil
	}
	dir, err := b.directions.of(rev, b.past)
	b.tx.redoes = b.tx.redoes || dir != directionForward
	return err
}

// revertedKind returns the kind that an operation restricts a revert to. Its type may be missing: the revision may have
// deleted it.
func (tx *Tx) revertedKind(op api.Operation) (Kind, error) {
	if op.Kind == kindResource && op.Type != "" {
		return ResourceKind(op.Type), nil
	}
	kind, err := tx.kindOf(op)
	if err == nil && kind != "" && !slices.Contains(tx.kinds.names(), kind) {
		err = Invalid([]Problem{{Detail: fmt.Sprintf("kind: %q is nothing that can be reverted", op.Kind)}})
	}
	return kind, err
}

// reverted returns the changes of a revision that are to be reverted. It omits all changes of tokens: a revoked secret must
// not work again because somebody reverts other changes of that revision. Internal documents are omitted too, since they
// follow from the change.
func (tx *Tx) reverted(rev Revision, changes []Change, kind Kind, id string) ([]Change, error) {
	var kept []Change
	unreverted := map[Kind]int{}
	for _, ch := range changes {
		switch {
		case kindUses[ch.Kind].unreverted != "":
			unreverted[ch.Kind]++
		case isInternal(ch.Kind), id != "" && (ch.Kind != kind || ch.ID != id):
		default:
			kept = append(kept, ch)
		}
	}
	switch kinds := slices.Sorted(maps.Keys(unreverted)); {
	case len(kept) == 0 && id != "":
		return nil, errorf(CodeNotFound, "revision %d did not change the %s %q", rev, tx.kinds.noun(kind), id)
	case len(kept) == 0 && len(kinds) > 0:
		last := kinds[len(kinds)-1]
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("revision: %d changed nothing but %ss, which are never reverted; %s", rev, tx.kinds.noun(last), kindUses[last].unreverted)}})
	case len(kept) == 0:
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("revision: %d changed nothing that can be reverted", rev)}})
	case id == "":
		for _, k := range kinds {
			tx.note("revision %d changed %s as well: %ss are never reverted, and stay as they are", rev, plural(unreverted[k], tx.kinds.noun(k)), tx.kinds.noun(k))
		}
	}
	return kept, nil
}

// revertChanges reverts changes, all or none.
func (b *Batch) revertChanges(changes []Change, prefer jsontext.Side) ([]*Document, error) {
	r := reverting{b: b, prefer: prefer, changes: map[docKey]Change{}, now: Documents{}, conflicting: map[docKey]bool{}, removed: map[docKey]bool{}}
	before := Documents{}
	for _, ch := range changes {
		for _, body := range []*json.RawMessage{&ch.Before, &ch.After} {
			var err error
			if *body, err = b.tx.keepPin(ch.Kind, ch.ID, *body); err != nil {
				return nil, err
			}
		}
		before.Set(ch.Kind, ch.ID, ch.Before)
		r.changes[docKey{ch.Kind, ch.ID}] = ch
		doc := b.tx.raw(ch.Kind, ch.ID)
		if pendingTombstone(doc) {
			return nil, errorf(CodeConflict, "the %s %q is deleted by an operation before this one", b.tx.kinds.noun(ch.Kind), ch.ID)
		}
		if doc != nil {
			r.now.Set(ch.Kind, ch.ID, doc.Body)
		}
	}
	for _, group := range b.tx.restoreOrder(before) {
		if err := r.restore(group); err != nil {
			return nil, err
		}
	}
	if r.failed == nil || len(r.conflicts) > 0 { // an error may follow from a conflict
		r.failed = cmp.Or(r.failed, r.removePatches())
	}
	if len(r.conflicts) > 0 {
		return nil, &Error{Code: CodeRevertConflict, Detail: summarizeProblems(r.conflicts), Problems: r.conflicts}
	}
	return r.docs, r.failed
}

// reverting is the state of a revert.
type reverting struct {
	b       *Batch
	prefer  jsontext.Side
	changes map[docKey]Change
	// now holds the documents before the revert. A comparison with the Tx would count its own edits as later changes, since
	// restoring one document may edit others.
	now         Documents
	docs        []*Document
	deleted     []*Document // components
	conflicts   []Problem
	conflicting map[docKey]bool
	removed     map[docKey]bool // documents that the revert deletes, also where a rule refuses that
	failed      error           // the first error; conflicts are reported instead of it, all together
}

// restore reverts the changes of documents of one kind.
func (r *reverting) restore(group restored) error {
	tx, ids := r.b.tx, sortedKeys(group.docs)
	merged := make([]reversal, len(ids))
	failed := parallel.Errors(len(ids), func(i int) (err error) {
		if tx.work.stopped() == nil {
			merged[i], err = tx.reversal(r.changes[docKey{group.kind, ids[i]}], r.now[group.kind][ids[i]], r.prefer)
		}
		return err
	})
	if err := cmp.Or(r.b.stopped(), failed); err != nil {
		return err
	}
	for i, m := range merged {
		problems := m.problems(group.kind, ids[i], tx.kinds.noun(group.kind))
		r.conflicts = append(r.conflicts, problems...)
		key := docKey{group.kind, ids[i]}
		r.conflicting[key] = len(problems) > 0
		if !m.changes {
			continue
		}
		r.removed[key] = !r.changes[key].live(m.body)
		if group.kind == KindComponent && m.body == nil {
			r.deleted = append(r.deleted, tx.raw(group.kind, ids[i]))
			tx.record(group.kind, ids[i], nil)
			continue
		}
		doc, err := tx.restore(group.kind, ids[i], m.body)
		if doc != nil {
			r.docs = append(r.docs, doc)
		}
		r.failed = cmp.Or(r.failed, err)
	}
	return nil
}

// removePatches completes the deletion of components: clusters that do not list a component may have patches of it, from a
// time when a layer assigned it. The revert leaves only patches that were set later, so they are a conflict.
func (r *reverting) removePatches() error {
	tx := r.b.tx
	for _, component := range r.deleted {
		clusters := tx.unlistedPatches(component.ID)
		if len(clusters) > 0 && r.prefer == jsontext.Ours {
			tx.record(KindComponent, component.ID, component)
			continue
		}
		r.docs = append(r.docs, component)
		if r.prefer == jsontext.Theirs {
			if err := tx.dropPatches(component.ID); err != nil {
				return err
			}
			continue
		}
		for _, d := range clusters {
			if key := (docKey{KindCluster, d.ID}); !r.conflicting[key] && !r.removed[key] {
				r.conflicts = append(r.conflicts, Problem{
					Pointer: jsontext.Pointer("patches", component.ID), Kind: KindCluster, ID: d.ID,
					Detail: fmt.Sprintf("cluster %q: is %s now; the revert deletes component %q", d.ID, excerpt(d.Cluster().Patches[component.ID]), component.ID),
				})
			}
		}
	}
	return nil
}

// reversal is the revert of one document.
type reversal struct {
	changes   bool
	body      json.RawMessage // nil: the document is deleted
	conflicts []jsontext.MergeConflict
}

// problems converts the conflicts of a document to problems.
func (r reversal) problems(kind Kind, id, noun string) []Problem {
	problems := make([]Problem, len(r.conflicts))
	for i, c := range r.conflicts {
		change := fmt.Sprintf("is %s now, which the revision had changed from %s to %s", excerpt(c.Ours), excerpt(c.Theirs), excerpt(c.Base))
		if c.Pointer == "" {
			change = "was " + c.Ours.(string) + " since"
		}
		problems[i] = Problem{Pointer: c.Pointer, Kind: kind, ID: id, Detail: fmt.Sprintf("%s %q: %s", noun, id, change)}
	}
	return problems
}

// reversal computes the revert of one document from its body before the revert; nil: it does not exist. It changes no state.
func (tx *Tx) reversal(ch Change, now json.RawMessage, prefer jsontext.Side) (reversal, error) {
	switch {
	case bytes.Equal(now, ch.Before) || !ch.live(ch.Before) && !ch.live(now) && ch.live(ch.After):
		return reversal{}, nil // it is reverted already
	case bytes.Equal(now, ch.After) && (now == nil) == (ch.After == nil):
		return reversal{changes: true, body: ch.Before}, nil
	case ch.live(ch.Before) && ch.live(ch.After) && ch.live(now):
		return tx.mergeBack(ch, now, prefer)
	}
	change := "changed"
	switch {
	case !ch.live(now):
		change = "deleted"
	case !ch.live(ch.After):
		change = "created again"
	}
	r := reversal{changes: prefer == jsontext.Theirs, body: ch.Before}
	if prefer == "" {
		r.conflicts = []jsontext.MergeConflict{{Ours: change}}
	}
	return r, nil
}

// mergeBack merges a document before a change into its current version.
func (tx *Tx) mergeBack(ch Change, now json.RawMessage, prefer jsontext.Side) (reversal, error) {
	opt := threeway.Options{Prefer: prefer}
	if ch.Kind == KindCluster { // a layer may have settings of components that it does not assign
		opt.Given = tx.componentsFromLayers
	}
	if ch.Kind == KindComponent {
		opt.Prepare = hideDefaultNamespace
	}
	merged, conflicts, err := threeway.Merge(threeway.Versions{Made: ch.After, Now: now, Before: ch.Before}, opt)
	if err != nil {
		return reversal{}, fmt.Errorf("%s %q cannot be read: %w", ch.Kind, ch.ID, err)
	}
	if len(conflicts) > 0 {
		return reversal{conflicts: conflicts}, nil
	}
	if ch.Kind == KindComponent {
		recordNamespace(merged, merged)
	}
	if rules := tx.kinds.byName[ch.Kind]; rules != nil {
		rules.normalize(merged)
	}
	body, err := jsontext.Canonical(merged)
	return reversal{changes: !bytes.Equal(body, now), body: body}, err
}

// live reports whether a document exists and is not a decommissioned cluster.
func (c Change) live(body json.RawMessage) bool { return body != nil && !c.tombstone(body) }
