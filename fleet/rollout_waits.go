package fleet

import (
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RolloutStep is the next step of a rollout.
type RolloutStep struct {
	// Action is one of RolloutStart, RolloutRaise, RolloutPause, RolloutBack and RolloutComplete; empty: it waits, for Reason,
	// or it is not running.
	Action string
	Stage  string // that the action or the wait concerns
	// Reason identifies the cause of a wait: start, soak, confirmations, window, start_at, approval or freeze.
	Reason  string
	Message string    // of a wait, or why the action is pause or back
	Until   time.Time // the end of the wait; zero: not known
}

// Waiting returns the wait as the API shows it, or nil if the step is none.
func (s RolloutStep) Waiting() *api.RolloutWaiting {
	if s.Reason == "" {
		return nil
	}
	out := &api.RolloutWaiting{Reason: s.Reason, Message: s.Message, Stage: s.Stage}
	if !s.Until.IsZero() {
		out.Until = &s.Until
	}
	return out
}

// approvalWait returns the wait for the approval of a stage.
func (r *rollout) approvalWait(stage int) RolloutStep {
	s := &r.Stages[stage]
	step := RolloutStep{Reason: "approval", Stage: s.Name, Message: fmt.Sprintf("stage %q needs an approval", s.Name)}
	if s.Approved != nil {
		step.Message += ": " + s.Approved.ended()
	}
	return step
}

// waitForStart returns the start of a stage, or the wait for its start time or for the next window.
func (r *rollout) waitForStart(stage int, now time.Time) RolloutStep {
	step := RolloutStep{Action: RolloutStart, Stage: r.Stages[stage].Name}
	for _, at := range []*time.Time{r.StartAt, r.Stages[stage].StartAt} {
		if at != nil && now.Before(*at) {
			return RolloutStep{Reason: "start_at", Stage: step.Stage, Until: *at, Message: fmt.Sprintf("stage %q waits for its start time", step.Stage)}
		}
	}
	opens, ok := nextOpening(r.Windows, now)
	if ok && !opens.After(now) {
		return step
	}
	return RolloutStep{Reason: "window", Stage: step.Stage, Until: opens, Message: fmt.Sprintf("stage %q waits for the next window", step.Stage)}
}

// stageWaits returns what the stages that a change starts wait for, besides freezes: an approval, and of an
// automatic rollout its start time and the next window.
func (r Result) stageWaits() (out []RolloutStep) {
	for _, ch := range r.Commit.Changes {
		if ch.Kind != KindRollout || ch.Before == nil || ch.After == nil {
			continue
		}
		was, is := r.base.docs[KindRollout][ch.ID].rollout(), r.State.docs[KindRollout][ch.ID].rollout()
		at := is.Started - 1
		if at < 0 || is.Stages[at].Skipped || at < was.Started {
			continue
		}
		if is.awaitsApproval(at) { // also if the approval has ended: see checkApproval
			out = append(out, was.approvalWait(at))
		}
		if was.Advance == advanceAutomatic {
			if step := was.waitForStart(at, r.Commit.At); step.Reason != "" {
				out = append(out, step)
			}
		}
	}
	return out
}

// startWarning returns the warning of a plan that starts a stage in spite of the wait.
func (s RolloutStep) startWarning() string {
	if s.Reason == "approval" {
		return "the change would be refused: " + s.Message
	}
	return s.Message + ", at " + s.Until.UTC().Format(time.RFC3339) + ", unless a person starts it before"
}

// RolloutWaitingSince returns since when a rollout waits for a reason, as far as its document shows: a soak and confirmations
// begin with the start of its stage, all other waits of a running rollout when the soak is over. A pause begins
// with the last change of the document.
func RolloutWaitingSince(d *Document, reason string) time.Time {
	r := d.rollout()
	if r.State != rolloutRunning || r.Started == 0 {
		return d.UpdatedAt
	}
	stage := &r.Stages[r.Started-1]
	since := stage.since()
	switch {
	case since.IsZero(): // skipped
		return d.UpdatedAt
	case reason == "soak" || reason == "confirmations":
		return since
	}
	return since.Add(parseGate(r.effectiveGate(&stage.RolloutStage)).soak)
}
