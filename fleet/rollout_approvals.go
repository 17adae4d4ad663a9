package fleet

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RolloutApprove is the action that approves a stage.
const RolloutApprove = "approve"

// awaitsApproval reports whether a stage requires an approval that it does not have. Neither a person nor the runner may
// start such a stage, or skip it: its clusters would get the change in a later stage, without approval.
func (r *rollout) awaitsApproval(stage int) bool {
	return stage < len(r.Stages) && r.Stages[stage].Approval && r.Stages[stage].Approved == nil
}

// approve records the approval of a stage: the given one, or the next one if it is empty. A stage that was approved already
// and one that has started are CodeConflict.
func (r *rollout) approve(stage string, by *stageApproval) error {
	at := r.Started
	if stage != "" {
		for at = 0; at < len(r.Stages) && r.Stages[at].Name != stage; at++ {
		}
	}
	switch {
	case at >= len(r.Stages) && stage != "":
		return errorf(CodeNotFound, "rollout %q has no stage %q", r.ID, stage)
	case at >= len(r.Stages):
		return errorf(CodeConflict, "rollout %q has no further stage", r.ID)
	case at < r.Started:
		return errorf(CodeConflict, "stage %q of rollout %q has started", r.Stages[at].Name, r.ID)
	case !r.Stages[at].Approval:
		return errorf(CodeConflict, "stage %q of rollout %q requires no approval", r.Stages[at].Name, r.ID)
	case r.Stages[at].Approved != nil:
		return errorf(CodeConflict, "stage %q of rollout %q is approved already, by %s", r.Stages[at].Name, r.ID, r.Stages[at].Approved.By)
	}
	r.Stages[at].Approved = by
	return nil
}

// checkSecondPerson refuses an approval by the author of the rollout or of the last change of its stages. An author that is
// unknown, of a rollout that an earlier version created, may approve nothing: neither could be compared.
func (r *rollout) checkSecondPerson(actor string) error {
	switch {
	case r.Author == "":
		return errorf(CodeConflict, "rollout %q was created by a version that did not record its author, and REQUIRE_SECOND_PERSON is set: abort it and create it again", r.ID)
	case samePerson(actor, r.Author):
		return errorf(CodeConflict, "rollout %q was created by %s: another person must approve its stages", r.ID, actor)
	case samePerson(actor, r.ChangedBy):
		return errorf(CodeConflict, "the stages of rollout %q were last changed by %s: another person must approve them", r.ID, actor)
	}
	return nil
}

// samePerson reports whether two actors count as one person: the same actor, or tokens with the same name. A token that is issued
// again has another id.
func samePerson(a, b string) bool {
	name := func(actor string) string {
		if strings.HasPrefix(actor, tokenActor) {
			actor, _, _ = strings.Cut(actor, " (")
		}
		return actor
	}
	return name(a) == name(b)
}

// withoutPendingApprovals returns a rollout without the approvals of stages that have not started. A restore must not bring back
// an approval that ended because its stage was rolled back.
func (ks *kindSet) withoutPendingApprovals(d *Document) (*Document, error) {
	r := *d.rollout()
	r.Stages = slices.Clone(r.Stages)
	for i := r.Started; i < len(r.Stages); i++ {
		r.Stages[i].Approved = nil
	}
	return ks.newRecord(KindRollout, d.ID, &r)
}

// approveStage approves a stage of a rollout. The approval has the actor and the time of the commit, which Finish knows.
func (tx *Tx) approveStage(doc *Document, stage string) {
	approve := func(by *stageApproval) error {
		r := *doc.rollout()
		r.Stages = slices.Clone(r.Stages)
		if !r.open() {
			return errorf(CodeConflict, "rollout %q is %s", r.ID, r.State)
		}
		if err := r.approve(stage, by); err != nil {
			return err
		}
		if err := r.checkSecondPerson(by.By); tx.base.rules.SecondPerson && err != nil {
			return err
		}
		next, err := tx.kinds.newRecord(KindRollout, doc.ID, &r)
		if err == nil {
			tx.record(KindRollout, doc.ID, next)
		}
		return err
	}
	tx.beforeFinish = func(c Commit) error { return approve(&stageApproval{By: c.Actor, At: c.At}) }
	tx.recordOperation(api.RevisionOperation{Op: RolloutApprove, Kind: string(KindRollout), ID: doc.ID})
}
