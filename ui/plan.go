package ui

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// planView is the plan of a change, and the form that applies it.
type planView struct {
	frame
	changeForm

	Code          string   // error code of a refusal
	Refused       string   // message of a refusal
	Conflicts     []string // values that later revisions changed
	Empty         bool     // the plan changes nothing
	Incomplete    bool     // there is no plan yet
	Hidden        bool     // a value is masked
	Reveal        string
	Plan          api.Plan
	Documents     []documentGroup
	MoreDocuments int                  // not shown
	Adopted       []api.SourceDocument // that the source would manage
	Removes       string               // objects that Flux would uninstall; empty: none
	Groups        []groupView
	More          int // groups not shown

	Policies    []policyRow              // that failed, those that refuse first
	Frozen      []api.FrozenClusters     // the freezes that refuse the change
	Override    string                   // the command that makes it although a freeze refuses it, in place of the button; empty: none does
	RefusedBy   []string                 // policies that refuse the change
	MayOverride bool                     // the visitor may override them
	Ask         string                   // the command by which a second person can approve the plan; empty: an approval changes nothing
	AskLink     string                   // the address for that person; empty: none
	Stages      []api.RolloutStageStatus // of a rollout that would be created
	Automatic   bool                     // the server starts them
	File        string                   // the changed document as a file; empty: none
	FileHidden  bool                     // it has values that may be secrets
	Approve     string                   // the address of the approval that the change needs first; empty: none, or the token may not
	Offered     bool                     // the token may apply it here
	Denied      string                   // reason why the visitor's rights do not permit to apply it; empty: they do
	Problem     string                   // with the submitted form
	Reason      string                   // as submitted
	Protected   string                   // environments to type as confirmation of removals
}

// groupView is a group of clusters with the same effect.
type groupView struct {
	Clusters []string // the first
	More     int
	Lines    []effectLine
	Hidden   bool
}

// effectLine is one effect on the inputs of clusters, with the fields of a changed input.
type effectLine struct {
	Mark, Text, Note string
	Fields           []fieldChange
}

// maxGroups and maxGroupClusters limit the groups of a plan, and the clusters of a group, that are shown.
const (
	maxGroups        = 50
	maxGroupClusters = 8
)

// previewForm returns a handler that shows the plan of a form, and changes nothing.
func previewForm(makeForm func(*pageRequest) (changeForm, error)) func(*pageRequest) error {
	return func(req *pageRequest) error {
		p, err := req.form(makeForm)
		if err != nil {
			return err
		}
		return req.showPlan(p, http.StatusOK, "", "")
	}
}

// form makes a form, or the approval of its plan if the address asks for that.
func (req *pageRequest) form(makeForm func(*pageRequest) (changeForm, error)) (changeForm, error) {
	p, err := makeForm(req)
	if err != nil {
		return p, err
	}
	return p.approveFor(req)
}

// showPlan computes and shows the current plan, with the problem of a submitted form.
func (req *pageRequest) showPlan(p changeForm, status int, problem, reason string) error {
	view := planView{changeForm: p, Offered: req.page.cfg.Changes && req.mayApply(), Incomplete: p.incomplete(), Problem: problem, Reason: reason, Reveal: req.revealLink()}
	plan, err := req.plan(p)
	if err == nil {
		err = req.addEffect(p, plan)
	}
	if err == nil && p.Create != nil {
		view.Stages, view.Automatic, err = req.plannedStages(*p.Create)
	}
	refused, answered := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		if err := req.showRights(&view, plan); err != nil {
			return err
		}
		if err := req.showEffect(&view, *plan); err != nil {
			return err
		}
	case answered && p.explains(refused):
		req.showRefusal(&view, refused.Problem)
	default:
		return err
	}
	return req.showStatus(status, "plan", p.Headline, p.NavSection, &view)
}

// showRights fills in the policies and freezes that refuse a plan, and whether the visitor may make, override or approve it. It takes the
// warning that the visitor may not from the plan.
func (req *pageRequest) showRights(view *planView, plan *api.Plan) error {
	p := view.changeForm
	if view.Denied = takeDenial(plan); view.Denied != "" {
		view.Offered = false
	}
	view.Policies, view.RefusedBy = failedPolicies(*plan, p.Create != nil)
	if len(view.RefusedBy) > 0 && p.ApproveFor == "" {
		permitted, err := req.permitted(p, plan.PlanHash, view.Reason)
		if err != nil {
			return err
		}
		if permitted {
			view.Policies, view.RefusedBy = view.Policies[len(view.RefusedBy):], nil
		}
	}
	if needsApproval(view.Policies) {
		view.Ask, view.AskLink = approveCommand(plan.PlanHash, req.subject()), p.forApprover(req)
	}
	if p.ApproveFor != "" {
		view.Offered, view.Denied, view.RefusedBy = req.mayApprove() && needsApproval(view.Policies), "", nil
		view.Command = approveCommand(plan.PlanHash, p.ApproveFor)
	}
	view.MayOverride = len(view.RefusedBy) > 0 && p.Source == "" && (req.may("admin") || req.may("override_policy"))
	if view.Frozen = plan.Frozen; len(plan.Frozen) > 0 && p.Create == nil && p.ApproveFor == "" {
		view.Override = overrideCommand(p.Command, plan.Frozen, view.RefusedBy)
	}
	if p.Rollout != nil && awaitsApproval(plan) && req.mayChange(approving, kindRollout, p.Rollout.ID) {
		view.Approve = rolloutLink(p.Rollout.ID, "approve", p.Rollout.Stage)
	}
	return nil
}

// showEffect fills in what a plan changes.
func (req *pageRequest) showEffect(view *planView, plan api.Plan) error {
	plan.Warnings = otherWarnings(plan)
	view.Plan = plan
	view.Empty = len(view.Plan.Changes)+len(view.Plan.Adopted) == 0
	view.Protected = protectedEnvironments(view.Plan)
	view.Removes = summarize.RemovalSentence(view.Plan)
	groups := effectGroups(view.Plan.Groups, req.reveal())
	view.Groups = groups[:min(len(groups), maxGroups)]
	view.More = len(groups) - len(view.Groups)
	for _, group := range view.Groups {
		view.Hidden = view.Hidden || group.Hidden
	}
	if err := req.showDocuments(view); err != nil {
		return err
	}
	if view.Input == nil || view.Empty {
		return nil
	}
	var err error
	view.File, view.FileHidden, err = req.changedFile(view.Input.Kind(), &plan)
	return err
}

// showRefusal fills in the reason of a refusal. Details that may contain secrets are replaced.
func (req *pageRequest) showRefusal(view *planView, problem api.Problem) {
	view.Code, view.Refused = problem.Error, withoutOperation(problem.Detail)
	if !req.reveal() && redact.MentionsSecret(view.Refused) { // the message may contain values
		view.Refused, view.Hidden = "The change is refused. The reason may contain secrets.", true
	}
	for _, one := range problem.Errors {
		detail := one.Detail
		if !req.reveal() && (redact.IsSecret(one.Pointer) || redact.MentionsSecret(detail)) {
			detail, view.Hidden = "was changed by a later revision", true
		}
		view.Conflicts = append(view.Conflicts, withoutOperation(strings.TrimPrefix(one.Pointer+": "+detail, ": ")))
	}
	if len(view.Conflicts) == 1 && view.Conflicts[0] == view.Refused {
		view.Conflicts = nil
	}
}

// operationPointer is the part of a message that names an operation by its index.
var operationPointer = regexp.MustCompile(`^/operations/[0-9]+(/patch)?(: |/)`)

// withoutOperation returns a message without the operation that it names.
func withoutOperation(message string) string { return operationPointer.ReplaceAllString(message, "") }

// overrideCommand returns the command of a change with the freezes and policies that refuse it.
func overrideCommand(command string, frozen []api.FrozenClusters, policies []string) string {
	for _, f := range frozen {
		command += " --override-freeze " + f.Freeze
	}
	for _, id := range policies {
		command += " --override-policy " + id
	}
	return command + ` --reason "…"`
}

// otherWarnings returns the warnings of a plan but for those about policies and freezes, which the page shows on their own.
func otherWarnings(plan api.Plan) []string {
	return slices.DeleteFunc(summarize.OtherWarnings(plan), func(warning string) bool {
		return slices.ContainsFunc(plan.Policies, func(v api.PolicyVerdict) bool {
			return v.Failed && warning == fmt.Sprintf("the change needs the approval of another person: policy %q: %s", v.ID, v.Message)
		}) || slices.ContainsFunc(plan.Frozen, func(f api.FrozenClusters) bool {
			return strings.HasPrefix(warning, "the change would be refused: ") && strings.Contains(warning, fmt.Sprintf("which freeze %q (%s) forbids", f.Freeze, f.Reason))
		})
	})
}

// maxPlanDocuments is the number of documents of a plan that are shown.
const maxPlanDocuments = 200

// showDocuments fills in the documents that a plan changes, deletions first, since not every change of a document has an effect on
// clusters. Fields are shown where the form provides them.
func (req *pageRequest) showDocuments(view *planView) error {
	var known documentFields
	if view.fields != nil && !view.Empty {
		var err error
		if known, err = view.fields(req); err != nil {
			return err
		}
	}
	changes := slices.Clone(view.Plan.Changes)
	var documents []documentView
	order := []string{"delete", "update", "create"}
	slices.SortStableFunc(changes, func(a, b api.ChangeRef) int {
		return slices.Index(order, a.Action) - slices.Index(order, b.Action)
	})
	for _, ch := range changes[:min(len(changes), maxPlanDocuments)] {
		doc := documentView{Kind: ch.Kind, ID: ch.ID, Action: ch.Action}
		if ch.Action != "create" { // it does not exist yet
			doc.Link = linkTo(ch.Kind, ch.ID)
		}
		if ch.Action == "update" {
			doc.Fields = known[api.ChangeRef{Kind: ch.Kind, ID: ch.ID}]
		}
		view.Hidden = view.Hidden || anyHidden(doc.Fields)
		documents = append(documents, doc)
	}
	view.Adopted = view.Plan.Adopted[:min(len(view.Plan.Adopted), maxPlanDocuments)]
	view.Documents = groupDocuments(documents)
	view.MoreDocuments = len(changes) - len(documents)
	return nil
}

// protectedEnvironments returns the protected environments in which a plan removes objects, separated by commas. The user types them to
// confirm.
func protectedEnvironments(plan api.Plan) string {
	var names []string
	for _, loss := range plan.Protected {
		names = append(names, loss.Environment)
	}
	return strings.Join(names, ",")
}

// submitForm returns a handler that applies a form with the hash of the plan that was shown.
func submitForm(makeForm func(*pageRequest) (changeForm, error)) func(*pageRequest) error {
	return func(req *pageRequest) error {
		if !req.mayApply() {
			return errMayNotWrite
		}
		p, err := req.form(makeForm)
		if err != nil {
			return err
		}
		return req.apply(p)
	}
}

// apply applies a form. It shows the plan again if the reason or the confirmation is missing or the fleet has changed since.
func (req *pageRequest) apply(p changeForm) error {
	reason, hash := req.reason(), req.r.PostFormValue("plan_hash")
	switch {
	case p.incomplete():
		return req.showPlan(p, http.StatusBadRequest, "Fill in the fields first.", reason)
	case hash == "":
		return req.showPlan(p, http.StatusBadRequest, "View the plan first.", reason)
	case reason == "":
		return req.showPlan(p, http.StatusBadRequest, "Enter a reason: it is stored with the revision.", reason)
	case req.r.PostFormValue("check") != "": // whether policies permit the change for the reason
		return req.showPlan(p, http.StatusOK, "", reason)
	}
	plan, err := req.plan(p)
	if refused, answered := errors.AsType[*client.Error](err); err != nil && (!answered || !p.explains(refused)) { // a refusal is shown below
		return err
	}
	if p.ApproveFor != "" && (err != nil || plan.PlanHash != hash) { // the API approves any hash
		return req.showPlan(p, http.StatusPreconditionFailed, "The fleet has changed since this plan was made, so nothing was approved. This is the new plan.", reason)
	}
	typed := p.Confirm
	if typed == "" && err == nil {
		typed = protectedEnvironments(*plan)
	}
	if typed != "" && typed != strings.TrimSpace(req.r.PostFormValue("confirm")) {
		return req.showPlan(p, http.StatusBadRequest, "Type "+typed+" to confirm.", reason)
	}
	// The hash makes the API refuse a change whose effect differs from the plan that was shown.
	next, err := req.change(p, hash, reason)
	if refused, answered := errors.AsType[*client.Error](err); answered && (refused.Problem.Error == client.CodeStale || p.explains(refused)) {
		problem := refused.Problem.Detail
		if refused.Problem.Error == client.CodeStale {
			problem = "The fleet has changed since this plan was made, so nothing was done. This is the new plan."
		}
		return req.showPlan(p, refused.StatusCode, problem, reason)
	}
	if err != nil {
		return err
	}
	req.redirect(next)
	return nil
}

// effectGroups groups clusters by the effect of a plan, groups with removals first.
func effectGroups(groups []api.EffectGroup, reveal bool) (out []groupView) {
	of := map[string][]summarize.EffectLine{}
	var removing, others []summarize.Group
	for _, group := range groups {
		lines, removes := summarize.EffectLines(group)
		g := summarize.Group{Names: group.Clusters}
		for _, l := range lines {
			line := summarize.Line{Text: fmt.Sprintln(l.Kind, l.Text, l.Note)}
			if l.Kind == summarize.EffectField {
				line.Values = valueText(l.Field.Before) + "\x00" + valueText(l.Field.After)
			}
			g.Lines = append(g.Lines, line)
		}
		for _, id := range group.Clusters {
			of[id] = lines
		}
		if removes {
			removing = append(removing, g)
		} else {
			others = append(others, g)
		}
	}
	for _, g := range append(summarize.Regroup(removing, false), summarize.Regroup(others, false)...) {
		out = append(out, showGroup(g, of[g.Names[0]], reveal))
	}
	return out
}

// showGroup formats a group of clusters from the effect on one of them.
func showGroup(g summarize.Group, lines []summarize.EffectLine, reveal bool) groupView {
	out := groupView{Clusters: g.Names[:min(len(g.Names), maxGroupClusters)]}
	out.More = len(g.Names) - len(out.Clusters)
	list := ""
	for i, l := range lines {
		switch l.Kind {
		case summarize.EffectForgotten:
			out.Lines = append(out.Lines, effectLine{Mark: "~", Text: l.Note})
		case summarize.EffectList:
			list = strings.TrimSuffix(l.Text, "s")
		case summarize.EffectRemoved:
			out.Lines = append(out.Lines, effectLine{Mark: "-", Text: list + " " + l.Text, Note: "REMOVED: " + l.Note})
		case summarize.EffectChanged:
			line := effectLine{Mark: "~", Text: list + " " + l.Text}
			if l.Note != "" {
				line.Note = "REMOVED: " + l.Note
			}
			out.Lines = append(out.Lines, line)
		case summarize.EffectField:
			field := maskedChange(l.Field.Pointer, valueText(l.Field.Before), valueText(l.Field.After), reveal)
			field.Field, field.Values = l.Text, g.Lines[i].Ways
			out.Hidden = out.Hidden || field.Hidden
			input := &out.Lines[len(out.Lines)-1]
			input.Fields = append(input.Fields, field)
		case summarize.EffectAdded:
			out.Lines = append(out.Lines, effectLine{Mark: "+", Text: list + " " + l.Text, Note: l.Note})
		case summarize.EffectReordered:
			out.Lines = append(out.Lines, effectLine{Mark: "~", Text: "order of the inputs"})
		}
	}
	return out
}
