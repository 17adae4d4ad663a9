package fleet

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// approve records the approval of a stage, with its effect: the given one, or the next one if it is empty. A stage that was approved
// already and one that has started are CodeConflict. again: a stage that was approved may be approved again.
func (r *rollout) approve(stage string, by *stageApproval, inputs *RolloutInputs, again bool) (at int, err error) {
	at = r.Started
	if stage != "" {
		for at = 0; at < len(r.Stages) && r.Stages[at].Name != stage; at++ {
		}
	}
	switch {
	case at >= len(r.Stages) && stage != "":
		return at, errorf(CodeNotFound, "rollout %q has no stage %q", r.ID, stage)
	case at >= len(r.Stages):
		return at, errorf(CodeConflict, "rollout %q has no further stage", r.ID)
	case at < r.Started:
		return at, errorf(CodeConflict, "stage %q of rollout %q has started", r.Stages[at].Name, r.ID)
	case !r.Stages[at].Approval:
		return at, errorf(CodeConflict, "stage %q of rollout %q requires no approval", r.Stages[at].Name, r.ID)
	}
	by.Effect = inputs.StageEffect(at)
	if now := r.Stages[at].Approved; !again && now != nil && now.Effect == by.Effect {
		return at, errorf(CodeConflict, "stage %q of rollout %q is approved already, by %s", r.Stages[at].Name, r.ID, now.By)
	}
	r.Stages[at].Approved = by
	return at, nil
}

// StageNeedsApproval reports whether a stage has not started and requires an approval, which it may have.
func StageNeedsApproval(d *Document, stage int) bool {
	return stage >= d.rollout().Started && d.rollout().Stages[stage].Approval
}

// ApprovalEnded returns why the approval of a stage that has not started does not count any more; empty: it counts, or there is none.
func ApprovalEnded(d *Document, stage int, effect string) string {
	if s := &d.rollout().Stages[stage]; StageNeedsApproval(d, stage) && s.approvalEnded(effect) {
		return s.Approved.ended()
	}
	return ""
}

// approvalEnded reports whether the approval of a stage has ended in the State before this Tx.
func (tx *Tx) approvalEnded(d *Document, stage int) (bool, error) {
	r := d.rollout()
	if stage >= len(r.Stages) || !r.Stages[stage].Approval || r.Stages[stage].Approved == nil {
		return false, nil
	}
	inputs, err := tx.base.Whole().rolloutInputs(tx.work, d, nil)
	return err == nil && r.Stages[stage].approvalEnded(inputs.StageEffect(stage)), err
}

// checkApproval refuses to start or skip a stage whose approval has ended. In a plan (planned), it removes the approval instead.
func (tx *Tx) checkApproval(r *rollout, d *Document, planned bool) error {
	ended, err := tx.approvalEnded(d, r.Started)
	if err != nil || !ended {
		return err
	}
	s := &r.Stages[r.Started]
	if !planned {
		return errorf(CodeConflict, "rollout %q waits for the approval of its stage %q: %s", r.ID, s.Name, s.Approved.ended())
	}
	s.Approved = nil
	return nil
}

// checkSecondPerson refuses an approval by the author of the rollout or of the last change of its stages. An author that is
// unknown, of a rollout that an earlier version created, may approve nothing: neither could be compared.
func (r *rollout) checkSecondPerson(identity *Subject, actor string) error {
	switch {
	case r.Author == "":
		return errorf(CodeSecondPerson, "rollout %q was created by a version that did not record its author, and REQUIRE_SECOND_PERSON is set: abort it and create it again", r.ID)
	case samePerson(identity, actor, r.AuthorID, r.Author):
		return errorf(CodeSecondPerson, "rollout %q was created by %s: another person must approve its stages", r.ID, r.Author)
	case samePerson(identity, actor, r.ChangedByID, r.ChangedBy):
		return errorf(CodeSecondPerson, "the stages of rollout %q were last changed by %s: another person must approve them", r.ID, r.ChangedBy)
	}
	return nil
}

// approveStage approves a stage of a rollout. The approval has the actor and the time of the commit, which Finish knows. It is also one
// for policies with action approve, if there are any: another person may then give it again.
func (tx *Tx) approveStage(doc *Document, stage string) {
	forPolicies := tx.base.needsApprovals()
	tx.beforeFinish = func(c Commit) error {
		by := &stageApproval{By: c.Actor, At: c.At}
		r := *doc.rollout()
		r.Stages = slices.Clone(r.Stages)
		if !r.open() {
			return errorf(CodeConflict, "rollout %q is %s", r.ID, r.State)
		}
		inputs, err := tx.base.Whole().rolloutInputs(tx.work, doc, nil)
		if err != nil {
			return err
		}
		secondPerson := r.checkSecondPerson(tx.scope.identity(), by.By)
		at, err := r.approve(stage, by, inputs, forPolicies && secondPerson == nil)
		if err != nil {
			return err
		}
		tx.noteEffect(&r, inputs, at)
		if tx.base.rules.SecondPerson && secondPerson != nil {
			return secondPerson
		}
		if forPolicies {
			if by.PlanHash, err = tx.planHashOfStart(r, at, c); err != nil {
				return err
			}
			if err := tx.recordApproval(c, by.PlanHash, stageSubject(r.ID, r.Stages[at].Name), c.Reason); err != nil {
				return err
			}
		}
		_, err = tx.recordValue(KindRollout, doc.ID, &r)
		return err
	}
	tx.recordOperation(api.RevisionOperation{Op: RolloutApprove, Kind: string(KindRollout), ID: doc.ID, Stage: stage})
}

// planHashOfStart returns the hash of the plan of the start of a stage, with all stages before it started.
func (tx *Tx) planHashOfStart(r rollout, stage int, c Commit) (string, error) {
	r.Stages = slices.Clone(r.Stages)
	r.Stages[stage].Approved, r.PausedBecause, r.Started, r.State = nil, "", stage, rolloutRunning
	if stage == 0 {
		r.State = rolloutProposed
	}
	doc, err := tx.kinds.newRecord(KindRollout, r.ID, &r)
	if err != nil {
		return "", err
	}
	before, err := tx.base.with(Commit{Revision: tx.base.Revision() + 1, At: c.At}, []edit{{KindRollout, r.ID, doc}}, false)
	if err != nil {
		return "", err
	}
	start := before.Begin()
	start.work, start.filters = tx.work, tx.filters
	start.Guard(Guard{Off: true})
	r.State, r.Started = rolloutRunning, stage+1
	if _, err := start.recordValue(KindRollout, r.ID, &r); err != nil {
		return "", err
	}
	res, err := start.Finish(c)
	if err != nil {
		return "", err
	}
	plan, err := res.plan(nil)
	return plan.PlanHash, err
}

// noteEffect adds a note with the number of clusters of the approved stage, and those that its start changes. It includes only clusters
// that the principal may read.
func (tx *Tx) noteEffect(r *rollout, inputs *RolloutInputs, stage int) {
	var size int
	var changed []string
	for _, d := range tx.base.All(KindCluster) {
		if r.stageOf(d.Cluster()) == stage {
			if size++; len(inputs.ByCluster[d.ID]) > 0 {
				changed = append(changed, d.ID)
			}
		}
	}
	tx.note("stage %q has %s, and its start changes %d: %s", r.Stages[stage].Name, plural(size, "cluster"), len(changed), list(changed))
}
