package fleet

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// artifactStages is the change of an artifact, divided into what its rollout changes and what the commit that creates it changes at once.
type artifactStages struct {
	all           Result // of the whole change at once
	first, staged []api.Operation
	on            *State // after the first operations
	part          Result // of the staged operations on it
	refusal       string // why no rollout can make the change; empty: one can
}

// stageArtifact divides the change of an artifact. attempt makes operations on a State without committing them;
// after the whole change, the artifact counts as applied. Whatever a rollout cannot
// change belongs to the first operations, which must change the inputs of no cluster. Nothing is staged if the whole change does not.
func (tx *Tx) stageArtifact(ops []api.Operation, attempt func(on *State, ops []api.Operation, whole bool) (Result, error)) (s artifactStages, err error) {
	if s.all, err = attempt(tx.base, ops, true); err != nil {
		return s, err
	}
	if changes, err := s.all.changesInputs(); err != nil || !changes {
		return s, err
	}
	staged := map[docKey]bool{}
	var problems []Problem
	for _, ch := range s.all.Commit.Changes {
		if isInternal(ch.Kind) {
			continue
		}
		if why := notStageable(tx.base, s.all.State, ch); why != "" {
			problems = append(problems, Problem{Kind: ch.Kind, ID: ch.ID, Detail: tx.kinds.noun(ch.Kind) + ` "` + ch.ID + `": ` + why})
		} else {
			staged[docKey{ch.Kind, ch.ID}] = true
		}
	}
	for _, op := range ops {
		if staged[keyOf(op)] {
			s.staged = append(s.staged, op)
		} else {
			s.first = append(s.first, op)
		}
	}
	refuse := func(err error) (artifactStages, error) {
		if e, refused := errors.AsType[*Error](err); refused {
			s.refusal = e.Error()
			return s, nil
		}
		return s, err
	}
	s.on = tx.base
	if len(problems) > 0 {
		first, err := attempt(tx.base, s.first, false)
		changes := false
		if err == nil {
			changes, err = first.changesInputs()
		}
		if _, refused := errors.AsType[*Error](err); refused || changes {
			lines := make([]string, 0, len(problems))
			for _, p := range problems[:min(len(problems), maxProblems)] {
				lines = append(lines, p.Detail)
			}
			s.refusal = strings.Join(lines, "\n")
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.on = first.State
	}
	if s.part, err = attempt(s.on, s.staged, false); err != nil {
		return refuse(err)
	}
	if _, err = stageableChanges(s.on, s.part); err != nil {
		return refuse(err)
	}
	return s, nil
}

// keyOf returns the document of an operation of an artifact.
func keyOf(op api.Operation) docKey {
	if op.Kind == kindResource {
		return docKey{ResourceKind(op.Type), op.ID}
	}
	return docKey{Kind(op.Kind), op.ID}
}

// changesInputs reports whether the change affects inputs of a cluster, now or when it is unpinned.
func (r Result) changesInputs() (bool, error) {
	pending, err := r.pending()
	if err != nil || len(pending) > 0 {
		return len(pending) > 0, err
	}
	clusters, err := r.affected(true)
	if err != nil {
		return false, err
	}
	effects := r.effects()
	for _, a := range clusters {
		if err := r.work.stopped(); err != nil {
			return false, err
		}
		if effect, err := effects.on(a); err != nil || effect.key != "" {
			return err == nil, err
		}
	}
	return r.removals.count > 0, nil
}

// confirmStages replaces the hash of the approved plan, which is that of the whole change, by that of the part that the rollout makes.
func (tx *Tx) confirmStages(s *artifactStages) error {
	if tx.guard.PlanHash == "" {
		return nil
	}
	plan, err := s.all.Plan()
	if err == nil && plan.PlanHash != tx.guard.PlanHash {
		err = &Error{Code: CodeStale, Detail: "the change would no longer do what was planned; make a new plan"}
	}
	if err == nil {
		plan, err = s.part.Plan()
	}
	tx.guard.PlanHash = plan.PlanHash
	return err
}

// rolloutOfArtifact returns the id of the rollout of an artifact of a source.
func rolloutOfArtifact(source, digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return strings.TrimRight(source[:min(len(source), 240)], "-.") + "-" + hex[:min(len(hex), 12)]
}

// newArtifactRollout returns the rollout of an artifact without its changes. The runner starts it. It replaces a former one of the same
// artifact that is not open.
func (s *artifactStages) newArtifactRollout(strategy string, from rolloutSource, now time.Time) (NewRollout, *rollout, error) {
	n := NewRollout{
		ID: rolloutOfArtifact(from.ID, from.Digest), Strategy: strategy,
		Description:     truncate("artifact " + cmp.Or(from.Revision, from.Tag, from.Digest) + " of source " + from.ID),
		RolloutSettings: RolloutSettings{Advance: advanceAutomatic, StartAt: &now},
	}
	if d := s.on.docs[KindRollout][n.ID]; d != nil && d.rollout().open() {
		return n, nil, errorf(CodeConflict, "a rollout %q is open already: complete or abort it first", n.ID)
	}
	r, err := s.on.newRollout(n)
	if err != nil {
		return n, nil, err
	}
	from.Files = slices.DeleteFunc(slices.Clone(from.Files), func(d ManagedDocument) bool {
		return !slices.ContainsFunc(s.part.Commit.Changes, func(ch Change) bool { return ch.Kind == d.Kind && ch.ID == d.ID })
	})
	r.Source = &from
	return n, r, nil
}

// OpenRollout returns the rollout that delivers an artifact of a source; nil: none is open.
func (s *State) OpenRollout(r *SourceState) *Document {
	if r.Rollout == nil {
		return nil
	}
	if d := s.docs[KindRollout][r.Rollout.ID]; d != nil && d.rollout().open() {
		return d
	}
	return nil
}

// adoptedByRollouts returns the documents that open rollouts of sources leave to their sources when they complete.
func (s *State) adoptedByRollouts() map[docKey]manager {
	out := map[docKey]manager{}
	for id, d := range s.docs[KindSourceDocuments] {
		if s.OpenRollout(s.SourceState(id)) == nil {
			continue // it was aborted
		}
		list := d.value.(*sourceDocuments).Next
		for i := range list {
			out[docKey{list[i].Kind, list[i].ID}] = manager{id, &list[i]}
		}
	}
	return out
}

// PauseReason returns why a rollout is paused; empty: it is not.
func PauseReason(d *Document) string {
	if r := d.rollout(); r.State == rolloutPaused {
		return cmp.Or(r.PausedBecause, "a person paused it")
	}
	return ""
}
