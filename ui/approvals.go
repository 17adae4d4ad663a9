package ui

import (
	"errors"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// maxApprovalRows is the number of awaited approvals that are shown: each needs two plans.
const maxApprovalRows = 20

// approvalRow is an approval that a stage of a rollout or a source waits for.
type approvalRow struct {
	Text, Link string      // the stage, or the source
	By         string      // the actor who asked for it; empty: unknown
	Policies   []policyRow // of action approve, that fail
	Message    string
	Clusters   int
	Approve    string // the address of the form; empty: the visitor may not
	Denied     string // why
}

type approvalsView struct {
	frame
	Rows    []approvalRow
	More    int
	Given   []api.Approval // that were not used
	Subject string         // the visitor, who may make the changes that are approved for them
}

// showApprovals lists the approvals that rollouts and sources wait for, and those that were given and not used.
func showApprovals(req *pageRequest) error {
	rollouts, sources, err := req.awaitedApprovals()
	if err != nil {
		return err
	}
	var view approvalsView
	shown := min(len(rollouts), maxApprovalRows)
	view.More = len(rollouts) - shown
	for _, r := range rollouts[:shown] {
		row, err := req.approvalOfStage(r)
		if err != nil {
			return err
		}
		view.Rows = append(view.Rows, row)
	}
	for _, s := range sources {
		row := approvalRow{Text: "Artifact of source " + s.ID, Link: link("sources"), By: "source/" + s.ID, Message: s.Status.Held.Message}
		if row.Approve = link("sources", s.ID, "approve"); !req.mayChangeSources() {
			row.Approve, row.Denied = "", changesOff
		}
		view.Rows = append(view.Rows, row)
	}
	given, err := req.fleet.ListApprovalsWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	view.Given, view.Subject = *given.JSON200, req.subject()
	return req.show("approvals", "Approvals", "definitions", &view)
}

// awaitedApprovals returns the rollouts whose next stage waits for an approval, and for administrators the sources with a held artifact that
// somebody can approve.
func (req *pageRequest) awaitedApprovals() (rollouts []api.Rollout, sources []api.Source, err error) {
	list, err := req.visibleRollouts()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range list {
		if awaitsPerson(r) {
			rollouts = append(rollouts, r)
		}
	}
	if !req.may("admin") {
		return rollouts, nil, nil
	}
	held, err := req.fleet.ListSourcesWithResponse(req.r.Context(), nil)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range *held.JSON200 {
		if h := s.Status.Held; h != nil && h.PlanHash != "" && !h.Approved && !s.Suspended {
			sources = append(sources, s)
		}
	}
	return rollouts, sources, nil
}

// Parts of the reason for which a policy paused a rollout.
const (
	pausedForApproval = "another person can approve the plan "
	pausedSinceEnded  = "the approval does not count, since "
)

// awaitsPerson reports whether the next stage of a rollout waits for an approval.
func awaitsPerson(r api.Rollout) bool {
	return r.Started < len(r.Stages) && (r.Waiting != nil && r.Waiting.Reason == "approval" || r.State == "paused" && strings.Contains(r.PausedBecause, pausedForApproval))
}

// endedApproval returns why the approval of the next stage of a rollout does not count; empty: it counts, or there is none. plan is that of its
// start; nil: it is not known.
func endedApproval(r api.Rollout, plan *api.Plan) string {
	if r.Started >= len(r.Stages) {
		return ""
	}
	stage := r.Stages[r.Started]
	switch {
	case stage.ApprovalEnded != "" || stage.ApprovedBy == "":
		return stage.ApprovalEnded
	case r.State == "paused":
		_, since, _ := strings.Cut(r.PausedBecause, pausedSinceEnded)
		since, _, _ = strings.Cut(since, "; "+pausedForApproval)
		return since
	case plan != nil:
		for _, v := range plan.Policies {
			if v.ApprovalEnded != "" {
				return v.ApprovalEnded
			}
		}
	}
	return ""
}

// ownChange is the reason for which an approval does not count for some people: the approver can give it to them as often as it likes.
const ownChange = "the approver makes the change, or is its author"

// approvableAgain reports whether another approval of the next stage of a rollout by the visitor may count, although it has one that ended.
func (req *pageRequest) approvableAgain(r api.Rollout, ended string) bool {
	return ended != "" && (ended != ownChange || r.Stages[r.Started].ApprovedBy != req.identity.Actor)
}

const changesOff = "This page makes no changes."

// approvalOfStage returns the approval that the next stage of a rollout waits for.
func (req *pageRequest) approvalOfStage(r api.Rollout) (approvalRow, error) {
	stage := r.Stages[r.Started]
	row := approvalRow{Text: "Stage " + stage.Name + " of rollout " + r.ID, Link: link("rollouts", r.ID), By: r.Author, Message: r.PausedBecause, Clusters: stage.Clusters}
	if r.Waiting != nil {
		row.Message = r.Waiting.Message
	}
	if req.mayPlan() && r.State != "paused" {
		plan, err := req.planRollout(rolloutChange{ID: r.ID, Action: "start", Stage: stage.Name})
		if refused, answered := errors.AsType[*client.Error](err); err != nil && (!answered || !explained(refused)) {
			return row, err
		}
		if err == nil {
			row.Clusters = plan.Totals.Clusters
			for _, v := range plan.Policies {
				if v.Failed && v.Action == "approve" && v.ApprovedBy == "" {
					row.Policies = append(row.Policies, policyRow{PolicyVerdict: v})
				}
			}
		}
	}
	switch {
	case !stage.Approval:
		row.Denied = "Approve the plan that the message names, and resume the rollout."
	case !req.page.cfg.Changes:
		row.Denied = changesOff
	case !req.mayChange(approving, kindRollout, r.ID):
		row.Denied = "Your token may not approve it."
	case (len(row.Policies) > 0 || r.State == "paused") && r.Author != "" && r.Author == req.identity.Actor:
		row.Denied = "You created it: another person must approve it."
	default:
		_, err := req.planRollout(rolloutChange{ID: r.ID, Action: "approve", Stage: stage.Name})
		refused, answered := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			row.Approve = rolloutLink(r.ID, "approve", stage.Name)
		case answered && explained(refused):
			row.Denied = refused.Problem.Detail
		default:
			return row, err
		}
	}
	return row, nil
}

// forApprover returns the address of a plan for the person who approves it for the visitor; empty: it has none.
func (p changeForm) forApprover(req *pageRequest) string {
	if !p.approvable() || p.Input != nil && p.Input.Values != "" { // values are in no address
		return ""
	}
	return req.addressWith("approve_for", req.subject())
}

// approvable reports whether one person can approve the plan of the form for another.
func (p changeForm) approvable() bool {
	return p.Source == "" && p.Freeze == nil && p.Create == nil && p.Effect == nil
}

// approveFor turns the form into the approval of its plan for another person, if its address asks for that.
func (p changeForm) approveFor(req *pageRequest) (changeForm, error) {
	subject := req.query("approve_for")
	switch {
	case subject == "" || subject == req.subject():
		return p, nil
	case !p.approvable():
		return p, errNotApprovable
	}
	p.ApproveFor, p.Button, p.Destructive, p.Confirm = subject, "Approve for "+subject, false, ""
	p.Headline = "Approve: " + p.Headline
	p.Notes = []string{subject + " may make this change once, within 24 hours, while no policy is changed."}
	p.Crumbs = []pageLink{{"Approvals", link("approvals")}}
	return p, nil
}

// mayApprove reports whether the visitor may approve changes of others.
func (req *pageRequest) mayApprove() bool {
	return req.page.cfg.Changes && (req.may("write") || req.may("admin") || req.may("approve"))
}

// countApprovals returns the number of awaited approvals, for a visitor who may approve.
func (req *pageRequest) countApprovals() (int, error) {
	if !req.mayApprove() {
		return 0, nil
	}
	rollouts, sources, err := req.awaitedApprovals()
	return len(rollouts) + len(sources), err
}

// approveCommand returns the command that approves a plan.
func approveCommand(hash, subject string) string {
	return "frs approve " + hash + " --for " + summarize.ShellWord(subject)
}
