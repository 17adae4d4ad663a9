package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// rolloutRow is a row of a list of rollouts.
type rolloutRow struct {
	ID, State, Description string
	Changes                string   // the documents
	Components             []string // of these documents
	Next                   string   // the next stage; empty: none
	Served, Clusters       int      // clusters that are served the change, and all
	Bar                    stateBar // of the clusters whose inputs change
	Waiting                string   // the condition that it waits for, or why it is paused
	Until                  *time.Time
	NeedsAttention         bool
	Act                    rolloutAction // to take at once: approve a stage, or take it back after failures; empty: none, or the visitor may not
}

// open reports whether the rollout is neither completed nor aborted.
func (r rolloutRow) Open() bool { return openRollout(r.State) }

// rolloutRows returns the rows of rollouts, those that need attention first, then other open ones.
func (req *pageRequest) rolloutRows(rollouts []api.Rollout) []rolloutRow {
	rows := make([]rolloutRow, 0, len(rollouts))
	for _, r := range rollouts {
		row := makeRolloutRow(r)
		if row.NeedsAttention {
			if actions := req.permittedActions(r, req.approvableAgain(r, endedApproval(r, nil))); len(actions) > 0 && actions[0].urgent(r.ID) {
				row.Act = actions[0]
			}
		}
		rows = append(rows, row)
	}
	rank := func(r rolloutRow) int {
		switch {
		case r.NeedsAttention:
			return 0
		case r.Open():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b rolloutRow) int { return rank(a) - rank(b) })
	return rows
}

// personalReasons are the reasons of a wait that only a person ends.
var personalReasons = []string{"approval", "guard"}

func makeRolloutRow(r api.Rollout) rolloutRow {
	row := rolloutRow{ID: r.ID, State: r.State, Description: r.Description, Waiting: r.PausedBecause}
	counts := api.StatusCounts{}
	for i, s := range r.Stages {
		row.Clusters += s.Clusters
		row.Served += summarize.ServedClusters(&r, i)
		addProgress(counts, s.Progress)
		if i == r.Started && row.Open() {
			row.Next = s.Name
		}
	}
	row.Bar = makeStateBar(counts, nil)
	if r.Waiting != nil {
		row.Waiting, row.Until = r.Waiting.Message, r.Waiting.Until
	}
	var documents []string
	for _, ch := range r.Changes {
		documents = append(documents, kindName(ch.Kind)+" "+ch.ID)
		if ch.Kind == client.KindPlatformComponent {
			row.Components = append(row.Components, ch.ID)
		}
	}
	row.Changes = strings.Join(documents, ", ")
	row.NeedsAttention = r.State == "paused" || row.Open() && counts["failed"] > 0 || r.Waiting != nil && slices.Contains(personalReasons, r.Waiting.Reason)
	return row
}

// addProgress adds the clusters of a stage by their states; offline clusters are silent.
func addProgress(counts api.StatusCounts, p *api.RolloutProgress) {
	if p == nil {
		return
	}
	for state, n := range map[string]int{"confirmed": p.Confirmed, "progressing": p.Pending, "behind": p.Behind, "unknown": p.Unknown, "failed": p.Failed, "silent": p.Offline} {
		if n > 0 {
			counts[state] += n
		}
	}
}

type rolloutsView struct {
	frame
	Rows []rolloutRow
}

// showRollouts lists all rollouts.
func showRollouts(req *pageRequest) error {
	list, err := req.fleet.ListRolloutsWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	view := rolloutsView{Rows: req.rolloutRows(*list.JSON200)}
	return req.show("rollouts", "Rollouts", "rollouts", &view)
}

type rolloutView struct {
	frame
	Rollout    api.Rollout
	ProposedBy string   // the version policies; empty: a person created it
	Components []string // that have these policies
	Row        rolloutRow
	Stages     []stageRow
	Failures   []stageFailure
	MoreFailed int // failed clusters not listed
	Incomplete bool
	Groups     []documentGroup
	Hidden     bool
	Actions    []rolloutAction
	Gate       string     // of most stages; empty: they have none
	Next       *nextStage // nil: none, or not computed for a refresh
	Strip      *strip     // nil: none
	Changes    []changeRow
}

// stageRow is a stage of a rollout.
type stageRow struct {
	api.RolloutStageStatus

	Selection string
	Served    int // clusters
	Bar       stateBar
	Gate      string // if it differs from that of the rollout
	Approval  string // empty: none is needed
	Waits     bool   // the rollout waits in it, or to start it
}

// stageFailure is a failed cluster of a stage.
type stageFailure struct {
	Stage, Cluster string
	Failure        api.Failure
}

// nextStage is the plan of the stage that starts next.
type nextStage struct {
	Stage, Link, Refused, Removes string
	Totals                        api.PlanTotals
	Warnings                      []string // also what it waits for
}

// showRollout shows one rollout: its stages, failures and change, and the plan of the next stage.
func showRollout(req *pageRequest) error {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetRolloutWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	r := *doc.JSON200
	view := rolloutView{Rollout: r, Row: makeRolloutRow(r)}
	view.Incomplete = !r.Complete && view.Row.Bar.All > 0
	var start *api.Plan
	if view.Row.Next != "" && req.mayPlan() && (!isRefresh(req.r) || r.Stages[r.Started].ApprovedBy != "") { // whether the approval counts is shown always
		if view.Next, start, err = req.planNextStage(id, view.Row.Next); err != nil {
			return err
		}
	}
	ended := endedApproval(r, start)
	if r.Automation != "" {
		view.ProposedBy = summarize.ProposedBy(r.Automation)
		for _, v := range r.Versions {
			if !slices.Contains(view.Components, v.Component) {
				view.Components = append(view.Components, v.Component)
			}
		}
	}
	if r.Advance == "automatic" {
		view.Gate = commonGate(r.Stages)
	}
	for i, s := range r.Stages {
		row := stageRow{RolloutStageStatus: s, Selection: summarize.StageSelection(s), Served: summarize.ServedClusters(&r, i)}
		counts := api.StatusCounts{}
		addProgress(counts, s.Progress)
		row.Bar = makeStateBar(counts, nil)
		if gate := gateText(s.Gate); r.Advance == "automatic" && gate != view.Gate {
			row.Gate = gate
		}
		switch {
		case s.ApprovedBy != "":
			if row.Approval = "approved by " + s.ApprovedBy; i == r.Started && ended != "" {
				row.Approval += ", which does not count: " + ended
			}
		case s.Approval && i >= r.Started && view.Row.Open():
			if row.Approval = "needs approval"; s.ApprovalEnded != "" {
				row.Approval += ": " + s.ApprovalEnded
			}
		}
		row.Waits = r.Waiting != nil && r.Waiting.Stage == s.Name
		if s.Progress != nil {
			view.MoreFailed += s.Progress.Failed - len(s.Progress.Failures)
			for _, f := range s.Progress.Failures {
				view.Failures = append(view.Failures, stageFailure{s.Name, f.ClusterID, f.Failure})
			}
		}
		view.Stages = append(view.Stages, row)
	}
	if err := view.showChanges(req); err != nil {
		return err
	}
	view.Actions = req.permittedActions(r, req.approvableAgain(r, ended))
	if view.Changes, _, err = req.changes(&api.ListRevisionsParams{Kind: new(kindRollout), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if view.Strip, err = req.stripOfRollout(r, view.Changes); err != nil {
		return err
	}
	return req.show("rollout", id, "rollouts", &view)
}

// showChanges fills in the documents that the rollout changes.
func (v *rolloutView) showChanges(req *pageRequest) error {
	var documents []documentView
	for _, ch := range v.Rollout.Changes {
		fields, err := diff(ch.Before, ch.After, req.reveal())
		if err != nil {
			return err
		}
		v.Hidden = v.Hidden || anyHidden(fields)
		documents = append(documents, documentView{Kind: ch.Kind, ID: ch.ID, Action: ch.Action, Link: linkTo(ch.Kind, ch.ID), Fields: fields})
	}
	v.Groups = groupDocuments(documents)
	return nil
}

// gateText describes when a stage has passed.
func gateText(g *api.RolloutGate) string {
	if g == nil {
		return ""
	}
	failures := 0
	if g.MaxFailures != nil {
		failures = *g.MaxFailures
	}
	return fmt.Sprintf("%s confirmed, at most %d failed, after %s; deadline %s", g.Confirmed, failures, g.Soak, g.Deadline)
}

// commonGate describes the gate that most stages have.
func commonGate(stages []api.RolloutStageStatus) (common string) {
	counts := map[string]int{}
	for _, s := range stages {
		text := gateText(s.Gate)
		if counts[text]++; counts[text] > counts[common] {
			common = text
		}
	}
	return common
}

// planNextStage returns the plan of the start of a stage, or the reason why it is refused.
func (req *pageRequest) planNextStage(id, stage string) (*nextStage, *api.Plan, error) {
	next := nextStage{Stage: stage, Link: rolloutLink(id, "start", stage)}
	plan, err := req.planRollout(rolloutChange{ID: id, Action: "start", Stage: stage})
	if refused, answered := errors.AsType[*client.Error](err); answered && explained(refused) {
		next.Refused = refused.Problem.Detail
		return &next, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	next.Totals, next.Removes, next.Warnings = plan.Totals, summarize.RemovalSentence(*plan), plan.Warnings
	return &next, plan, nil
}

// openRollouts returns the rows of the open rollouts: those that need attention, and the others.
func (req *pageRequest) openRollouts() (attention, others []rolloutRow, starts []stripMark, err error) {
	list, err := req.visibleRollouts()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, row := range req.rolloutRows(list) {
		switch {
		case row.NeedsAttention:
			attention = append(attention, row)
		case row.Open():
			others = append(others, row)
		}
	}
	for _, r := range list {
		starts = append(starts, stageMarks(r)...)
	}
	return attention, others, starts, nil
}
