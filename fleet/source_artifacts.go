package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

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
	kept    int  // managed documents that the artifact has too
	again   bool // the artifact is applied, and a person asks to apply it again
}

// ApplyArtifact makes the change of an artifact that a source follows, within rights. apply runs operations in a Tx. Whatever
// needs an approval is CodeConfirm: adoption of existing documents, removals by the first artifact, the loss of more than half of the
// documents, an artifact that was applied before or whose rollout was aborted, and one that the source's strategy cannot stage. With a
// strategy, the change becomes a rollout, and an approval of a change that it cannot stage makes it at once. Nothing changes if the
// artifact is applied, unless again is true, or while a rollout of the source is open.
func (tx *Tx) ApplyArtifact(id string, a FollowedArtifact, now time.Time, again bool, apply func(*Tx, []api.Operation) error) (changed bool, err error) {
	doc, err := tx.Get(KindSource, id)
	if err != nil {
		return false, err
	}
	change := artifactChange{source: doc.Source(), record: tx.sourceRecord(id)}
	change.again = change.record.HasApplied(change.source, a.Digest)
	if change.source.Suspended || change.again && !again || tx.base.OpenRollout(change.record) != nil {
		return false, nil
	}
	tx.source = id
	if tx.scope != nil && len(tx.scope.grants) == 0 { // before a comparison with documents that it may not read
		return false, errorf(CodeOutOfScope, "no access document of yours permits changes")
	}
	if err := tx.readArtifact(&change, a); err != nil {
		return false, err
	}
	reasons := change.needsApproval(a, len(tx.base.ManagedBy(id)))
	run := func(tx *Tx, ops []api.Operation) error {
		op := api.RevisionOperation{Op: "apply", Kind: string(KindSource), ID: id, Fields: a.facts()}
		return tx.runOperation(op, func() error { return apply(tx, ops) })
	}
	var stages artifactStages
	if change.source.Strategy != "" && !tx.guard.Off {
		stages, err = tx.stageArtifact(change.operations(a), func(on *State, ops []api.Operation, whole bool) (Result, error) {
			attempt := tx.attemptOn(on)
			if err := run(attempt, ops); err != nil {
				return Result{}, err
			}
			if whole { // its plan has what the source adopts
				if err := attempt.recordApplied(&change, a, now); err != nil {
					return Result{}, err
				}
			}
			return attempt.Finish(Commit{At: now, Actor: SourceActor(id)})
		})
		if err != nil {
			return false, err
		}
	}
	switch {
	case stages.refusal == "":
	case change.again: // nothing is held, to be approved
		reasons = append(reasons, fmt.Sprintf("strategy %q cannot deliver it in stages; without a strategy, the source makes the change at once: %s", change.source.Strategy, stages.refusal))
	default:
		reasons = append(reasons, fmt.Sprintf("strategy %q cannot deliver it in stages, and an approval makes the change at once: %s", change.source.Strategy, stages.refusal))
	}
	if len(reasons) > 0 && !tx.guard.Off && tx.guard.PlanHash == "" {
		return false, errorf(CodeConfirm, "%s", strings.Join(reasons, "; and "))
	}
	tx.guard.Keep = change.record.Digest == ""
	if len(stages.staged) > 0 && stages.refusal == "" {
		return true, tx.proposeArtifact(&change, a, &stages, now, run)
	}
	if err := run(tx, change.operations(a)); err != nil {
		return false, err
	}
	return true, tx.recordApplied(&change, a, now)
}

// attemptOn returns a Tx on a State with the rights of this one, for a change that is not committed.
func (tx *Tx) attemptOn(on *State) *Tx {
	attempt := on.Begin()
	attempt.work, attempt.filters, attempt.source, attempt.withoutAdmin = tx.work, tx.filters, tx.source, tx.withoutAdmin
	if tx.scope != nil {
		limits := *tx.scope
		attempt.scope = &limits
	}
	attempt.Guard(Guard{Off: true})
	return attempt
}

// recordApplied records an artifact as applied.
func (tx *Tx) recordApplied(change *artifactChange, a FollowedArtifact, now time.Time) error {
	r := tx.sourceRecord(change.source.ID)
	r.apply(a.SourceArtifact, change.source.URL, change.source.Path, now)
	if err := tx.recordSourceState(r); err != nil {
		return err
	}
	return tx.recordManaged(change.source.ID, slices.Clone(change.managed), nil)
}

// proposeArtifact makes the first operations of an artifact, and creates the rollout that makes the others. The source manages the
// documents that are created now; those that it adopts or leaves change when the rollout completes.
func (tx *Tx) proposeArtifact(change *artifactChange, a FollowedArtifact, stages *artifactStages, now time.Time, run func(*Tx, []api.Operation) error) error {
	source := change.source
	if err := tx.confirmStages(stages); err != nil {
		return err
	}
	n, r, err := stages.newArtifactRollout(source.Strategy, rolloutSource{source.ID, a.SourceArtifact, change.managed}, now)
	if err != nil {
		return err
	}
	part := stages.on.Begin()
	part.work, part.source = tx.work, source.ID
	if err := cmp.Or(run(tx, stages.first), run(part, stages.staged)); err != nil {
		return err
	}
	tx.beforeFinish = func(c Commit) error {
		return (&rolloutCreation{NewRollout: n, rollout: r, change: part}).finish(tx, c)
	}
	record := tx.sourceRecord(source.ID)
	record.Held, record.Approval, record.Rollout = nil, nil, &SourceRollout{a.SourceArtifact, n.ID, source.URL, source.Path}
	record.remember(a.Digest)
	if err := tx.recordSourceState(record); err != nil {
		return err
	}
	managed := slices.DeleteFunc(slices.Clone(tx.base.ManagedBy(source.ID)), func(d ManagedDocument) bool {
		doc, edited := tx.edits[docKey{d.Kind, d.ID}]
		return edited && doc == nil
	})
	for _, d := range change.managed {
		if was, is := tx.base.docs[d.Kind][d.ID], tx.raw(d.Kind, d.ID); was == nil && is != nil {
			managed = append(managed, d)
		}
	}
	return tx.recordManaged(source.ID, managed, slices.Clone(change.managed))
}

// readArtifact compares the documents of an artifact with the fleet.
func (tx *Tx) readArtifact(change *artifactChange, a FollowedArtifact) error {
	var problems []Problem
	problem := func(d FileDocument, format string, args ...any) {
		problems = append(problems, Problem{Kind: d.Kind, ID: d.ID, Detail: d.File + ": " + fmt.Sprintf(format, args...)})
	}
	files := map[docKey]string{}
	var others []foreignChange
	adopting := tx.base.adoptedByRollouts()
	for _, d := range a.Documents {
		key := docKey{d.Kind, d.ID}
		by, managed := tx.base.managed[key]
		if adopts, found := adopting[key]; found && !managed {
			by, managed = adopts, true
		}
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

// needsApproval returns the reasons why the change of an artifact needs an approval. before is the number of documents that the
// source manages.
func (change *artifactChange) needsApproval(a FollowedArtifact, before int) (reasons []string) {
	if n := len(change.adopted); n > 0 {
		reasons = append(reasons, fmt.Sprintf("it would adopt %s that exist and that it does not manage: %s", plural(n, "document"), list(change.adopted)))
	}
	if 2*change.kept < before || len(a.Documents) == 0 {
		reasons = append(reasons, fmt.Sprintf("only %d of the %s that it manages are in the artifact", change.kept, plural(before, "document")))
	}
	switch r := change.record; {
	case change.again: // a person asks for it
	case r.Rollout != nil && r.Rollout.Digest == a.Digest:
		reasons = append(reasons, fmt.Sprintf("its rollout %q was aborted: an approval begins it again", r.Rollout.ID))
	case a.Digest != r.Digest && slices.Contains(r.Applied, a.Digest):
		reasons = append(reasons, "the artifact was applied before, or its rollout was begun, and another replaced it: an old artifact may be under a tag that moved")
	}
	return reasons
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
	case held.Code != CodeConfirm && (held.Code != CodePolicy || held.PlanHash == ""):
		return errorf(CodeConflict, "no approval admits the held artifact of source %q: %s", id, held.Message)
	case held.PlanHash != planHash:
		return &Error{Code: CodeStale, Detail: fmt.Sprintf("the plan of the held artifact of source %q is another: look at it, and approve %s", id, held.PlanHash)}
	default:
		r.Approval = &SourceApproval{Digest: held.Digest, PlanHash: planHash, By: by, At: now}
		if held.Code == CodePolicy {
			tx.addApproval(planHash, SourceActor(id), "")
		}
	}
	tx.recordOperation(api.RevisionOperation{Op: "approve", Kind: string(KindSource), ID: id, Fields: r.Held.facts()})
	return tx.recordSourceState(r)
}

// HoldArtifact records that an artifact of a source is not applied. A record that says the same, but for the time, stays. Nothing is held
// while a rollout of the source is open: the refusal is older than the rollout.
func (tx *Tx) HoldArtifact(id string, held HeldArtifact) (changed bool, err error) {
	r := tx.sourceRecord(id)
	if tx.base.OpenRollout(r) != nil {
		return false, nil
	}
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

// FailArtifact records why the artifact of a source cannot be read; empty: it can.
func (tx *Tx) FailArtifact(id, reason string, now time.Time) (changed bool, err error) {
	r := tx.sourceRecord(id)
	if was := r.Failed; was == nil && reason == "" || was != nil && was.Reason == reason {
		return false, nil
	}
	if r.Failed = nil; reason != "" {
		r.Failed = &SourceFailure{reason, now}
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
