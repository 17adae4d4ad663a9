package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// approving is a fleet with a policy that requires approvals.
type approving struct {
	*world
	rights map[string]func() (bool, Rights) // of approvers, by actor
}

const (
	committer = "token:ci (1)"
	approver  = "oidc:corp:ann@example.com (00u1)"
)

var ann = &Subject{Issuer: "corp", User: "ann@example.com", Sub: "00u1", Groups: []string{"leads"}}

func newApproving(t *testing.T) *approving {
	t.Helper()
	w := &approving{world: policed(t), rights: map[string]func() (bool, Rights){}}
	w.must(create(KindAccess, `{"id":"leads","subjects":[{"issuer":"corp","groups":["leads"]}],"may":["read","approve"]}`))
	w.must(create(KindPolicy, `{"id":"second","rule":"false","action":"approve"}`))
	w.rights[approver] = func() (bool, Rights) { return false, w.state.Rights(ann, w.now) }
	return w
}

func (w *approving) finish(actor, author string, prepare, change func(*Tx) error) (Result, error) {
	w.t.Helper()
	tx := w.state.Begin()
	tx.Approvers(func(_ *State, p Principal) (bool, Rights) {
		if of := w.rights[p.Actor]; of != nil {
			return of()
		}
		return false, Rights{}
	})
	require.NoError(w.t, prepare(tx))
	if err := change(tx); err != nil {
		return Result{}, err
	}
	return tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: actor, Author: author})
}

func nothing(*Tx) error { return nil }

// approve approves a change for the committer as a person of an issuer.
func (w *approving) approve(change func(*Tx) error) {
	w.t.Helper()
	_, err := w.finish(committer, "", nothing, change)
	needed := errorOf(w.t, err, CodePolicy).Approval
	require.Equal(w.t, "token:ci", needed.Subject)
	w.approveFor(needed)
}

func (w *approving) approveFor(needed NeededApproval) {
	w.t.Helper()
	res, err := w.finish(approver, "", func(tx *Tx) error { tx.LimitTo(w.state.Rights(ann, w.now), false); return nil }, func(tx *Tx) error {
		tx.Approve(needed.PlanHash, needed.Subject, "", approver)
		return nil
	})
	require.NoError(w.t, err)
	w.state = res.State
}

// admits reports whether the approval admits the change.
func (w *approving) admits(prepare, change func(*Tx) error) bool {
	w.t.Helper()
	res, err := w.finish(committer, "", prepare, change)
	if err != nil {
		_ = errorOf(w.t, err, CodePolicy)
		return false
	}
	require.Empty(w.t, res.State.docs[KindApproval], "it is used up")
	return true
}

var bumpLoki = patch(KindComponent, "loki", `{"component_version":"6.0.0"}`)

// TestApprovalOfIssuer: an approval by a person of an issuer counts while its session and its rights last.
func TestApprovalOfIssuer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then   func(w *approving)
		admits bool
	}{
		"at once":   {func(*approving) {}, true},
		"23 hours":  {func(w *approving) { w.now = w.now.Add(23 * time.Hour) }, true},
		"24 hours":  {func(w *approving) { w.now = w.now.Add(24 * time.Hour) }, false},
		"sessions":  {func(w *approving) { w.must(func(tx *Tx) error { return tx.EndSessions("corp", "00u1", w.now) }) }, false},
		"everybody": {func(w *approving) { w.must(func(tx *Tx) error { return tx.EndSessions("corp", "", w.now) }) }, false},
		"another":   {func(w *approving) { w.must(func(tx *Tx) error { return tx.EndSessions("corp", "00u2", w.now) }) }, true},
		"issuer":    {func(w *approving) { w.rights[approver] = nil }, false},
		"policy":    {func(w *approving) { w.must(patch(KindPolicy, "second", `{"description":"x"}`)) }, false},
		"access":    {func(w *approving) { w.must(remove(KindAccess, "leads", DeleteOptions{})) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newApproving(t)
			w.approve(bumpLoki)
			require.Equal(t, &Subject{Issuer: "corp", User: "ann@example.com", Sub: "00u1", Groups: []string{"leads"}}, w.only().Identity)
			c.then(w)
			require.Equal(t, c.admits, w.admits(nothing, bumpLoki))
		})
	}
}

func (w *approving) only() *approval {
	w.t.Helper()
	all := w.state.All(KindApproval)
	require.Len(w.t, all, 1)
	return all[0].approval()
}

// TestApprovalsOfSeveral: a person whose approval does not count does not end that of another, and the change uses up both.
func TestApprovalsOfSeveral(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	w.approve(bumpLoki)
	needed := w.only()
	for _, by := range []string{"token:lead (7)", "token:lead (7)", "token:intern (8)"} {
		w.rights[by] = nil
		res, err := w.finish(by, "", nothing, func(tx *Tx) error { tx.Approve(needed.PlanHash, needed.Subject, "", by); return nil })
		require.NoError(t, err)
		w.state = res.State
	}
	require.Len(t, w.state.All(KindApproval), 3)
	require.True(t, w.admits(nothing, bumpLoki))
}

// TestApprovalBySamePerson: nobody approves what is made on its behalf, by whichever name the author gives it.
func TestApprovalBySamePerson(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	w.approve(bumpLoki)
	for _, author := range []string{"ann@example.com", "Ann <ANN@example.com>", "00u1", "oidc:corp:00u1", approver} {
		_, err := w.finish(committer, author, nothing, bumpLoki)
		require.Contains(t, errorOf(t, err, CodePolicy).Detail, "the approver makes the change, or is its author", author)
	}
	require.False(t, w.admits(func(tx *Tx) error {
		tx.OnBehalfOf(Principal{Actor: "oidc:corp:other (00u1)", Identity: ann})
		return nil
	}, bumpLoki))
	require.True(t, w.admits(func(tx *Tx) error { tx.OnBehalfOf(Principal{Actor: "token:ann (2)"}); return nil }, bumpLoki))
	_, err := w.finish(approver, "", func(tx *Tx) error { tx.LimitTo(w.state.Rights(ann, w.now), false); return nil }, func(tx *Tx) error {
		tx.Approve("0", "oidc:corp:00u1", "", approver)
		return nil
	})
	require.Contains(t, errorOf(t, err, CodeSecondPerson).Detail, "cannot approve its own change")
	_, err = w.finish("token:ci (2)", "", nothing, func(tx *Tx) error { tx.Approve("0", "token:ci", "", "token:ci (2)"); return nil })
	_ = errorOf(t, err, CodeSecondPerson)
	_, err = w.state.Begin().Finish(Commit{ID: uuid.New(), At: w.now, Actor: committer})
	require.NoError(t, err)
}

// TestApprovalOfRollout: the author of a rollout cannot approve the start of its stages.
func TestApprovalOfRollout(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	w.must(put(KindPolicy, "second", `{"rule":"effect.count == 0","suspended":true}`))
	tx := w.state.Begin()
	require.NoError(t, rollOut(w.world, "r", append(devFirst[:1:1], RolloutStage{Name: "prod", Selector: "tier=prod"}), patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`), patchOp(KindComponent, "loki", `{"component_version":"6.0.0"}`))(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:author (1)"})
	require.NoError(t, err)
	w.state = res.State
	w.must(act("r", RolloutStart))
	w.must(put(KindPolicy, "second", `{"suspended":false}`))
	start := act("r", RolloutStart)
	w.approve(start)
	require.False(t, w.state.Begin().changesRolloutOf(Principal{Actor: "token:author (3)"}))
	edited := w.state.Begin()
	require.NoError(t, start(edited))
	require.True(t, edited.changesRolloutOf(Principal{Actor: "token:author (3)"}))
	w.must(act("r", RolloutPause))
	resume := w.state.Begin()
	require.NoError(t, act("r", RolloutResume)(resume))
	res, err = resume.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:other (1)"})
	require.NoError(t, err)
	w.state = res.State
	require.True(t, w.admits(nothing, start), "a pause for the approval does not change the plan")
}

// TestNoApprovalOfTokens: the hash of a plan has no tokens, so an approval of one would admit every other one.
func TestNoApprovalOfTokens(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	token := func(tx *Tx) error {
		_, err := tx.CreateToken(NewToken{ID: "9", Name: "new", Role: RoleAdmin}, w.now)
		return err
	}
	_, err := w.finish(committer, "", nothing, token)
	require.Empty(t, errorOf(t, err, CodePolicy).Approval)
}

// TestApprovalsAreNoDocuments: no batch, seed, revert or restore makes an approval.
func TestApprovalsAreNoDocuments(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	w.approve(bumpLoki)
	given := w.state.All(KindApproval)[0]
	used, err := w.finish(committer, "", nothing, bumpLoki)
	require.NoError(t, err)
	w.keep(used)
	require.Empty(t, w.state.All(KindApproval))
	for _, op := range []string{"create", "put", "update"} {
		require.Error(t, batch(fmt.Sprintf(`{"op":%q,"kind":"approval","id":%q,"document":%s}`, op, given.ID, given.Body))(w.state.Begin()), op)
	}
	_, err = ParseSeed([]byte(`{"approvals":[` + string(given.Body) + `]}`))
	require.Error(t, err)
	require.NotContains(t, Kinds(), KindApproval)
	var before map[string]any
	for _, ch := range used.Commit.Changes {
		if ch.Kind == KindApproval {
			public, after, err := ch.Public()
			require.NoError(t, err)
			require.Nil(t, after)
			require.NoError(t, json.Unmarshal(public, &before))
		}
	}
	require.Equal(t, approver, before["by"])
	require.NotContains(t, before, "identity")
}

// TestApprovalLimit: ended approvals are removed by the next one, and there are limits, one of them for each person.
func TestApprovalLimit(t *testing.T) {
	t.Parallel()
	w := newApproving(t)
	for i := range maxApprovalsOf {
		w.approveFor(NeededApproval{fmt.Sprint(i), "token:ci"})
	}
	approveAs := func(actor, planHash string) error {
		res, err := w.finish(actor, "", nothing, func(tx *Tx) error { tx.Approve(planHash, "token:ci", "", actor); return nil })
		if err == nil {
			w.state = res.State
		}
		return err
	}
	_, err := w.finish(approver, "", func(tx *Tx) error { tx.LimitTo(w.state.Rights(ann, w.now), false); return nil }, func(tx *Tx) error { tx.Approve("x", "token:ci", "", approver); return nil })
	require.Contains(t, errorOf(t, err, CodeLimitExceeded).Detail, approver)
	w.approveFor(NeededApproval{"0", "token:ci"}) // it has it already
	for i := maxApprovalsOf; i < maxApprovals; i++ {
		require.NoError(t, approveAs(fmt.Sprintf("token:t%d (%d)", i/maxApprovalsOf, i/maxApprovalsOf), fmt.Sprint(i)))
	}
	require.Contains(t, errorOf(t, approveAs("token:other (1)", "x"), CodeLimitExceeded).Detail, "there are 1000")
	require.Len(t, w.state.ApprovalsFor(Principal{Actor: "token:ci (7)"}, false, w.now), maxApprovals)
	require.Len(t, w.state.ApprovalsFor(Principal{Actor: approver, Identity: ann}, false, w.now), maxApprovalsOf)
	require.Empty(t, w.state.ApprovalsFor(Principal{Actor: "oidc:corp:ann@example.com (00u1)"}, false, w.now), "it is not identified")
	require.Empty(t, w.state.ApprovalsFor(Principal{Actor: "token:other (1)"}, false, w.now))
	w.now = w.now.Add(24 * time.Hour)
	require.Empty(t, w.state.ApprovalsFor(Principal{}, true, w.now))
	w.approveFor(NeededApproval{"x", "token:ci"})
	require.Equal(t, "x", w.only().PlanHash)
}
