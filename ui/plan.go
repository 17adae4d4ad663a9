package ui

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// planView is what a proposal would do, and the form that does it.
type planView struct {
	frame
	proposal

	Code      string   // why the API refuses it
	Refused   string   // the same in words
	Conflicts []string // what was changed again since
	Empty     bool     // nothing is left to do
	Hidden    bool     // something is masked
	Reveal    string
	Plan      api.Plan
	Documents []documentGroup
	Left      int    // documents that are not shown
	Removes   string // what Flux would uninstall; empty: nothing
	Groups    []groupView
	More      int // groups that are not shown

	Offered   bool   // the visitor may do it here
	Problem   string // with what they sent
	Reason    string // that they gave
	Protected string // what they have to type, because something goes from there
}

// groupView is what the same would happen to some clusters.
type groupView struct {
	Clusters []string // the first
	More     int
	Lines    []effectLine
	Hidden   bool
}

// effectLine is a line of what happens to the inputs of clusters, with the fields of an input that changes.
type effectLine struct {
	Mark, Text, Note string
	Fields           []fieldChange
}

// groupsShown and groupClusters are how much of a plan is shown.
const (
	groupsShown   = 50
	groupClusters = 8
)

// planned shows what a proposal would do. It does nothing.
func planned(propose func(*visit) (proposal, error)) func(*visit) error {
	return func(v *visit) error {
		p, err := propose(v)
		if err != nil {
			return err
		}
		return v.showPlan(p, http.StatusOK, "", "")
	}
}

// refusals are answers that mean that something cannot be done as it is.
var refusals = []int{http.StatusBadRequest, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity}

// showPlan shows the plan as it is now, with what was wrong with the one that was sent.
func (v *visit) showPlan(p proposal, status int, problem, reason string) error {
	view := planView{proposal: p, Offered: v.offers(), Problem: problem, Reason: reason, Reveal: v.revealed()}
	plan, err := v.fleet.PlanWithResponse(v.r.Context(), nil, api.BatchRequest{Operations: []api.Operation{p.Operation}})
	refused, answered := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		view.Plan = *plan.JSON200
		view.Empty = len(view.Plan.Changes) == 0
		view.Protected = protected(view.Plan)
		view.Removes = summarize.RemovalSentence(view.Plan)
		groups := effectGroups(view.Plan.Groups, v.reveal())
		view.Groups = groups[:min(len(groups), groupsShown)]
		view.More = len(groups) - len(view.Groups)
		for _, group := range view.Groups {
			view.Hidden = view.Hidden || group.Hidden
		}
		if err := v.showDocuments(&view); err != nil {
			return err
		}
	case answered && slices.Contains(refusals, refused.StatusCode):
		v.showRefusal(&view, refused.Problem)
	default:
		return err
	}
	view.frame = v.frame(p.Headline, p.In)
	v.page.render(v.w, v.r, status, "plan", view)
	return nil
}

// showRefusal says why the API does not do it.
func (v *visit) showRefusal(view *planView, problem api.Problem) {
	view.Code, view.Refused = problem.Error, problem.Detail
	if !v.reveal() && secretName.MatchString(view.Refused) { // it names the values
		view.Refused, view.Hidden = "It cannot be done as it is.", true
	}
	for _, one := range problem.Errors {
		detail := one.Detail
		if !v.reveal() && (named(one.Pointer) || secretName.MatchString(detail)) {
			detail, view.Hidden = "was changed again since", true
		}
		view.Conflicts = append(view.Conflicts, strings.TrimSpace(one.Pointer+" "+detail))
	}
}

// documentsOfPlan is how many documents of a plan are named.
const documentsOfPlan = 200

// showDocuments names the documents that a plan changes, what goes first: not everything that changes a document is seen by a
// cluster that polls. Of those of which that is known, the fields are shown.
func (v *visit) showDocuments(view *planView) error {
	var known fieldsOf
	if view.fields != nil && !view.Empty {
		var err error
		if known, err = view.fields(v); err != nil {
			return err
		}
	}
	changes := slices.Clone(view.Plan.Changes)
	var documents []documentView
	order := []string{"delete", "update", "create"}
	slices.SortStableFunc(changes, func(a, b api.ChangeRef) int {
		return slices.Index(order, a.Action) - slices.Index(order, b.Action)
	})
	for _, ch := range changes[:min(len(changes), documentsOfPlan)] {
		doc := documentView{Kind: ch.Kind, ID: ch.ID, Action: ch.Action, Link: linkTo(ch.Kind, ch.ID)}
		if ch.Action == "update" {
			doc.Fields = known[api.ChangeRef{Kind: ch.Kind, ID: ch.ID}]
		}
		for _, f := range doc.Fields {
			view.Hidden = view.Hidden || f.Hidden
		}
		documents = append(documents, doc)
	}
	view.Documents = groupDocuments(documents)
	view.Left = len(changes) - len(documents)
	return nil
}

// protected is what somebody types who means it: the protected environments from which something would go.
func protected(plan api.Plan) string {
	var names []string
	for _, loss := range plan.Protected {
		names = append(names, loss.Environment)
	}
	return strings.Join(names, ",")
}

// done does what is proposed, by the plan that the visitor has seen.
func done(propose func(*visit) (proposal, error)) func(*visit) error {
	return func(v *visit) error {
		if !v.may("write") {
			return errMayNotWrite
		}
		p, err := propose(v)
		if err != nil {
			return err
		}
		return v.do(p)
	}
}

func (v *visit) do(p proposal) error {
	reason, hash := strings.TrimSpace(v.r.PostFormValue("reason")), v.r.PostFormValue("plan_hash")
	switch {
	case hash == "":
		return v.showPlan(p, http.StatusBadRequest, "Look at the plan first.", reason)
	case reason == "":
		return v.showPlan(p, http.StatusBadRequest, "Say why: it is kept with the revision.", reason)
	}
	operations := []api.Operation{p.Operation}
	plan, err := v.fleet.PlanWithResponse(v.r.Context(), nil, api.BatchRequest{Operations: operations})
	if refused, answered := errors.AsType[*client.Error](err); err != nil && (!answered || !slices.Contains(refusals, refused.StatusCode)) { // which is said below
		return err
	}
	if err == nil && protected(*plan.JSON200) != "" && protected(*plan.JSON200) != strings.TrimSpace(v.r.PostFormValue("confirm")) {
		return v.showPlan(p, http.StatusBadRequest, "Type "+protected(*plan.JSON200)+" if something is to go from there.", reason)
	}
	// With the hash nothing else is taken from anywhere than what was shown.
	made, err := v.fleet.ApplyBatchWithResponse(v.r.Context(), nil, api.BatchRequest{Operations: operations, PlanHash: hash, Reason: reason})
	if refused, answered := errors.AsType[*client.Error](err); answered && (refused.Problem.Error == client.CodeStale || slices.Contains(refusals, refused.StatusCode)) {
		problem := refused.Problem.Detail
		if refused.Problem.Error == client.CodeStale {
			problem = "The fleet has changed since you looked, and nothing was done. This is what it would do now."
		}
		return v.showPlan(p, refused.StatusCode, problem, reason)
	}
	if err != nil {
		return err
	}
	v.goTo(fmt.Sprintf("%s/changes/%d", prefix, made.JSON200.Revision))
	return nil
}

// errMayNotWrite: the token may only read.
var errMayNotWrite = errors.New("your token may read the fleet, and not change it")

// effectGroups groups clusters by what a plan does to them, those from which something is removed first.
func effectGroups(groups []api.EffectGroup, reveal bool) (out []groupView) {
	of := map[string][]summarize.EffectLine{}
	var losing, others []summarize.Group
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
			losing = append(losing, g)
		} else {
			others = append(others, g)
		}
	}
	for _, g := range append(summarize.Regroup(losing, false), summarize.Regroup(others, false)...) {
		out = append(out, showGroup(g, of[g.Names[0]], reveal))
	}
	return out
}

// showGroup shows a group of clusters by the lines of one of them.
func showGroup(g summarize.Group, lines []summarize.EffectLine, reveal bool) groupView {
	out := groupView{Clusters: g.Names[:min(len(g.Names), groupClusters)]}
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
			field := fieldChange{Field: l.Text, Ways: g.Lines[i].Ways}
			var was, is bool
			field.Before, was = maskJSON(l.Field.Pointer, valueText(l.Field.Before), reveal)
			field.After, is = maskJSON(l.Field.Pointer, valueText(l.Field.After), reveal)
			field.Hidden = was || is
			out.Hidden = out.Hidden || field.Hidden
			input := &out.Lines[len(out.Lines)-1]
			input.Fields = append(input.Fields, field)
		case summarize.EffectAdded:
			out.Lines = append(out.Lines, effectLine{Mark: "+", Text: list + " " + l.Text, Note: l.Note})
		case summarize.EffectReordered:
			out.Lines = append(out.Lines, effectLine{Mark: "~", Text: "the order of the inputs"})
		}
	}
	return out
}
