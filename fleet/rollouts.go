package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// NewRollout is the request for a rollout.
type NewRollout struct {
	ID, Description string
	Strategy        string // whose stages it copies; empty: it has Stages
	Stages          []RolloutStage
	Operations      []api.Operation
	RolloutSettings
}

// rolloutCreation is a rollout that a Tx creates: the change is made in a Tx of its own, whose result is stored in place of
// being committed.
type rolloutCreation struct {
	NewRollout
	rollout *rollout // without its changes
	change  *Tx
	// automatic: version policies propose it; nil: a person creates it.
	automatic *policyPrincipal
}

// CreateRollout runs the operations of a rollout and creates it in the state proposed: the answers to all clusters stay the
// same. Finish validates the whole change, and the guard applies to its removals. The returned batch locates problems in the
// operations.
func (tx *Tx) CreateRollout(n NewRollout, past History) (*Batch, error) {
	if doc, err := tx.base.Find(KindRollout, n.ID); err == nil {
		return tx.repeatRollout(n, doc.rollout(), past)
	}
	r, invalid := tx.base.newRollout(n)
	change := tx.base.Begin()
	change.work = tx.work
	b := NewBatch(change, past)
	tx.beforeFinish = func(c Commit) error {
		return (&rolloutCreation{NewRollout: n, rollout: r, change: change}).finish(tx, c)
	}
	tx.recordOperation(api.RevisionOperation{Op: "create", Kind: string(KindRollout), ID: n.ID})
	_, err := b.Run(n.Operations)
	if invalid != nil && err == nil { // the problems that Finish would find in the change are reported together with these
		change.Guard(Guard{Off: true})
		_, err = change.Finish(Commit{})
		err = b.Locate(n.Operations, err)
	}
	return b, joinErrors(invalid, err)
}

// repeatRollout accepts the request for a rollout that exists and makes the same change, and changes nothing: a pipeline that
// applies files runs again while the rollout is open, or after it has completed. Stages and settings are not compared. Any other
// request is CodeConflict.
func (tx *Tx) repeatRollout(n NewRollout, r *rollout, past History) (*Batch, error) {
	change := tx.base.Begin()
	change.work = tx.work
	b := NewBatch(change, past)
	if _, err := b.Run(n.Operations); err != nil {
		return b, err
	}
	wanted := map[docKey]*Document{}
	for key, doc := range change.edits {
		if was := tx.base.docs[key.kind][key.id]; !isInternal(key.kind) && !sameDocument(was, doc) {
			wanted[key] = doc
		}
	}
	same, err := tx.makesChange(r, wanted)
	if err == nil && !same {
		err = errorf(CodeConflict, "the rollout %q exists already, and its change is another", n.ID)
	}
	return b, err
}

// makesChange reports whether a rollout changes the stored documents to these, and no others.
func (tx *Tx) makesChange(r *rollout, wanted map[docKey]*Document) (bool, error) {
	if !r.open() {
		return r.State == rolloutCompleted && len(wanted) == 0, nil
	}
	if len(wanted) != len(r.Changes) {
		return false, nil
	}
	for _, ch := range r.Changes {
		made, conflicts, err := tx.kinds.variant(ch, tx.base.docs[ch.Kind][ch.ID])
		if err != nil || len(conflicts) > 0 || !sameDocument(made, wanted[docKey{ch.Kind, ch.ID}]) {
			return false, err
		}
	}
	return true, nil
}

// newRollout returns a rollout without changes, after a check of everything that does not depend on them.
func (s *State) newRollout(n NewRollout) (*rollout, error) {
	c := &checker{next: s, limit: maxProblems}
	r := &rollout{ID: n.ID, Description: n.Description, State: rolloutProposed, RolloutSettings: n.RolloutSettings}
	for _, st := range n.Stages {
		r.Stages = append(r.Stages, rolloutStage{RolloutStage: st})
	}
	if doc, ok := s.Get(KindStrategy, n.Strategy); ok {
		from := doc.value.(*strategy)
		r.Stages, r.Gate = slices.Clone(from.Stages), cmp.Or(n.Gate, from.Gate)
	} else if n.Strategy != "" {
		c.problem("/strategy", "there is no strategy %q", n.Strategy)
	}
	if n.Strategy != "" && len(n.Stages) > 0 {
		c.problem("/strategy", "set either strategy or stages, not both")
	}
	if len(r.Stages) > maxRolloutStages {
		c.problem("/stages", "there are %d stages; at most %d are possible", len(r.Stages), maxRolloutStages)
	}
	if n := len(r.Stages); n == 0 || !r.Stages[n-1].All || r.Stages[n-1].Percent+r.Stages[n-1].Count > 0 {
		r.Stages = append(r.Stages, rolloutStage{RolloutStage: RolloutStage{Name: lastStage, All: true}})
	}
	if checkRolloutFields(c, r); len(c.problems) > 0 {
		return nil, Invalid(c.problems)
	}
	if err := r.parse(); err != nil {
		return nil, err
	}
	r.setBounds(s.All(KindCluster))
	return r, nil
}

// finish makes the change of a new rollout without committing it, and records the rollout's document in tx.
func (n *rolloutCreation) finish(tx *Tx, c Commit) error {
	n.change.guard, n.change.scope = tx.guard, tx.scope
	n.change.guard.proposed = true
	tx.guard = Guard{OverridePolicies: tx.guard.OverridePolicies} // the creation itself removes nothing
	res, err := n.change.Finish(c)
	if err != nil {
		return err
	}
	r := n.rollout
	if err := res.checkStageWindows(r); err != nil {
		return err
	}
	r.Operations, r.Author, r.Principal, r.Identity = res.Commit.Operations, c.Actor, c.Actor, tx.scope.identity()
	if n.automatic != nil { // as if the author of the policies had created it, who may not approve it alone
		r.Author, r.Principal, r.Identity = n.automatic.Actor, n.automatic.Actor, n.automatic.Identity
	}
	r.AuthorID = personOf(r.Identity, r.Author)
	if n.change.guard.PlanHash != "" {
		r.ConfirmedRemovals, r.Confirmed = res.removals.count, res.removals.digests()
	}
	if r.Changes, err = stageableChanges(tx.base, res); err != nil {
		return err
	}
	if err := tx.base.checkDependencyChanges(r); err != nil {
		return err
	}
	if _, err := tx.recordValue(KindRollout, r.ID, r); err != nil {
		return err
	}
	for _, w := range res.Warnings {
		tx.note("%s", w)
	}
	return nil
}

// stageableChanges returns the changes of a commit as those of a rollout. It refuses changes that cannot differ between clusters:
// CodeNotStageable, with all of them.
func stageableChanges(base *State, res Result) ([]rolloutChange, error) {
	var changes []rolloutChange
	var problems []Problem
	size := 0
	for _, ch := range res.Commit.Changes {
		if isInternal(ch.Kind) {
			continue
		}
		if why := notStageable(base, res.State, ch); why != "" {
			noun := res.State.kinds.noun(ch.Kind)
			problems = append(problems, Problem{Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf("%s %q: %s", noun, ch.ID, why)})
			continue
		}
		size += len(ch.Before) + len(ch.After)
		changes = append(changes, rolloutChange(ch))
	}
	switch {
	case len(problems) > 0:
		return nil, &Error{Code: CodeNotStageable, Detail: summarizeProblems(problems), Problems: problems}
	case len(changes) == 0:
		return nil, Invalid([]Problem{{Pointer: "/operations", Detail: "the operations change nothing"}})
	case len(changes) > maxRolloutChanges:
		return nil, errorf(CodeLimitExceeded, "the rollout changes %d documents; at most %d are possible", len(changes), maxRolloutChanges)
	case size > maxRolloutBytes:
		return nil, errorf(CodeLimitExceeded, "the changed documents have %d bytes before and after; at most %d are possible", size, maxRolloutBytes)
	}
	return changes, nil
}

// notStageable returns the reason why a change cannot be delivered in stages, or "".
func notStageable(base, next *State, ch Change) string {
	switch {
	case ch.Kind == KindCluster:
		return "a rollout cannot change clusters; change a layer that matches them"
	case ch.Kind == KindResourceType:
		return "a rollout cannot change resource types, which apply to all clusters; change it before the rollout"
	case !next.kinds.useOf(ch.Kind).staged:
		return "a rollout cannot change this kind of document"
	case ch.Before == nil:
		return "a rollout cannot create documents; create it before the rollout"
	case ch.After == nil:
		return "a rollout cannot delete documents; delete it after the rollout"
	case ch.Kind == KindComponent && !samePolicies(base.docs[KindComponent][ch.ID], next.docs[KindComponent][ch.ID]):
		return "a rollout cannot change version policies, which change no cluster by themselves; change them before the rollout"
	case ch.Kind == KindLayer && base.docs[KindLayer][ch.ID].layer().Priority != next.docs[KindLayer][ch.ID].layer().Priority:
		return "a rollout cannot change the priority of a layer"
	}
	return ""
}

// checkDependencyChanges refuses a second rollout that changes depends_on: each may be free of cycles, and so may both
// together, but not the second without the first.
func (s *State) checkDependencyChanges(r *rollout) error {
	changed, err := r.changesDependencies()
	if err != nil || !changed || s.rollouts == nil {
		return err
	}
	for _, d := range s.rollouts.open {
		if other, err := d.rollout().changesDependencies(); err != nil || other {
			return cmp.Or[error](err, errorf(CodeInRollout, "rollout %q changes depends_on, and only one rollout at a time can: complete or abort it first", d.ID))
		}
	}
	return nil
}

// changesDependencies reports whether the rollout changes the dependencies of a component.
func (r *rollout) changesDependencies() (bool, error) {
	for _, ch := range r.Changes {
		if ch.Kind != KindComponent {
			continue
		}
		var sides [2]struct {
			DependsOn json.RawMessage `json:"depends_on"`
		}
		if err := Change(ch).decode(&sides[0], &sides[1]); err != nil {
			return false, err
		}
		if !bytes.Equal(sides[0].DependsOn, sides[1].DependsOn) {
			return true, nil
		}
	}
	return false, nil
}

// ChangeRollout runs an action on a rollout. stage, if not empty, must be the stage that the action starts, skips or
// rolls back. CodeConflict: the action is not possible in the rollout's state, or concerns another stage.
func (tx *Tx) ChangeRollout(id, action, stage string) (*Document, error) {
	return tx.changeRollout(id, action, stage, false)
}

// PlanRollout is ChangeRollout for a plan: it also starts a stage that awaits approval, so that its effect is known before the
// approval. Its Tx must not be committed.
func (tx *Tx) PlanRollout(id, action, stage string) error {
	_, err := tx.changeRollout(id, action, stage, true)
	return err
}

func (tx *Tx) changeRollout(id, action, stage string, planned bool) (*Document, error) {
	doc, err := tx.Get(KindRollout, id)
	if err != nil {
		return nil, err
	}
	r := *doc.rollout()
	r.Stages = slices.Clone(r.Stages)
	if action == RolloutApprove {
		tx.approveStage(doc, stage)
		return doc, nil
	}
	if action == RolloutStart || action == RolloutSkip {
		if err := tx.checkApproval(&r, doc, planned); err != nil {
			return nil, err
		}
	}
	if err := r.checkAction(action, stage, planned); err != nil {
		return nil, err
	}
	concerned := r.stageOfAction(action)
	switch action {
	case RolloutStart:
		r.State, r.Started = rolloutRunning, r.Started+1
	case RolloutPause:
		r.State = rolloutPaused
	case RolloutResume:
		r.PausedBecause = ""
		if r.State = rolloutRunning; r.Started == 0 {
			r.State = rolloutProposed
		}
	case RolloutSkip:
		r.Stages[r.Started].Skipped = true
		r.State, r.Started = rolloutRunning, r.Started+1
	case RolloutBack:
		r.State, r.Started = rolloutPaused, r.Started-1
		was := r.Stages[r.Started]
		r.Stages[r.Started] = rolloutStage{RolloutStage: was.RolloutStage, Below: was.Below, selector: was.selector, below: was.below}
	case RolloutAbort:
		r.State = rolloutAborted
	case RolloutComplete:
		r.State = rolloutCompleted
		if err := tx.completeRollout(&r); err != nil {
			return nil, err
		}
	}
	next, err := tx.recordValue(KindRollout, id, &r)
	if err != nil {
		return nil, err
	}
	tx.beforeFinish = func(c Commit) error { return tx.stampRollout(&r, action, c) }
	tx.recordOperation(api.RevisionOperation{Op: action, Kind: string(KindRollout), ID: id, Stage: concerned})
	return next, nil
}

// checkAction refuses an action that the state of the rollout does not allow. planned: the start needs no approval.
func (r *rollout) checkAction(action, stage string, planned bool) error {
	refuse := func(format string, args ...any) error {
		return errorf(CodeConflict, "rollout %q "+format, append([]any{r.ID}, args...)...)
	}
	last := len(r.Stages) - 1
	switch {
	case !r.open():
		return refuse("is %s", r.State)
	case action == RolloutBack && r.Started == 0:
		return refuse("has no started stage")
	case action == RolloutPause && r.State == rolloutPaused, action == RolloutResume && r.State != rolloutPaused:
		return refuse("is %s", r.State)
	case !slices.Contains([]string{RolloutPause, RolloutResume, RolloutBack, RolloutAbort}, action) && r.State == rolloutPaused:
		return refuse("is paused: resume it first")
	case (action == RolloutStart || action == RolloutSkip) && r.Started > last:
		return refuse("has no further stage: complete it")
	case (action == RolloutStart && !planned || action == RolloutSkip) && r.awaitsApproval(r.Started):
		return refuse("waits for the approval of its stage %q", r.Stages[r.Started].Name)
	case action == RolloutSkip && r.Started == last:
		return refuse("cannot skip its last stage %q, which has all clusters that remain", r.Stages[last].Name)
	case action == RolloutComplete && r.Started <= last:
		return refuse("has not started its stage %q: start all stages first", r.Stages[r.Started].Name)
	case stage == "":
	case !slices.Contains([]string{RolloutStart, RolloutSkip, RolloutBack}, action):
		return Invalid([]Problem{{Pointer: "/stage", Detail: "is for start, skip and back"}})
	case r.stageOfAction(action) != stage:
		return refuse("would %s its stage %q next, not %q", action, r.stageOfAction(action), stage)
	}
	return nil
}

// stampRollout adds the values of a rollout that the commit determines. The time of a start is not before the newest commit
// that this process knows, so that a clock that is behind cannot shorten a soak.
func (tx *Tx) stampRollout(r *rollout, action string, c Commit) error {
	switch action {
	case RolloutStart:
		r.Stages[r.Started-1].StartedAt = new(later(tx.base.newest, c.At))
	case RolloutSkip: // its clusters move to other stages
		r.ChangedBy, r.ChangedByID = c.Actor, personOf(tx.scope.identity(), c.Actor)
	}
	if slices.Contains([]string{RolloutStart, RolloutSkip, RolloutResume}, action) && c.Actor != RolloutRunner && c.Actor != VersionAutomation {
		r.Principal, r.Identity = c.Actor, tx.scope.identity()
	}
	_, err := tx.recordValue(KindRollout, r.ID, r)
	return err
}

// stageOfAction returns the name of the stage that an action concerns, or "" if it concerns none.
func (r *rollout) stageOfAction(action string) string {
	at := -1
	switch action {
	case RolloutStart, RolloutSkip, RolloutApprove:
		at = r.Started
	case RolloutBack:
		at = r.Started - 1
	}
	if at < 0 || at >= len(r.Stages) {
		return ""
	}
	return r.Stages[at].Name
}

// RolloutStage returns the name of the stage that an action of ChangeRollout without one concerns, or "" if it concerns none.
func (tx *Tx) RolloutStage(id, action string) string {
	doc, err := tx.Get(KindRollout, id)
	if err != nil {
		return ""
	}
	return doc.rollout().stageOfAction(action)
}

// completeRollout makes the change of a rollout, which all clusters have then.
func (tx *Tx) completeRollout(r *rollout) error {
	tx.nested++ // this is part of the completion
	defer func() { tx.nested-- }()
	for _, ch := range r.Changes {
		now := tx.raw(ch.Kind, ch.ID)
		if now == nil {
			return tx.notFound(ch.Kind, ch.ID)
		}
		doc, conflicts, err := tx.kinds.variant(ch, now)
		if err == nil {
			err = inRollout(tx.kinds, r.ID, ch, conflicts)
		}
		if err != nil {
			return err
		}
		tx.record(ch.Kind, ch.ID, doc)
		if tx.completed == nil {
			tx.completed = map[docKey]bool{}
		}
		tx.completed[docKey{ch.Kind, ch.ID}] = true
	}
	tx.completedRollouts = append(tx.completedRollouts, r.ID)
	return nil
}

// RolloutView returns a rollout as the API shows it, with the number of clusters in each stage.
func (s *State) RolloutView(d *Document) any {
	r := d.rollout()
	view := api.Rollout{
		ID: r.ID, Description: r.Description, State: r.State, Started: r.Started, ConfirmedRemovals: r.ConfirmedRemovals,
		Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Advance: cmp.Or(r.Advance, advanceManual), OnFailure: cmp.Or(r.OnFailure, onFailurePause), Gate: r.Gate, Windows: r.Windows, StartAt: r.StartAt,
		PausedBecause: r.PausedBecause, Principal: r.Principal, Author: r.Author, Unverified: r.unverified(),
	}
	sizes := s.stageSizes(r)
	for i, st := range r.Stages {
		state := "pending"
		switch {
		case st.Skipped:
			state = "skipped"
		case i < r.Started:
			state = "started"
		}
		gate := r.effectiveGate(&st.RolloutStage)
		status := api.RolloutStageStatus{
			Name: st.Name, ClusterIds: st.ClusterIDs, Selector: st.Selector, All: st.All, Percent: st.Percent, Count: st.Count, State: state, Clusters: sizes[i],
			Gate: &gate, StartedAt: st.StartedAt, StartAt: st.StartAt, Approval: st.Approval,
		}
		if st.Approved != nil {
			status.ApprovedBy, status.ApprovedAt = st.Approved.By, &st.Approved.At
		}
		view.Stages = append(view.Stages, status)
	}
	for _, ch := range r.Changes {
		view.Changes = append(view.Changes, api.RevisionChange{Kind: string(ch.Kind), ID: ch.ID, Action: "update", Before: ch.Before, After: ch.After})
	}
	for _, v := range r.Versions {
		if s.visible == nil || s.Has(KindComponent, v.Component) {
			view.Automation = r.Automation
			view.Versions = append(view.Versions, api.RolloutVersion(v))
		}
	}
	if from := r.Source; from != nil && s.visible == nil {
		view.Source = &api.RolloutSource{ID: from.ID, Digest: from.Digest, ArtifactRevision: from.Revision, ArtifactSource: from.Origin, Files: []api.SourceDocument{}}
		for _, d := range from.Files {
			view.Source.Files = append(view.Source.Files, api.SourceDocument{Kind: string(d.Kind), ID: d.ID, File: d.File})
		}
	}
	operations, _, _ := Commit{Operations: r.Operations}.Requested()
	view.Operations = append([]api.RevisionOperation{}, operations...)
	if s.ReachesOthers(d) {
		s.withoutOthers(&view)
	}
	return &view
}
