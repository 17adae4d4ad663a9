package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StageCounts are the clusters of a stage whose inputs the rollout changes, by the status of exactly these inputs. All but
// Affected and Pinned count only clusters that are served the change.
type StageCounts struct {
	Affected, Confirmed, Pending, Behind, Unknown, Failed, Offline int
	Pinned                                                         int // the change reaches them when they are unpinned
	// Failure names one of the failed clusters, with the cause that it reported; empty: none.
	Failure string
	// Shared is the number of clusters in Pending, Behind and Unknown that poll with the shared token, whose reports do not count.
	Shared int
	// Effect is the [RolloutInputs.StageEffect] of a stage with an approval.
	Effect string
}

// reached returns the number of affected clusters that are served the change.
func (c *StageCounts) reached() int {
	return c.Confirmed + c.Pending + c.Behind + c.Unknown + c.Failed + c.Offline
}

// NextStep returns what a rollout does next. counts are those of its stages. It depends on its arguments only, so that any
// number of processes may call it.
func NextStep(d *Document, counts []StageCounts, now time.Time) RolloutStep {
	r := d.rollout()
	if !r.open() || r.State == rolloutPaused || len(counts) != len(r.Stages) {
		return RolloutStep{}
	}
	if r.State == rolloutProposed && !r.startsItself() || r.Advance != advanceAutomatic {
		if r.waitsForApproval(counts) {
			return r.approvalWait(r.Started)
		}
		step := RolloutStep{Reason: "start", Message: "a person completes the rollout"}
		if r.Started < len(r.Stages) {
			step.Stage, step.Message = r.Stages[r.Started].Name, fmt.Sprintf("a person starts stage %q", r.Stages[r.Started].Name)
		}
		return step
	}
	for i := range r.Stages[:r.Started] {
		if step, failed := r.failure(i, &counts[i]); failed {
			return step
		}
	}
	if r.Started > 0 {
		if step := r.current(&counts[r.Started-1], now); step != (RolloutStep{}) {
			return step
		}
	}
	if r.Started == len(r.Stages) {
		return RolloutStep{Action: RolloutComplete}
	}
	if r.waitsForApproval(counts) {
		return r.approvalWait(r.Started)
	}
	return r.waitForStart(r.Started, now)
}

// waitsForApproval reports whether the next stage lacks an approval, or has one that has ended.
func (r *rollout) waitsForApproval(counts []StageCounts) bool {
	return r.awaitsApproval(r.Started) || r.Started < len(r.Stages) && r.Stages[r.Started].approvalEnded(counts[r.Started].Effect)
}

// failure returns the reaction to the failed clusters of a started stage, also of one that has passed before.
func (r *rollout) failure(stage int, c *StageCounts) (RolloutStep, bool) {
	s := &r.Stages[stage]
	g := parseGate(r.effectiveGate(&s.RolloutStage))
	if s.Skipped || c.Failed <= g.maxFailures {
		return RolloutStep{}, false
	}
	step := RolloutStep{Action: RolloutPause, Stage: s.Name, Message: fmt.Sprintf("stage %q: %s failed, and %d may", s.Name, plural(c.Failed, "cluster"), g.maxFailures)}
	if c.Failure != "" { // the status no longer has it after a stage is taken back
		step.Message += "; " + c.Failure
	}
	if r.OnFailure == onFailureBack && stage == r.Started-1 {
		step.Action = RolloutBack
	}
	return step, true
}

// firstReceipts is the time that the first receipts of the clusters of a stage have to become known to all processes: those of
// clusters that joined just before the start may be on their way.
const firstReceipts = time.Minute

// current returns the step of the last started stage; zero: it has passed.
func (r *rollout) current(c *StageCounts, now time.Time) RolloutStep {
	s := &r.Stages[r.Started-1]
	g := parseGate(r.effectiveGate(&s.RolloutStage))
	if s.Skipped || c.Affected == 0 {
		return RolloutStep{}
	}
	if c.Pinned > 0 {
		return RolloutStep{Reason: "pin", Stage: s.Name, Message: fmt.Sprintf("stage %q: pins keep the change from %s", s.Name, plural(c.Pinned, "cluster"))}
	}
	uncounted := ""
	if c.Shared > 0 {
		uncounted = fmt.Sprintf("; %s not counted (shared token): give each cluster its own token, or set GATES_TRUST_SHARED_TOKEN=true", plural(c.Shared, "cluster"))
	}
	pause := func(format string, args ...any) RolloutStep {
		return RolloutStep{Action: RolloutPause, Stage: s.Name, Message: fmt.Sprintf("stage %q: "+format, append([]any{s.Name}, args...)...) + uncounted}
	}
	byTime, online, since := g.confirmed == 0, c.reached()-c.Offline, s.since()
	switch {
	case byTime:
	case c.Offline > online:
		return pause("more than half of its clusters are offline, %d of %d", c.Offline, c.reached())
	case c.Unknown > 0 && c.Unknown == online && !now.Before(since.Add(firstReceipts)):
		return pause("no cluster in this stage sends receipts")
	}
	need := max(1, (online*g.confirmed+99)/100)
	if c.reached() == 0 || byTime {
		need = 0 // none of the clusters that are served the change is affected, or time alone decides
	}
	if deadline := since.Add(g.deadline); c.Confirmed < need {
		if !now.Before(deadline) {
			return pause("%d of %d clusters have confirmed within %s, and %d must", c.Confirmed, online, g.deadline, need)
		}
		return RolloutStep{Reason: "confirmations", Stage: s.Name, Until: deadline, Message: fmt.Sprintf("stage %q: %d of %d clusters have confirmed, and %d must", s.Name, c.Confirmed, online, need) + uncounted}
	}
	if soaked := since.Add(g.soak); now.Before(soaked) {
		return RolloutStep{Reason: "soak", Stage: s.Name, Until: soaked, Message: fmt.Sprintf("the soak of stage %q is not over", s.Name)}
	}
	return RolloutStep{}
}

// RolloutPlace returns the index of the stage of a cluster, and whether the cluster is served the change.
func RolloutPlace(rollout, cluster *Document) (stage int, reached bool) {
	r := rollout.rollout()
	return r.stageOf(cluster.Cluster()), r.delivers() && r.reaches(cluster.Cluster())
}

// RolloutStages returns the number of stages of a rollout, and whether the rollout is open.
func RolloutStages(d *Document) (n int, open bool) {
	return len(d.rollout().Stages), d.rollout().open()
}

// RolloutPhase returns the number of started stages of a rollout, and whether it is paused, and open.
func RolloutPhase(d *Document) (started int, paused, open bool) {
	r := d.rollout()
	return r.Started, r.State == rolloutPaused, r.open()
}

// RolloutPrincipal returns the actor whose permission the rollout needs to advance.
func RolloutPrincipal(d *Document) string { return d.rollout().Principal }

// RolloutIdentity returns the identity of a principal of an issuer; nil: the principal is a token.
func RolloutIdentity(d *Document) *Subject { return d.rollout().Identity }

// StepRollout runs the action of a step, and records why it pauses.
func (tx *Tx) StepRollout(id string, step RolloutStep) error {
	stage := step.Stage
	if step.Action == RolloutPause || step.Action == RolloutComplete {
		stage = ""
	}
	doc, err := tx.ChangeRollout(id, step.Action, stage)
	if err != nil || step.Action != RolloutPause && step.Action != RolloutBack {
		return err
	}
	r := *doc.rollout()
	r.PausedBecause = step.Message
	if _, err := tx.recordValue(KindRollout, id, &r); err != nil {
		return err
	}
	tx.beforeFinish = nil // neither has a time
	return nil
}

// WaitForFreezes returns the wait for the freezes and pins that forbid a step at a time, or the step if none does. A stage that should
// lose the change but is frozen pauses the rollout.
func (s *State) WaitForFreezes(ctx context.Context, id string, step RolloutStep, now time.Time) (RolloutStep, error) {
	return s.waitForFreezes(s.newWork(ctx), id, step, now)
}

func (s *State) waitForFreezes(work work, id string, step RolloutStep, now time.Time) (RolloutStep, error) {
	if !slices.Contains([]string{RolloutStart, RolloutBack}, step.Action) || s.pinned == nil && len(s.ActiveFreezes(now)) == 0 {
		return step, nil
	}
	tx := s.Begin()
	tx.work = work
	tx.Guard(Guard{Off: true})
	err := tx.StepRollout(id, step)
	var res Result
	if err == nil {
		res, err = tx.Finish(Commit{At: now, Actor: RolloutRunner})
	}
	if _, refused := errors.AsType[*Error](err); refused {
		return step, nil // the commit of the step reports it
	}
	if err != nil {
		return RolloutStep{}, err
	}
	all, err := res.refusals()
	if err != nil || len(all.frozen)+len(all.pinned) == 0 {
		return step, err
	}
	wait := RolloutStep{Reason: "freeze", Stage: step.Stage}
	var details []string
	if len(all.pinned) > 0 {
		wait.Reason = "pin"
		details = append(details, "pins of "+firstIDs(all.pinned, 3))
	}
	for i, f := range all.frozen {
		details = append(details, fmt.Sprintf("freeze %q of %s", f.freeze.ID, f.firstClusters()))
		switch end := f.until; {
		case end == nil || wait.Reason == "pin" || i > 0 && wait.Until.IsZero():
			wait.Until = time.Time{} // unknown
		case end.After(wait.Until):
			wait.Until = *end
		}
	}
	message := strings.Join(details, ", ")
	if step.Action == RolloutBack {
		return RolloutStep{Action: RolloutPause, Stage: step.Stage, Message: step.Message + "; it keeps the change: " + message}, nil
	}
	wait.Message = message
	return wait, nil
}

// Advances reports whether a rollout advances automatically now.
func Advances(d *Document) bool {
	return d.rollout().advances()
}

// EndPin unpins a cluster whose until has passed. The removals are not confirmed, so the guard also refuses those from a protected
// environment.
func (tx *Tx) EndPin(cluster string) error {
	tx.Guard(Guard{Careful: true})
	_, err := tx.PatchObject(KindCluster, cluster, map[string]any{"pinned": nil})
	return err
}
