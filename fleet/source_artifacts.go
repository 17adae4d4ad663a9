package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// SourceActor returns the actor of the commits of a source.
func SourceActor(id string) string { return "source:" + id }

// FollowedArtifact is an artifact with its documents.
type FollowedArtifact struct {
	SourceArtifact
	Documents []FileDocument
}

// FileDocument is a document of a file in an artifact.
type FileDocument struct {
	Kind   Kind
	ID     string
	File   string
	Fields json.RawMessage
}

// artifactChange is the change that an artifact makes, by its documents.
type artifactChange struct {
	source  *Source
	record  *SourceState
	managed []ManagedDocument // after the change
	adopted []string          // documents that exist, and that no source manages
	removed []ManagedDocument
	kept    int // managed documents that the artifact has too
}

// ApplyArtifact makes the change of an artifact that a source follows, within rights. apply runs the operations in the Tx. Whatever
// needs an approval is CodeConfirm: adoption of existing documents, removals by the first artifact, the loss of more than half of the
// documents, and an artifact that was applied before. Nothing changes if the artifact is applied, unless again is true.
func (tx *Tx) ApplyArtifact(id string, a FollowedArtifact, now time.Time, again bool, apply func([]api.Operation) error) (changed bool, err error) {
	doc, err := tx.Get(KindSource, id)
	if err != nil {
		return false, err
	}
	change := artifactChange{source: doc.Source(), record: tx.sourceRecord(id)}
	if change.source.Suspended || change.record.HasApplied(change.source, a.Digest) && !again {
		return false, nil
	}
	tx.source = id
	if tx.scope != nil && len(tx.scope.grants) == 0 { // before a comparison with documents that it may not read
		return false, errorf(CodeOutOfScope, "no access document of yours permits changes")
	}
	if err := tx.readArtifact(&change, a); err != nil {
		return false, err
	}
	if reason := change.needsApproval(a, len(tx.base.ManagedBy(id))); reason != "" && !tx.guard.Off && tx.guard.PlanHash == "" {
		return false, errorf(CodeConfirm, "%s", reason)
	}
	tx.guard.Keep = change.record.Digest == ""
	op := api.RevisionOperation{Op: "apply", Kind: string(KindSource), ID: id, Fields: a.facts()}
	if err := tx.runOperation(op, func() error { return apply(change.operations(a)) }); err != nil {
		return false, err
	}
	r := change.record
	r.SourceArtifact, r.AppliedAt, r.Held, r.Approval = a.SourceArtifact, &now, nil, nil
	r.URL, r.Path = change.source.URL, change.source.Path
	r.Applied = append(slices.DeleteFunc(r.Applied, func(digest string) bool { return digest == a.Digest }), a.Digest)
	r.Applied = r.Applied[max(0, len(r.Applied)-maxAppliedDigests):]
	if err := tx.recordSourceState(r); err != nil {
		return false, err
	}
	return true, tx.recordManaged(id, change.managed)
}

// readArtifact compares the documents of an artifact with the fleet.
func (tx *Tx) readArtifact(change *artifactChange, a FollowedArtifact) error {
	var problems []Problem
	problem := func(d FileDocument, format string, args ...any) {
		problems = append(problems, Problem{Kind: d.Kind, ID: d.ID, Detail: d.File + ": " + fmt.Sprintf(format, args...)})
	}
	files := map[docKey]string{}
	var others []foreignChange
	for _, d := range a.Documents {
		key := docKey{d.Kind, d.ID}
		by, managed := tx.base.managed[key]
		switch other, twice := files[key]; {
		case !change.source.includes(tx.kinds, d.Kind):
			problem(d, "the source may not have documents of kind %s: its field kinds permits that, for kinds that can be in files", d.Kind)
		case twice:
			problem(d, "%s %q is in %s already", tx.kinds.noun(d.Kind), d.ID, other)
		case managed && by.source != change.source.ID:
			others = append(others, foreignChange{key, by})
		case managed:
			change.kept++
		default:
			if now := tx.raw(d.Kind, d.ID); now != nil && !now.Deleted() {
				change.adopted = append(change.adopted, fmt.Sprintf("%s %q", tx.kinds.noun(d.Kind), d.ID))
			}
		}
		files[key] = d.File
		change.managed = append(change.managed, ManagedDocument{Kind: d.Kind, ID: d.ID, File: d.File})
	}
	if len(problems) > 0 {
		return Invalid(problems)
	}
	if len(others) > 0 {
		return tx.managedError(others)
	}
	for _, d := range tx.base.ManagedBy(change.source.ID) {
		_, stays := files[docKey{d.Kind, d.ID}]
		if stays || !change.source.Prune {
			continue
		}
		if now := tx.raw(d.Kind, d.ID); d.Kind != KindFreeze && now != nil && !now.Deleted() { // a freeze ends by a person
			change.removed = append(change.removed, d)
		}
	}
	return nil
}

// needsApproval returns why the change of an artifact needs an approval; empty: it needs none. before is the number of documents that the
// source manages.
func (change *artifactChange) needsApproval(a FollowedArtifact, before int) string {
	var reasons []string
	if n := len(change.adopted); n > 0 {
		reasons = append(reasons, fmt.Sprintf("it would adopt %s that exist and that it does not manage: %s", plural(n, "document"), list(change.adopted)))
	}
	if 2*change.kept < before || len(a.Documents) == 0 {
		reasons = append(reasons, fmt.Sprintf("only %d of the %s that it manages are in the artifact", change.kept, plural(before, "document")))
	}
	if a.Digest != change.record.Digest && slices.Contains(change.record.Applied, a.Digest) {
		reasons = append(reasons, "the artifact was applied before, and was replaced: an old artifact may be under a tag that moved")
	}
	return strings.Join(reasons, "; and ")
}

// facts returns the origin of an artifact as fields of the operation in the history.
func (a SourceArtifact) facts() []string {
	facts := []string{"digest=" + a.Digest}
	for _, f := range [][2]string{{"tag", a.Tag}, {"revision", a.Revision}, {"source", a.Origin}} {
		if f[1] != "" {
			facts = append(facts, truncate(f[0]+"="+f[1]))
		}
	}
	return facts
}

// operations returns the operations that apply an artifact: definitions before the clusters that refer to them, and deletions after them.
func (change *artifactChange) operations(a FollowedArtifact) []api.Operation {
	var ops []api.Operation
	docs := slices.Clone(a.Documents)
	slices.SortStableFunc(docs, func(x, y FileDocument) int { return applyOrder(x.Kind) - applyOrder(y.Kind) })
	for _, d := range docs {
		ops = append(ops, operationOn("put", d.Kind, d.ID))
		ops[len(ops)-1].Document = d.Fields
	}
	removed := slices.Clone(change.removed)
	slices.SortStableFunc(removed, func(x, y ManagedDocument) int { return applyOrder(y.Kind) - applyOrder(x.Kind) })
	for _, d := range removed {
		ops = append(ops, operationOn("delete", d.Kind, d.ID))
	}
	return ops
}

func operationOn(op string, kind Kind, id string) api.Operation {
	if of, typed := kind.ResourceType(); typed {
		return api.Operation{Op: op, Kind: kindResource, Type: of, ID: id}
	}
	return api.Operation{Op: op, Kind: string(kind), ID: id}
}

// applyOrder orders kinds: one comes after those that its documents refer to.
func applyOrder(kind Kind) int {
	if _, typed := kind.ResourceType(); typed {
		return 2
	}
	switch kind {
	case KindResourceType:
		return 1
	case KindLayer:
		return 3
	case KindCluster:
		return 4
	case KindStrategy, KindFreeze, KindAccess, KindWebhook, KindPolicy:
		return 5
	default:
		return 0
	}
}

// ApproveArtifact approves the change of the held artifact of a source: its effect is then made once, if it still has the plan's hash.
func (tx *Tx) ApproveArtifact(id, planHash, by string, now time.Time) error {
	if _, err := tx.Get(KindSource, id); err != nil {
		return err
	}
	r := tx.sourceRecord(id)
	switch held := r.Held; {
	case held == nil:
		return errorf(CodeConflict, "no artifact of source %q is held", id)
	case held.Code != CodeConfirm:
		return errorf(CodeConflict, "no approval admits the held artifact of source %q: %s", id, held.Message)
	case held.PlanHash != planHash:
		return &Error{Code: CodeStale, Detail: fmt.Sprintf("the plan of the held artifact of source %q is another: look at it, and approve %s", id, held.PlanHash)}
	default:
		r.Approval = &SourceApproval{Digest: held.Digest, PlanHash: planHash, By: by, At: now}
	}
	tx.recordOperation(api.RevisionOperation{Op: "approve", Kind: string(KindSource), ID: id, Fields: r.Held.facts()})
	return tx.recordSourceState(r)
}

// suspendSources suspends sources that would undo a restore or revert; nil ids: all.
func (tx *Tx) suspendSources(concerns func(id string) bool) error {
	for _, d := range tx.base.All(KindSource) {
		now := tx.raw(KindSource, d.ID)
		if now == nil || !concerns(d.ID) {
			continue
		}
		doc, err := tx.kinds.suspendedSource(now)
		if err != nil {
			return err
		}
		if doc == now {
			continue
		}
		tx.record(KindSource, d.ID, doc)
		if tx.suspended == nil {
			tx.suspended = map[string]bool{}
		}
		tx.suspended[d.ID] = true
		tx.note("source %q is suspended: resume it when its artifact may be applied again", d.ID)
	}
	return nil
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

// HoldArtifact records that an artifact of a source is not applied. A record that says the same, but for the time, stays.
func (tx *Tx) HoldArtifact(id string, held HeldArtifact) (changed bool, err error) {
	r := tx.sourceRecord(id)
	if was := r.Held; was != nil {
		if same := *was; same.SourceArtifact == held.SourceArtifact && same.Code == held.Code && same.PlanHash == held.PlanHash && same.Message == held.Message {
			return false, nil
		}
	}
	r.Held = &held
	if r.Approval != nil && (r.Approval.Digest != held.Digest || r.Approval.PlanHash != held.PlanHash) {
		r.Approval = nil // it was for another effect
	}
	return true, tx.recordSourceState(r)
}

// ReleaseArtifact records that no artifact of a source is held any more.
func (tx *Tx) ReleaseArtifact(id string) (changed bool, err error) {
	r := tx.sourceRecord(id)
	if r.Held == nil && r.Approval == nil {
		return false, nil
	}
	r.Held, r.Approval = nil, nil
	return true, tx.recordSourceState(r)
}
