package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// updateSourceRecords finds the changes of documents that sources manage by others, marks these documents as drifted, and removes the
// records of deleted sources, whose documents are free then. It runs on every commit, so each way to change a document passes it.
func (tx *Tx) updateSourceRecords(at time.Time) error {
	tx.foreign = nil
	for key, doc := range tx.edits {
		if key.kind == KindSource && doc == nil {
			for _, kind := range []Kind{KindSourceState, KindSourceDocuments} {
				if tx.raw(kind, key.id) != nil {
					tx.record(kind, key.id, nil)
				}
			}
		}
	}
	applied, err := tx.completeArtifacts(at)
	if err != nil || len(tx.base.managed) == 0 {
		return err
	}
	drifted := map[string]map[docKey]bool{}
	for key, doc := range tx.edits {
		by, managed := tx.base.managed[key]
		if !managed || by.source == tx.source || tx.completed[key] && applied[by.source] {
			continue
		}
		if changes, err := tx.changesContent(key, doc); err != nil || !changes {
			if err != nil {
				return err
			}
			continue
		}
		if drifted[by.source] == nil {
			drifted[by.source] = map[docKey]bool{}
		}
		drifted[by.source][key] = true
		if !tx.completed[key] { // the creation of the rollout was checked
			tx.foreign = append(tx.foreign, foreignChange{key, by})
		}
	}
	if tx.guard.proposed { // nothing is changed yet
		return nil
	}
	for _, source := range sortedKeys(drifted) {
		if tx.raw(KindSourceDocuments, source) == nil {
			continue // the source is deleted too
		}
		stored := tx.managedList(source)
		lists := [][]ManagedDocument{slices.Clone(stored.Documents), slices.Clone(stored.Next)}
		for _, docs := range lists {
			for i, d := range docs {
				docs[i].Drifted = d.Drifted || drifted[source][docKey{d.Kind, d.ID}]
			}
		}
		if err := tx.recordManaged(source, lists[0], lists[1]); err != nil {
			return err
		}
	}
	return nil
}

// completeArtifacts records the artifacts whose rollouts complete as applied. It returns their sources.
func (tx *Tx) completeArtifacts(at time.Time) (map[string]bool, error) {
	completed := map[string]bool{}
	for _, id := range tx.completedRollouts {
		from := tx.raw(KindRollout, id).rollout().Source
		if from == nil || tx.raw(KindSource, from.ID) == nil {
			continue
		}
		r := tx.sourceRecord(from.ID)
		if r.Rollout == nil || r.Rollout.ID != id {
			continue
		}
		r.apply(r.Rollout.SourceArtifact, r.Rollout.URL, r.Rollout.Path, at)
		if err := tx.recordSourceState(r); err != nil {
			return nil, err
		}
		if err := tx.recordManaged(from.ID, tx.managedList(from.ID).Next, nil); err != nil {
			return nil, err
		}
		completed[from.ID] = true
	}
	return completed, nil
}

// changesContent reports whether an edit changes what a source writes: pins and requested reconciliations are no part of it.
func (tx *Tx) changesContent(key docKey, doc *Document) (bool, error) {
	was := tx.base.docs[key.kind][key.id]
	if was == nil || doc == nil || pendingTombstone(doc) {
		return was != doc, nil
	}
	if key.kind != KindCluster || bytes.Equal(was.Body, doc.Body) {
		return !bytes.Equal(was.Body, doc.Body), nil
	}
	content := func(d *Document) ([]byte, error) {
		obj, err := unstructured.Decode(d.Body)
		if err != nil {
			return nil, d.Unreadable(err)
		}
		delete(obj, "pinned")
		delete(obj, "reconcile_requested_at")
		return jsontext.Canonical(obj)
	}
	before, err := content(was)
	if err != nil {
		return false, err
	}
	after, err := content(doc)
	return !bytes.Equal(before, after), err
}

// checkManaged refuses changes of documents that sources manage by others, unless the guard names the sources, or the change only
// reverts. It returns the operations that record an override.
func (tx *Tx) checkManaged(c Commit) ([]api.RevisionOperation, error) {
	if len(tx.foreign) == 0 {
		return nil, nil
	}
	slices.SortFunc(tx.foreign, func(a, b foreignChange) int {
		return strings.Compare(string(a.key.kind)+"/"+a.key.id, string(b.key.kind)+"/"+b.key.id)
	})
	one := func(ran doneOperation) bool { return ran.ID != "" } // a restore of one document is a change
	reverts := tx.requestedOnly("revert") || tx.requestedOnly("restore") && !slices.ContainsFunc(tx.requested, one)
	var refused []foreignChange
	overridden := map[string]int{}
	for _, f := range tx.foreign {
		if reverts || slices.Contains(tx.guard.OverrideSources, f.by.source) {
			overridden[f.by.source]++
		} else {
			refused = append(refused, f)
		}
	}
	if len(refused) > 0 {
		return nil, tx.managedError(refused)
	}
	if err := tx.checkSourceOverrideInScope(reverts); err != nil {
		return nil, err
	}
	var ops []api.RevisionOperation
	for _, source := range sortedKeys(overridden) {
		if !reverts && !c.hasReason() && !tx.guard.Off {
			return nil, Invalid([]Problem{{Detail: fmt.Sprintf("a reason is required to override the source %q: send X-Change-Reason", source)}})
		}
		ops = append(ops, api.RevisionOperation{Op: "override", Kind: string(KindSource), ID: source})
		tx.note("source %q is overridden: %s stay as they are now until it applies its next artifact", source, plural(overridden[source], "document"))
	}
	return ops, nil
}

// managedError returns the error for documents that sources manage, with one problem for each.
func (tx *Tx) managedError(refused []foreignChange) error {
	var problems []Problem
	for _, f := range refused[:min(len(refused), maxAllProblems)] {
		problems = append(problems, Problem{
			Kind: f.key.kind, ID: f.key.id,
			Detail: fmt.Sprintf("the %s %q is managed by source %q, in its file %s", tx.kinds.noun(f.key.kind), f.key.id, f.by.source, f.by.File),
		})
	}
	detail := problems[0].Detail
	if n := len(refused); n > 1 {
		detail = fmt.Sprintf("%d managed documents; the first: %s", n, detail)
	}
	return &Error{Code: CodeManagedBySource, Detail: detail + ": change it there, or override the source for an urgent change", Problems: problems}
}

// checkSourceOverrideInScope refuses to override sources without the right to do so. Reverts need only the right to revert.
func (tx *Tx) checkSourceOverrideInScope(reverts bool) error {
	if tx.scope == nil {
		return nil
	}
	tx.scope.grants = slices.DeleteFunc(slices.Clone(tx.scope.grants), func(g grant) bool {
		return !g.may(RightOverrideSource) && !g.planned && (!reverts || !g.may(RightRevert))
	})
	if len(tx.scope.grants) == 0 {
		return errorf(CodeOutOfScope, "no access document of yours that permits the change grants %s as well", RightOverrideSource)
	}
	return nil
}

// checkManagedPolicies refuses version policies of components that sources manage: the source would undo each of their moves.
func (v *txValidation) checkManagedPolicies(edits []edit) {
	for _, e := range edits {
		if e.kind != KindComponent && e.kind != KindSourceDocuments || e.doc == nil {
			continue
		}
		if e.kind == KindComponent {
			v.checkManagedPolicy(v.next.docs[KindComponent][e.id])
			continue
		}
		for _, d := range v.next.ManagedBy(e.id) {
			if _, was := v.base.managed[docKey{d.Kind, d.ID}]; d.Kind == KindComponent && !was {
				v.checkManagedPolicy(v.next.docs[KindComponent][d.ID])
			}
		}
	}
}

func (v *txValidation) checkManagedPolicy(d *Document) {
	if d == nil || len(movingTargets(d.Component(), true)) == 0 {
		return
	}
	source, file, managed := v.next.Manager(KindComponent, d.ID)
	p := Problem{
		Pointer: "/version_policies", Kind: KindComponent, ID: d.ID,
		Detail: fmt.Sprintf("component %q is managed by source %q (%s), so no policy can move its version: change the version in the file, for example with pull requests of Renovate", d.ID, source, file),
	}
	if managed && !slices.Contains(v.problems, p) {
		v.problems = append(v.problems, p)
	}
}

// managedList returns the documents that a source manages, with the edits of the Tx. They must not be changed.
func (tx *Tx) managedList(source string) sourceDocuments {
	if d := tx.raw(KindSourceDocuments, source); d != nil {
		return *d.value.(*sourceDocuments)
	}
	return sourceDocuments{}
}

// recordManaged records the documents that a source manages, and those after the completion of its open rollout.
func (tx *Tx) recordManaged(source string, docs, next []ManagedDocument) error {
	for _, list := range [][]ManagedDocument{docs, next} {
		slices.SortFunc(list, func(a, b ManagedDocument) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	}
	return tx.recordUnlessSame(KindSourceDocuments, source, &sourceDocuments{source, docs, next})
}

// sourceRecord returns a copy of the record of a source, with the edits of the Tx.
func (tx *Tx) sourceRecord(id string) *SourceState {
	out := &SourceState{ID: id}
	if d := tx.raw(KindSourceState, id); d != nil {
		*out = *d.value.(*SourceState)
		out.Applied = slices.Clone(out.Applied)
	}
	return out
}

// recordSourceState records an edit of the record of a source.
func (tx *Tx) recordSourceState(r *SourceState) error {
	return tx.recordUnlessSame(KindSourceState, r.ID, r)
}
