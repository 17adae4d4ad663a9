package fleet

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A person approves the change of another person by the hash of its plan. Each approval is a document, which the commit that uses it deletes.

// maxApprovals is the maximum number of unused approvals, and maxApprovalsOf that of one person, who cannot use up the limit of all.
const (
	maxApprovals   = 1000
	maxApprovalsOf = 100
)

// Approvers sets how the rights of an approver are determined at the time of the commit: all changes, or those of access documents.
// Without it, no approval counts.
func (tx *Tx) Approvers(rights func(st *State, p Principal) (all bool, of Rights)) {
	tx.approvers = rights
}

// OnBehalfOf adds a principal whose change the Tx makes: it cannot approve it.
func (tx *Tx) OnBehalfOf(p Principal) { tx.onBehalfOf = append(tx.onBehalfOf, p) }

// committer returns who makes a commit. An automation has the rights of another principal, but not its identity.
func (tx *Tx) committer(actor string) Principal {
	if strings.HasPrefix(actor, oidcActor) {
		return Principal{actor, tx.scope.identity()}
	}
	return Principal{Actor: actor}
}

// approvalID returns the id of an approval by an actor. Each approver has an own one, so nobody replaces the approval of another.
func approvalID(planHash, subject, by string) string {
	sum := sha256.Sum256([]byte(subject + "\x00" + by))
	return fmt.Sprintf("%s.%x", planHash, sum[:8])
}

// Approve approves the change of a subject with the hash of its plan, by the actor of the commit. It also removes approvals that have ended.
func (tx *Tx) Approve(planHash, subject, reason, by string) (id string) {
	tx.addApproval(planHash, subject, reason)
	id = approvalID(planHash, subject, by)
	tx.recordOperation(api.RevisionOperation{Op: "create", Kind: string(KindApproval), ID: id, Fields: []string{truncate("subject=" + subject)}})
	return id
}

// addApproval adds an approval by the sender of the commit, which Finish knows.
func (tx *Tx) addApproval(planHash, subject, reason string) {
	tx.beforeFinish = func(c Commit) error {
		return tx.recordApproval(c, planHash, subject, reason)
	}
}

// recordApproval records an approval by the sender of a commit.
func (tx *Tx) recordApproval(c Commit, planHash, subject, reason string) error {
	by := tx.committer(c.Actor)
	a := approval{ID: approvalID(planHash, subject, c.Actor), PlanHash: planHash, Subject: subject, By: c.Actor, Identity: by.Identity, Reason: reason, At: c.At}
	if tx.scope != nil {
		if a.Access = tx.scope.approvingAccess(); len(a.Access) == 0 {
			return errorf(CodeOutOfScope, "no access document of yours grants %s", RightApprove)
		}
	}
	if by.person() == "" || by.person() == personNamed(subject) {
		return errorf(CodeSecondPerson, "%s cannot approve its own change: another person must", subject)
	}
	n, own := 0, 0
	for other, d := range tx.base.docs[KindApproval] {
		switch {
		case other == a.ID:
		case c.At.Sub(d.approval().At) >= approvalAge, tx.base.stageIsOver(d.approval()):
			tx.record(KindApproval, other, nil)
		default:
			n++
			if d.approval().approver().person() == by.person() {
				own++
			}
		}
	}
	switch {
	case n >= maxApprovals:
		return errorf(CodeLimitExceeded, "there are %d approvals, which is the most: delete some, or wait until they end", n)
	case own >= maxApprovalsOf:
		return errorf(CodeLimitExceeded, "%s has %d approvals that were not used, which is the most: delete some, or wait until they end", c.Actor, own)
	}
	_, err := tx.recordValue(KindApproval, a.ID, a)
	return err
}

// stageIsOver reports whether an approval is of a stage that has started or has another one: no change uses it then. None did if no policy
// needed it.
func (s *State) stageIsOver(a *approval) bool {
	of, isStage := strings.CutPrefix(a.Subject, stageActor)
	id, stage, _ := strings.Cut(of, ":")
	d := s.docs[KindRollout][id]
	if !isStage || d == nil {
		return isStage
	}
	r := d.rollout()
	at := slices.IndexFunc(r.Stages, func(st rolloutStage) bool { return st.Name == stage })
	return !r.open() || at < r.Started || r.Stages[at].Approved == nil || r.Stages[at].Approved.PlanHash != a.PlanHash
}

// approvingAccess returns the ids of the access documents that grant the rights to approve and to read; none: there is no right to approve.
func (s *scope) approvingAccess() (ids []string) {
	if !slices.ContainsFunc(s.rights.grants, (*access).mayApprove) {
		return nil
	}
	for _, a := range s.rights.grants {
		if a.mayApprove() || a.may(RightRead) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// mayApprove reports whether the document grants the right to approve changes, or that of admins.
func (a *access) mayApprove() bool { return a.may(RightApprove) || a.may(RightAdmin) }

// DeleteApproval deletes an approval of the principal or for it; admins delete any.
func (tx *Tx) DeleteApproval(id string) {
	tx.beforeFinish = func(c Commit) error {
		d := tx.base.docs[KindApproval][id]
		by := tx.committer(c.Actor)
		switch {
		case tx.base.detached: // it has no approvals
			return nil
		case d == nil, tx.withoutAdmin && by.person() != d.approval().approver().person() && by.subject() != d.approval().Subject:
			return tx.notFound(KindApproval, id)
		}
		tx.record(KindApproval, id, nil)
		return nil
	}
	tx.recordOperation(api.RevisionOperation{Op: "delete", Kind: string(KindApproval), ID: id})
}

// ApprovalsFor returns the approvals that have not ended; if the principal may not read everything, only those by it and for it.
func (s *State) ApprovalsFor(p Principal, everything bool, now time.Time) []*Document {
	return s.Whole().sorted(KindApproval, func(d *Document) bool {
		a := d.approval()
		return now.Sub(a.At) < approvalAge && (everything || p.person() != "" && (p.person() == a.approver().person() || p.subject() == a.Subject))
	})
}

func (a *approval) approver() Principal { return Principal{a.By, a.Identity} }

// describe says what is missing.
func (u approvalUse) describe() string {
	text := fmt.Sprintf("another person can approve the plan %s for %s", u.PlanHash, u.Subject)
	if u.problem != "" {
		text = "the approval does not count, since " + u.problem + "; " + text
	}
	return text
}

// needsApprovals reports whether there are policies for which changes may need an approval.
func (s *State) needsApprovals() bool {
	return slices.ContainsFunc(s.enforcedPolicies(), func(d *Document) bool { return d.Policy().Action == PolicyApprove })
}

// approvalOf finds the approval of a change by the hash of its plan.
func (tx *Tx) approvalOf(res *Result, edits []edit, planHash string) (approvalUse, error) {
	by := tx.committer(res.Commit.Actor)
	use := approvalUse{NeededApproval: NeededApproval{planHash, by.subject()}}
	for _, ch := range res.Commit.Changes {
		if isInternal(ch.Kind) && !kindUses[ch.Kind].derived { // a plan's hash does not have it
			return approvalUse{}, nil
		}
	}
	if use.Subject == "" {
		return approvalUse{}, nil
	}
	given := tx.base.sorted(KindApproval, func(d *Document) bool {
		return d.approval().PlanHash == planHash && d.approval().Subject == use.Subject
	})
	var ofStage *Document
	if ofStage, use.problem = tx.approvalOfStage(planHash); ofStage != nil {
		given = append(given, ofStage)
	}
	for _, d := range given {
		problem, err := tx.approvalProblem(d, res, edits)
		if use.problem = problem; err != nil {
			return use, err
		}
		if problem == "" {
			use.doc = d
			return use, nil
		}
	}
	return use, nil
}

// stageSubject returns the subject of the approval of a stage: whoever starts it.
func stageSubject(rollout, stage string) string { return stageActor + rollout + ":" + stage }

const stageActor = "rollout:"

// approvalOfStage returns the approval of the stage that the Tx starts for a plan; nil: there is none, and why.
func (tx *Tx) approvalOfStage(planHash string) (of *Document, missing string) {
	for key, doc := range tx.edits {
		was := tx.base.docs[KindRollout][key.id]
		if key.kind != KindRollout || was == nil || doc == nil || doc.rollout().Started <= was.rollout().Started {
			continue
		}
		r := was.rollout()
		s := r.Stages[r.Started]
		if !s.Approval || s.Approved == nil {
			return nil, ""
		}
		d := tx.base.docs[KindApproval][approvalID(s.Approved.PlanHash, stageSubject(r.ID, s.Name), s.Approved.By)]
		switch {
		case s.Approved.PlanHash == "":
			return nil, fmt.Sprintf("a policy was changed since stage %q was approved", s.Name)
		case s.Approved.PlanHash != planHash:
			return nil, fmt.Sprintf("the effect of stage %q differs from the approved one", s.Name)
		case d == nil || d.approval().By != s.Approved.By || !d.approval().At.Equal(s.Approved.At):
			return nil, "it was taken back, or is older than 24 hours"
		}
		return d, ""
	}
	return nil, ""
}

// approvalProblem returns why an approval does not count for a commit; empty: it counts.
func (tx *Tx) approvalProblem(d *Document, res *Result, edits []edit) (string, error) {
	a := d.approval()
	by := a.approver()
	if age := res.Commit.At.Sub(a.At); age >= approvalAge || age < -time.Hour {
		return "it is older than 24 hours", nil
	}
	for _, p := range tx.base.docs[KindPolicy] {
		if p.Revision >= d.Revision {
			return "a policy was changed since", nil // its id may be hidden from the sender
		}
	}
	others := append([]Principal{tx.committer(res.Commit.Actor)}, tx.onBehalfOf...)
	if by.person() == "" || slices.ContainsFunc(others, func(p Principal) bool { return p.person() == by.person() }) || by.isNamedIn(res.Commit.Author) || tx.changesRolloutOf(by) {
		return "the approver makes the change, or is its author", nil
	}
	if a.Identity != nil && tx.base.SessionEnded(a.Identity, a.At, true) {
		return "the sessions of the approver were ended since", nil
	}
	return tx.approverProblem(a, res, edits)
}

// changesRolloutOf reports whether the Tx changes a rollout that a principal created, or whose stages it changed last.
func (tx *Tx) changesRolloutOf(p Principal) bool {
	for key := range tx.edits {
		if d := tx.base.docs[KindRollout][key.id]; key.kind == KindRollout && d != nil {
			if r := d.rollout(); samePerson(p.Identity, p.Actor, r.AuthorID, r.Author) || samePerson(p.Identity, p.Actor, r.ChangedByID, r.ChangedBy) {
				return true
			}
		}
	}
	return false
}

// approverProblem returns which right the approver lacks now; empty: none. One of its access documents must grant the right to approve within
// limits that would permit to write the change, and it must be able to read everything that the change reaches.
func (tx *Tx) approverProblem(a *approval, res *Result, edits []edit) (string, error) {
	if tx.approvers == nil {
		return "the rights of the approver are not known", nil
	}
	all, rights := tx.approvers(tx.base, a.approver())
	if len(a.Access) == 0 {
		if !all {
			return "the approver may no longer change the fleet", nil
		}
		return "", nil
	}
	rights.grants = slices.DeleteFunc(slices.Clone(rights.grants), func(g *access) bool { return !slices.Contains(a.Access, g.ID) })
	if !rights.Include(RightRead) {
		return "the approver may no longer read the fleet", nil
	}
	own := tx.scope
	defer func() { tx.scope = own }()
	tx.scope = &scope{rights: rights}
	for _, g := range rights.grants {
		if g.mayApprove() {
			permits := *g
			if permits.May = []Right{RightApprove, RightWrite}; g.On == nil {
				permits.May = append(permits.May, RightPolicy, RightAdmin)
			}
			tx.scope.grants = append(tx.scope.grants, grant{&permits, false})
		}
	}
	err := cmp.Or(tx.checkDocumentsInScope(edits), tx.checkLabelsInScope(edits, res.Commit.At), tx.checkClustersInScope(res), tx.checkReadable(edits, res))
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code == CodeOutOfScope {
		return "the rights of the approver do not cover the whole change", nil
	}
	return "", err
}
