package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// KnownVersions returns the known versions of a component and its images.
type KnownVersions func(component string) []KnownVersion

// maxAutomaticRollouts is the number of open rollouts that policies may propose: the others are for people.
const maxAutomaticRollouts = maxRollouts / 2

// VersionMoves returns the names of the moves that the fleet has policies for, sorted: that of a component is its id, that of several
// components the group of their policies, after "group/". The caller passes each to [Tx.MoveVersions], in a commit of its own.
func VersionMoves(st *State) []string {
	names := map[string]bool{}
	for _, d := range st.docs[KindComponent] {
		if p := d.Component(); hasPolicies(p) && policyOf(p).Action != versionsNotify {
			names[VersionMoveOf(p)] = true
		}
	}
	return sortedKeys(names)
}

// VersionMembers returns the components of a move, sorted.
func VersionMembers(st *State, move string) []string {
	var ids []string
	for id, d := range st.docs[KindComponent] {
		if p := d.Component(); hasPolicies(p) && VersionMoveOf(p) == move {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// versionMove is the decided change of a move.
type versionMove struct {
	name       string
	policy     api.VersionPolicy // of the first component; a group has one action and one strategy
	components []string
	changes    []componentMove // none: nothing moves
}

// MoveVersions evaluates the policies of a move on the Tx's base, and makes the change that they decide: it proposes a rollout named
// auto-COMPONENT or auto-GROUP, rewrites it while it is proposed, starts it, or changes the documents. It reports whether there is
// anything to commit. The actor of the commit must be [VersionAutomation]. A change that policies refuse stays a proposed rollout, whose
// description names them.
//
// limit must limit a Tx to the rights of the principal of a component, as the server does for rollouts, and set its [Tx.Approvers]. It is
// called for tx and for attempts of the same change, one for each further principal of a group. A refusal of one refuses the move.
func (tx *Tx) MoveVersions(move string, known KnownVersions, now time.Time, limit func(tx *Tx, component string)) (changed bool, err error) {
	m, err := decideMove(tx.base, move, known, now)
	if err != nil || m.policy.Action == versionsNotify {
		return false, err
	}
	for i, id := range slices.Backward(m.components) {
		attempt := tx
		if i > 0 { // the last one, for the first component, is tx itself
			if samePrincipal(tx.base.versionAutomation(id), tx.base.versionAutomation(m.components[0])) {
				continue
			}
			attempt = tx.base.Begin()
			attempt.work = tx.work
		}
		limit(attempt, id)
		changed, err = attempt.move(m, now, func(probe *Tx) { limit(probe, id) })
		if err != nil || !changed {
			return false, err
		}
		if attempt != tx {
			if _, err := attempt.Finish(Commit{At: now, Actor: VersionAutomation}); err != nil {
				return false, err
			}
		}
	}
	return changed, nil
}

// samePrincipal reports whether the same actor, with the same identity, changed the policies of two components last.
func samePrincipal(a, b *versionAutomation) bool {
	return a.Principal == b.Principal && a.Identity.equal(b.Identity)
}

// equal reports whether two identities are the same.
func (s *Subject) equal(other *Subject) bool {
	if s == nil || other == nil {
		return s == other
	}
	one, errOne := jsontext.Canonical(s)
	two, errTwo := jsontext.Canonical(other)
	return errOne == nil && errTwo == nil && bytes.Equal(one, two)
}

// decideMove evaluates the policies of all components of a move.
func decideMove(st *State, move string, known KnownVersions, now time.Time) (versionMove, error) {
	out := versionMove{name: move, components: VersionMembers(st, move)}
	var reports []VersionReport
	for i, id := range out.components {
		policy := policyOf(st.componentDocument(id).Component())
		if i == 0 {
			out.policy = policy
		} else if policy.Action != out.policy.Action || policy.Strategy != out.policy.Strategy {
			return out, errorf(CodeConflict, "the policies of the group %q differ in action or strategy: components %q and %q", policy.Group, out.components[0], id)
		}
		reports = append(reports, EvaluateVersions(st, id, known(id), now))
	}
	if len(reports) == 0 {
		out.policy.Action = versionsNotify
		return out, nil
	}
	if out.policy.Group != "" && !restrictToCommonVersion(reports) {
		return out, nil
	}
	for _, r := range reports {
		p := st.componentDocument(r.Component).Component()
		target, problem := st.versionTarget(p)
		change := componentMove{target: target, images: map[string]*KnownVersion{}}
		if problem != "" {
			continue
		}
		moves := false
		if r.Chart != nil && r.Chart.Candidate != nil {
			change.chart, moves = r.Chart.Candidate, true
		}
		for _, image := range r.Images {
			if image.Candidate != nil {
				change.images[image.Policy], moves = image.Candidate, true
			}
		}
		if moves {
			out.changes = append(out.changes, change)
		}
	}
	return out, nil
}

// restrictToCommonVersion restricts the candidates of a group to the highest version that each of its components has, or can move to. It reports whether
// there is one.
func restrictToCommonVersion(reports []VersionReport) bool {
	has := func(r *VersionReport, version string) (k *KnownVersion, ok bool) {
		v := parseVersion(version)
		for _, e := range r.Chart.eligible {
			if v.Compare(parseVersion(e.Version)) == 0 {
				return &e, true
			}
		}
		stored := parseVersion(r.Chart.Stored)
		return nil, stored != nil && stored.Compare(v) == 0
	}
	var versions []string
	for i := range reports {
		if r := &reports[i]; r.Chart == nil || r.Problem != "" || r.Chart.Problem != "" {
			return false
		}
		if stored := reports[i].Chart.Stored; parseVersion(stored) != nil {
			versions = append(versions, stored)
		}
		for _, k := range reports[i].Chart.eligible {
			versions = append(versions, k.Version)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return parseVersion(b).Compare(parseVersion(a)) })
	for _, version := range versions {
		if slices.ContainsFunc(reports, func(r VersionReport) bool { _, ok := has(&r, version); return !ok }) {
			continue
		}
		for i := range reports {
			reports[i].Chart.Candidate, _ = has(&reports[i], version)
		}
		return true
	}
	return false
}

// move makes the decided change. limit limits further attempts as the Tx is.
func (tx *Tx) move(m versionMove, now time.Time, limit func(*Tx)) (bool, error) {
	id := rolloutOfMove(m.name)
	open := tx.base.docs[KindRollout][id]
	if open != nil && !open.rollout().open() {
		open = nil
	}
	switch {
	case open != nil && open.rollout().Automation != m.name:
		return false, errorf(CodeConflict, "rollout %q is open and was not proposed by the policies of %s: complete or abort it first", id, m.name)
	case open != nil && open.rollout().State != rolloutProposed:
		return false, nil
	case len(m.changes) == 0:
		return false, nil
	}
	if m.policy.Action == versionsApply && open == nil {
		refused, err := tx.applyMove(m, now, limit)
		if refused == nil || err != nil {
			return err == nil, err
		}
		return true, tx.proposeMove(m, nil, refused)
	}
	if open == nil {
		return true, tx.proposeMove(m, nil, nil)
	}
	same, err := tx.proposes(open.rollout(), m)
	switch {
	case err != nil:
		return false, err
	case !same:
		return true, tx.proposeMove(m, open, nil)
	case m.policy.Action == versionsRollout:
		return tx.startMove(m, open, now, limit)
	}
	return false, nil
}

// describe describes the move, with the policies that refuse to make it at once. Their messages may name clusters that not every reader of
// the rollout may read.
func (m *versionMove) describe(refused *Error) string {
	var names, policies []string
	for i := range m.changes {
		for _, v := range m.changes[i].versions() {
			names = append(names, cmp.Or(v.Image, v.Component)+" "+v.Version)
		}
	}
	text := "new versions: " + list(names)
	if refused != nil && refused.Code == CodePolicy {
		for _, p := range refused.Problems {
			policies = append(policies, p.ID)
		}
		text = "refused by " + list(policies) + "; " + text
	}
	return truncate(text)
}

// applyTo makes the change in the documents.
func (m *versionMove) applyTo(tx *Tx) error {
	for i := range m.changes {
		if err := m.changes[i].apply(tx); err != nil {
			return err
		}
	}
	return nil
}

// applyMove changes the documents at once. If a freeze, the guard or a policy refuses that, it changes nothing, and the caller proposes a
// rollout.
func (tx *Tx) applyMove(m versionMove, now time.Time, limit func(*Tx)) (refused *Error, err error) {
	attempt := tx.base.Begin()
	attempt.work = tx.work
	limit(attempt)
	attempt.Guard(Guard{Careful: true})
	if err := m.applyTo(attempt); err != nil {
		return nil, err
	}
	_, err = attempt.Finish(Commit{At: now, Actor: VersionAutomation})
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == CodeConfirm || e.Code == CodeFrozen || e.Code == CodePolicy) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	tx.Guard(Guard{Careful: true})
	return nil, m.applyTo(tx)
}

// proposeMove creates the rollout of a move, or rewrites the proposed one. The approvals of a rewritten rollout end. refused is why the
// change is not made at once; nil: the policies of the versions propose.
func (tx *Tx) proposeMove(m versionMove, proposed *Document, refused *Error) error {
	id := rolloutOfMove(m.name)
	var versions []rolloutVersion
	for i := range m.changes {
		versions = append(versions, m.changes[i].versions()...)
	}
	held, others, open := tx.base.versionAutomation(m.components[0]), 0, 0
	if tx.base.rollouts != nil {
		for _, d := range tx.base.rollouts.open {
			if d.ID == id {
				continue
			}
			if open++; d.rollout().Automation != "" {
				others++
			}
		}
	}
	if others >= maxAutomaticRollouts || open >= openRolloutLimit.limitedMax() { // an identity with limits may have created the policy
		return errorf(CodeLimitExceeded, "%d rollouts of version policies are open, which is the most: complete or abort some of them", others)
	}
	n := NewRollout{ID: id, Description: m.describe(refused), Strategy: m.policy.Strategy, RolloutSettings: RolloutSettings{Advance: advanceAutomatic}}
	r, err := tx.base.newRollout(n)
	if err != nil {
		return err
	}
	r.Automation, r.Versions = m.name, versions
	base, op := tx.base, "create"
	if proposed != nil { // the change replaces that of the proposed rollout
		if base, err = tx.base.withoutRollout(proposed); err != nil {
			return err
		}
		op = "update"
	}
	change := base.Begin()
	change.work = tx.work
	if err := m.applyTo(change); err != nil {
		return err
	}
	creation := &rolloutCreation{NewRollout: n, rollout: r, change: change, automatic: &automaticRollout{held.Principal, held.Identity}}
	tx.beforeFinish = func(c Commit) error { return creation.finish(tx, c) }
	tx.recordOperation(api.RevisionOperation{Op: op, Kind: string(KindRollout), ID: id})
	return nil
}

// withoutRollout returns the State in which a rollout is aborted.
func (s *State) withoutRollout(d *Document) (*State, error) {
	r := *d.rollout()
	r.State = rolloutAborted
	doc, err := s.kinds.newRecord(KindRollout, d.ID, &r)
	if err != nil {
		return nil, err
	}
	edits := []edit{{KindRollout, d.ID, doc}}
	return s.with(Commit{Revision: s.Revision() + 1, At: s.At(), Changes: changesOf(s, edits)}, edits, false)
}

// proposes reports whether a proposed rollout makes a move, with the same strategy and principal.
func (tx *Tx) proposes(r *rollout, m versionMove) (bool, error) {
	held := tx.base.versionAutomation(m.components[0])
	if r.Principal != held.Principal || !r.Identity.equal(held.Identity) {
		return false, nil
	}
	base, err := tx.base.withoutRollout(tx.base.docs[KindRollout][r.ID])
	if err != nil {
		return false, err
	}
	change := base.Begin()
	if err := m.applyTo(change); err != nil {
		return false, err
	}
	return tx.makesChange(r, change.edits)
}

// startMove starts the first stage of the rollout of a move, unless it waits for an approval or a freeze. The rollout stays proposed if
// policies refuse the start.
func (tx *Tx) startMove(m versionMove, d *Document, now time.Time, limit func(*Tx)) (bool, error) {
	r := d.rollout()
	if r.awaitsApproval(r.Started) || r.Started > 0 {
		return false, nil
	}
	if ended, err := tx.approvalEnded(d, r.Started); ended || err != nil {
		return false, err
	}
	step := RolloutStep{Action: RolloutStart, Stage: r.Stages[0].Name}
	waits, err := tx.base.waitForFreezes(tx.work, d.ID, step, now)
	if err != nil || waits.Reason != "" {
		return false, err
	}
	attempt := tx.base.Begin()
	attempt.work = tx.work
	limit(attempt)
	if _, err = attempt.ChangeRollout(d.ID, RolloutStart, step.Stage); err == nil {
		_, err = attempt.Finish(Commit{At: now, Actor: VersionAutomation})
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodePolicy {
		return tx.describeRollout(d, m.describe(e))
	}
	_, err = tx.ChangeRollout(d.ID, RolloutStart, step.Stage)
	return err == nil, err
}

// describeRollout sets the description of a rollout. It reports whether it differs.
func (tx *Tx) describeRollout(d *Document, description string) (bool, error) {
	r := *d.rollout()
	if r.Description == description {
		return false, nil
	}
	r.Description = description
	doc, err := tx.kinds.newRecord(KindRollout, d.ID, &r)
	if err != nil {
		return false, err
	}
	tx.record(KindRollout, d.ID, doc)
	tx.recordOperation(api.RevisionOperation{Op: "update", Kind: string(KindRollout), ID: d.ID})
	return true, nil
}
