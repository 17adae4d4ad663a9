package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// KnownVersions returns the known versions of a component and its images.
type KnownVersions func(component string) []KnownVersion

// DefaultVersionRollouts and MaxVersionRollouts are the default and the highest value of [Rules.VersionRollouts]: other open rollouts are
// for people.
const (
	DefaultVersionRollouts = maxRollouts / 2
	MaxVersionRollouts     = maxRollouts * limitedTotal / 100
)

// ErrVersionWaits is the error of a move that would propose a rollout while too many are open. It is tried again when one ends.
var ErrVersionWaits = errorf(CodeLimitExceeded, "it waits for its place: %d or more rollouts are open, or as many of version policies as VERSION_ROLLOUTS permits; complete or abort some of them", MaxVersionRollouts)

// VersionMoves returns the names of the moves that the fleet has policies for. That of a component is its id, that of several components
// the group of their policies, after "group/"; with "@" and the layer if their versions move in a layer. They are sorted by component or
// group, then by the precedence of the layer, the lowest first. The caller passes each to [Tx.MoveVersions], in a commit of its own.
func VersionMoves(st *State) []string {
	names := map[string]bool{}
	for _, d := range st.docs[KindComponent] {
		p := d.Component()
		for _, target := range movingTargets(p, false) {
			if policyOf(p, target).Action != versionsNotify {
				names[moveOf(p, target)] = true
			}
		}
	}
	moves := sortedKeys(names)
	slices.SortStableFunc(moves, func(a, b string) int {
		one, _, _ := strings.Cut(a, "@")
		other, _, _ := strings.Cut(b, "@")
		return cmp.Or(strings.Compare(one, other), st.compareTargets(targetOfMove(a), targetOfMove(b)))
	})
	return moves
}

// VersionMembers returns the components of a move, sorted.
func VersionMembers(st *State, move string) []string {
	var ids []string
	target := targetOfMove(move)
	for id, d := range st.docs[KindComponent] {
		if p := d.Component(); moves(p, target) && moveOf(p, target) == move {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// VersionMoveSince returns when the service first saw a version that a move would make, the earliest of several. Moves that wait for a
// place are made in this order. Not found: nothing moves.
func VersionMoveSince(st *State, move string, known KnownVersions, now time.Time) (since time.Time, found bool, err error) {
	m, err := decideMove(st, move, known, now)
	if err != nil || m.policy.Action == versionsNotify {
		return since, false, err
	}
	for i := range m.changes {
		for _, k := range m.changes[i].moved() {
			if !found || k.FirstSeen.Before(since) {
				since, found = k.FirstSeen, true
			}
		}
	}
	return since, found, nil
}

// versionMove is the decided change of a move.
type versionMove struct {
	name       string
	policy     api.VersionPolicy // of the first component; a group has one action and one strategy
	components []string
	changes    []componentMove // none: nothing moves
}

// MoveVersions evaluates the policies of a move on the Tx's base, and makes the change that they decide: it proposes a rollout named
// auto-COMPONENT or auto-GROUP, with ".LAYER" for a layer; rewrites it while it is proposed, starts it, or changes the documents. It
// reports whether there is anything to commit. The actor of the commit must be [VersionAutomation]. A change that policies refuse stays a
// proposed rollout, whose description names them.
//
// limit must limit a Tx to the rights of an actor with an identity, as the server does for rollouts, and set its [Tx.Approvers]. It is
// called for tx and for attempts of the same change, one for each further principal of a group. A refusal of one refuses the move.
func (tx *Tx) MoveVersions(move string, known KnownVersions, now time.Time, limit func(tx *Tx, actor string, identity *Subject)) (changed bool, err error) {
	m, err := decideMove(tx.base, move, known, now)
	if err != nil || m.policy.Action == versionsNotify {
		return false, err
	}
	limitTo := func(p policyPrincipal) func(*Tx) { return func(tx *Tx) { limit(tx, p.Actor, p.Identity) } }
	for _, id := range m.components[1:] {
		of := tx.base.principalOf(m.name, id)
		if of.equal(tx.base.principalOf(m.name, m.components[0])) {
			continue
		}
		change := func(attempt *Tx) (bool, error) { return attempt.move(m, now, limitTo(of)) }
		if changed, err := tx.attempt(now, limitTo(of), change); err != nil || !changed {
			return false, err
		}
	}
	of := limitTo(tx.base.principalOf(m.name, m.components[0]))
	of(tx)
	return tx.move(m, now, of)
}

// attempt makes a change with limits, but does not keep it. It reports whether there was one.
func (tx *Tx) attempt(now time.Time, limit func(*Tx), change func(*Tx) (bool, error)) (changed bool, err error) {
	attempt := tx.base.Begin()
	attempt.work = tx.work
	limit(attempt)
	if changed, err = change(attempt); err != nil || !changed {
		return false, err
	}
	_, err = attempt.Finish(Commit{At: now, Actor: VersionAutomation})
	return err == nil, err
}

// principalOf returns whose rights a component of a move needs.
func (s *State) principalOf(move, component string) policyPrincipal {
	return s.versionAutomation(component).principal(targetOfMove(move))
}

// equal reports whether two principals are the same actor with the same identity.
func (p policyPrincipal) equal(other policyPrincipal) bool {
	return p.Actor == other.Actor && p.Identity.equal(other.Identity)
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
	target := targetOfMove(move)
	var reports []VersionReport
	for i, id := range out.components {
		policy := policyOf(st.componentDocument(id).Component(), target)
		if i == 0 {
			out.policy = policy
		} else if policy.Action != out.policy.Action || policy.Strategy != out.policy.Strategy {
			return out, errorf(CodeConflict, "the policies of the group %q differ in action or strategy: components %q and %q", policy.Group, out.components[0], id)
		}
		reports = append(reports, EvaluateVersions(st, id, target, known(id), now))
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
		of, problem := st.versionTarget(p, target)
		change := componentMove{target: of, images: map[string]*KnownVersion{}}
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
	change := func(tx *Tx) (bool, error) {
		tx.Guard(Guard{Careful: true})
		return true, m.applyTo(tx)
	}
	_, err = tx.attempt(now, limit, change)
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == CodeConfirm || e.Code == CodeFrozen || e.Code == CodePolicy) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = change(tx)
	return nil, err
}

// proposeMove creates the rollout of a move, or rewrites the proposed one. The approvals of a rewritten rollout end. refused is why the
// change is not made at once; nil: the policies of the versions propose.
func (tx *Tx) proposeMove(m versionMove, proposed *Document, refused *Error) error {
	id := rolloutOfMove(m.name)
	var versions []rolloutVersion
	for i := range m.changes {
		versions = append(versions, m.changes[i].versions()...)
	}
	others, open := 0, 0
	if proposed == nil && tx.base.rollouts != nil { // a proposed rollout has a place
		for _, d := range tx.base.rollouts.open {
			if open++; d.rollout().Automation != "" {
				others++
			}
		}
	}
	if others >= cmp.Or(tx.base.rules.VersionRollouts, DefaultVersionRollouts) || open >= openRolloutLimit.limitedMax() { // an identity with limits may have created the policy
		return ErrVersionWaits
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
	principal := tx.base.principalOf(m.name, m.components[0])
	creation := &rolloutCreation{NewRollout: n, rollout: r, change: change, automatic: &principal}
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
	if !tx.base.principalOf(m.name, m.components[0]).equal(policyPrincipal{r.Principal, r.Identity}) {
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
	start := func(tx *Tx) (bool, error) {
		_, err := tx.ChangeRollout(d.ID, RolloutStart, step.Stage)
		return err == nil, err
	}
	_, err = tx.attempt(now, limit, start)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodePolicy {
		return tx.describeRollout(d, m.describe(e))
	}
	return start(tx)
}

// describeRollout sets the description of a rollout. It reports whether it differs.
func (tx *Tx) describeRollout(d *Document, description string) (bool, error) {
	r := *d.rollout()
	if r.Description == description {
		return false, nil
	}
	r.Description = description
	if _, err := tx.recordValue(KindRollout, d.ID, &r); err != nil {
		return false, err
	}
	tx.recordOperation(api.RevisionOperation{Op: "update", Kind: string(KindRollout), ID: d.ID})
	return true, nil
}
