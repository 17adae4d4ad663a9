package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// rolloutAction is a button of a rollout.
type rolloutAction struct {
	Label, Link string
	Primary     bool
}

// rolloutLink returns the address of the form for an action, on a stage if it concerns one.
func rolloutLink(id, action, stage string) string {
	address := link("rollouts", id, action)
	if stage != "" {
		address += "?stage=" + stage // a DNS label
	}
	return address
}

// urgent reports whether the action approves a stage, or takes it back.
func (a rolloutAction) urgent(id string) bool {
	return strings.HasPrefix(a.Link, link("rollouts", id, "approve")) || strings.HasPrefix(a.Link, link("rollouts", id, "back"))
}

// permittedActions returns the actions that the state of a rollout and the visitor's rights allow. again: the next stage needs an approval although
// it has one.
func (req *pageRequest) permittedActions(r api.Rollout, again bool) []rolloutAction {
	may := map[bool]bool{true: req.mayChange(approving, kindRollout, r.ID), false: req.mayChange(runningRollout, kindRollout, r.ID)}
	if !may[true] && !may[false] {
		return nil
	}
	actions := slices.DeleteFunc(rolloutActions(r, again), func(a rolloutAction) bool {
		return !may[strings.HasPrefix(a.Link, link("rollouts", r.ID, "approve"))]
	})
	for i := range actions {
		actions[i].Primary = i == 0
	}
	return actions
}

// rolloutActions returns the actions that the state of a rollout allows.
func rolloutActions(r api.Rollout, again bool) (out []rolloutAction) {
	add := func(allowed bool, action, label string, stage int) {
		if !allowed {
			return
		}
		name := ""
		if stage >= 0 {
			name = r.Stages[stage].Name
			label += " stage " + name
		}
		out = append(out, rolloutAction{label + "…", rolloutLink(r.ID, action, name), len(out) == 0})
	}
	open, paused, last := openRollout(r.State), r.State == "paused", len(r.Stages)-1
	advances := open && !paused
	next := min(r.Started, last)
	approvable := open && r.Started <= last && r.Stages[next].Approval && (r.Stages[next].ApprovedBy == "" || again)
	failed := open && r.Started > 0 && slices.ContainsFunc(r.Stages[:r.Started], func(s api.RolloutStageStatus) bool { return s.Progress != nil && s.Progress.Failed > 0 })
	add(failed, "back", "Roll back", r.Started-1) // the first thing to do: it is the primary button
	add(approvable, "approve", "Approve", next)
	add(advances && r.Started <= last && !approvable, "start", "Start", next)
	add(advances && r.Started > last, "complete", "Complete", -1)
	add(paused, "resume", "Resume", -1)
	add(advances, "pause", "Pause", -1)
	add(advances && r.Started < last && !approvable, "skip", "Skip", next)
	add(open && r.Started > 0 && !failed, "back", "Roll back", max(r.Started-1, 0))
	add(open, "abort", "Abort", -1)
	return out
}

// rolloutForms are the texts of the actions on rollouts.
var rolloutForms = map[string]changeForm{
	"start":    {Button: "Start", Notes: []string{"The clusters of this stage are served the change."}},
	"approve":  {Button: "Approve", Notes: []string{"This stage may start."}},
	"pause":    {Button: "Pause", Notes: []string{"No stage can start until the rollout is resumed. Clusters keep what they are served."}},
	"resume":   {Button: "Resume", Notes: []string{"Stages can start again."}},
	"skip":     {Button: "Skip", Notes: []string{"The stage is skipped. Its clusters move to the next stage that selects them."}},
	"back":     {Button: "Roll back", Notes: []string{"The clusters of this stage lose the change, and the rollout is paused."}, Destructive: true},
	"abort":    {Button: "Abort", Notes: []string{"All clusters lose the change. An aborted rollout cannot be resumed."}, Destructive: true},
	"complete": {Button: "Complete", Notes: []string{"The change of the documents is committed. All clusters already receive it."}},
}

// rolloutForm runs an action on a rollout.
func rolloutForm(req *pageRequest) (changeForm, error) {
	id, action, stage := req.r.PathValue("id"), req.r.PathValue("action"), req.query("stage")
	form, ok := rolloutForms[action]
	if !ok {
		return form, errNotFound
	}
	form.Headline = form.Button + " " + id
	form.Command = "frs rollout " + action + " " + id
	if stage != "" {
		form.Headline = fmt.Sprintf("%s stage %s of %s", form.Button, stage, id)
		form.Command += " --stage " + summarize.ShellWord(stage)
	}
	form.NavSection, form.NoChange = "rollouts", "There is nothing to change."
	form.Crumbs = []pageLink{{"Rollouts", link("rollouts")}, {id, link("rollouts", id)}}
	form.Rollout = &rolloutChange{ID: id, Action: action, Stage: stage}
	if action == "approve" {
		form.Effect = &rolloutChange{ID: id, Action: "start", Stage: stage}
	}
	return form, nil
}

// addEffect shows the effect of the start of a stage in the plan of its approval, which has none. A stage that does not start next
// has no plan yet: its effect depends on the stages before it.
func (req *pageRequest) addEffect(p changeForm, plan *api.Plan) error {
	if p.Effect == nil {
		return nil
	}
	effect, err := req.planRollout(*p.Effect)
	if refused, answered := errors.AsType[*client.Error](err); answered && slices.Contains(refusalStatuses, refused.StatusCode) {
		plan.Warnings = append(plan.Warnings, "the effect of the stage is not known yet: "+refused.Problem.Detail)
		return nil
	}
	if err != nil {
		return err
	}
	plan.Groups, plan.Totals = effect.Groups, effect.Totals
	for _, warning := range effect.Warnings {
		if !slices.ContainsFunc(effect.Waiting, func(w api.RolloutWaiting) bool {
			return w.Reason == "approval" && strings.HasSuffix(warning, w.Message)
		}) {
			plan.Warnings = append(plan.Warnings, warning)
		}
	}
	return nil
}

// awaitsApproval reports whether a plan starts a stage that needs an approval first.
func awaitsApproval(plan *api.Plan) bool {
	return slices.ContainsFunc(plan.Waiting, func(w api.RolloutWaiting) bool { return w.Reason == "approval" })
}

func openRollout(state string) bool { return state != "completed" && state != "aborted" }
