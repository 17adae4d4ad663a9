package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// as runs an edit as an actor, without the guard, and keeps the result.
func (w *world) as(actor string, edit func(*Tx) error) error {
	tx := w.state.Begin()
	if err := withoutGuard(edit)(tx); err != nil {
		return err
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: actor})
	if err == nil {
		w.keep(res)
	}
	return err
}

func approve(id, stage string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.ChangeRollout(id, RolloutApprove, stage); return err }
}

var approvedDev = []RolloutStage{{Name: "dev", Selector: "tier=dev", Approval: true}, {Name: "prod", Selector: "tier=prod", Approval: true}}

// TestStageWaitsForApproval: a stage with approval neither starts nor is skipped without one; it does not survive a roll
// back.
func TestStageWaitsForApproval(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	require.NoError(t, w.as("ann", rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
	w.refused(CodeConflict, act("r", RolloutStart))
	w.refused(CodeConflict, act("r", RolloutSkip))
	w.refused(CodeNotFound, approve("r", "qa"))
	w.refused(CodeConflict, approve("r", "rest")) // requires none
	before := polls(t, w.state)
	require.NoError(t, w.as("ann", approve("r", "")))
	require.Equal(t, before, polls(t, w.state))
	first := w.state.docs[KindRollout]["r"].rollout().Stages[0]
	require.Equal(t, &stageApproval{By: "ann", At: w.now, Effect: stageEffect(t, w, "r", 0)}, first.Approved)
	w.refused(CodeConflict, approve("r", ""))
	require.NoError(t, w.as("ann", act("r", RolloutStart)))
	w.refused(CodeConflict, approve("r", "dev")) // has started
	w.refused(CodeConflict, act("r", RolloutStart))
	require.NoError(t, w.as("ann", act("r", RolloutBack)))
	require.NoError(t, w.as("ann", act("r", RolloutResume)))
	w.refused(CodeConflict, act("r", RolloutStart))
	require.NoError(t, w.as("ann", approve("r", "prod"))) // in advance
	require.NoError(t, w.as("ann", approve("r", "dev")))
	require.NoError(t, w.as("ann", act("r", RolloutStart)))
	require.NoError(t, w.as("ann", act("r", RolloutStart)))
	require.NoError(t, w.as("ann", act("r", RolloutAbort)))
	w.refused(CodeConflict, approve("r", ""))
}

// TestSecondPerson: with the rule, the actor that approves has neither created the rollout nor changed its stages.
func TestSecondPerson(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.SecondPerson = true
	stages := append([]RolloutStage{{Name: "first", ClusterIDs: []string{"c0"}}}, approvedDev...)
	require.NoError(t, w.as("ann", rollOut(w, "r", stages, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
	require.Error(t, w.as("ann", approve("r", "dev")))
	require.NoError(t, w.as("bob", act("r", RolloutSkip)))
	require.Error(t, w.as("bob", approve("r", "dev")), "changed the stages")
	require.NoError(t, w.as("cyd", approve("r", "dev")))
	require.NoError(t, w.as("ann", act("r", RolloutStart)))
	require.NoError(t, w.as("cyd", approve("r", "prod")), "an approval is no change")
}

// TestSecondPersonWithSeveralTokens: tokens with one name are one person, whatever their ids.
func TestSecondPersonWithSeveralTokens(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.SecondPerson = true
	require.NoError(t, w.as("token:ann (0000000000000001)", rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
	require.Error(t, w.as("token:ann (0000000000000002)", approve("r", "dev")))
	require.NoError(t, w.as("token:anna (0000000000000003)", approve("r", "dev")))
}

// asSubject runs an edit as a person of an issuer, who may do everything.
func (w *world) asSubject(sub Subject, edit func(*Tx) error) error {
	rights := Rights{subject: &sub, grants: []*access{{Access: api.Access{May: []string{RightRead, RightWrite, RightApprove}}}}}
	return w.as(fmt.Sprintf("oidc:%s:%s (%s)", sub.Issuer, sub.User, sub.Sub), func(tx *Tx) error {
		tx.LimitTo(rights, false)
		return edit(tx)
	})
}

// TestSecondPersonOfIssuer: an identity of an issuer is one person under each name in its ID tokens, and is not another person with a
// similar name or subject.
func TestSecondPersonOfIssuer(t *testing.T) {
	t.Parallel()
	ann := Subject{Issuer: "corp", User: "ann@example.com", Sub: "00u1"}
	for name, test := range map[string]struct {
		by   Subject
		same bool
	}{
		"the same token":            {ann, true},
		"without the scope email":   {Subject{Issuer: "corp", User: "00u1", Sub: "00u1"}, true},
		"with another e-mail":       {Subject{Issuer: "corp", User: "ann@other.example.com", Sub: "00u1"}, true},
		"the same name":             {Subject{Issuer: "corp", User: "ann@example.com", Sub: "00u2"}, false},
		"the same sub elsewhere":    {Subject{Issuer: "other", User: "ann@example.com", Sub: "00u1"}, false},
		"a sub that ends like hers": {Subject{Issuer: "corp", User: "x", Sub: "x (00u1"}, false},
	} {
		for _, stored := range []bool{true, false} { // false: the rollout is of a version that did not store identities
			w := tiers(t, prodLayer, baseLayer)
			w.state.rules.SecondPerson = true
			require.NoError(t, w.asSubject(ann, rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
			if r := w.state.docs[KindRollout]["r"].rollout(); !stored {
				require.NotEmpty(t, r.AuthorID)
				r.AuthorID = ""
			}
			err := w.asSubject(test.by, approve("r", "dev"))
			require.Equal(t, test.same, err != nil, "%s: %v", name, err)
		}
	}
}

// stageEffect returns the current effect of the start of a stage.
func stageEffect(t *testing.T, w *world, id string, stage int) string {
	t.Helper()
	in, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout][id], nil)
	require.NoError(t, err)
	return in.StageEffect(stage)
}

// TestApprovalCoversPlannedEffect is an attack by the author of a rollout: the second person approves a stage of one cluster, then the author
// labels further clusters into it, or changes their inputs, and starts it.
func TestApprovalCoversPlannedEffect(t *testing.T) {
	t.Parallel()
	label := func(id, labels string) func(*Tx) error {
		return patch(KindCluster, id, `{"labels":`+labels+`}`)
	}
	for name, test := range map[string]struct {
		attack func(*Tx) error
		ends   bool
	}{
		"clusters join":                   {both(label("c2", `{"tier":"dev"}`), label("c3", `{"tier":"dev"}`)), true},
		"a cluster leaves":                {label("c0", `{"tier":"prod"}`), true},
		"a cluster is created":            {create(KindCluster, `{"id":"new","cluster_dns":"new.example.com","environment":"prod","labels":{"tier":"dev"}}`), true},
		"the input has another content":   {patch(KindComponent, "grafana", `{"component_path":"evil"}`), true},
		"a layer adds a patch":            {patch(KindLayer, "base", `{"patches":{"grafana":{"replicas":"99"}}}`), true},
		"the clusters join another stage": {label("c3", `{"tier":"dev","region":"us"}`), true},
		"another label":                   {label("c0", `{"tier":"dev","x":"y"}`), false},
		"another component":               {patch(KindComponent, "loki", `{"component_version":"7"}`), false},
		"a cluster of another stage":      {label("c3", `{"tier":"none"}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, prodLayer, baseLayer)
			w.state.rules.SecondPerson = true
			require.NoError(t, w.as("ann", rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
			require.NoError(t, w.as("bob", approve("r", "dev")))
			require.NoError(t, w.as("ann", test.attack))
			doc := w.state.docs[KindRollout]["r"]
			counts := make([]StageCounts, 3)
			counts[0].Effect = stageEffect(t, w, "r", 0)
			if !test.ends {
				require.Equal(t, "start", NextStep(doc, counts, w.now).Reason)
				require.NoError(t, w.as("ann", act("r", RolloutStart)))
				return
			}
			require.Contains(t, w.refused(CodeConflict, act("r", RolloutStart)).Detail, "the approval of bob has ended")
			require.Contains(t, w.refused(CodeConflict, act("r", RolloutSkip)).Detail, "the approval of bob has ended")
			step := NextStep(doc, counts, w.now)
			require.Equal(t, "approval", step.Reason)
			require.Contains(t, step.Message, "the approval of bob has ended")
			require.Error(t, w.as("ann", approve("r", "dev")), "not by its author")
			require.NoError(t, w.as("bob", approve("r", "dev")), "again, for what is shown now")
			require.NoError(t, w.as("ann", act("r", RolloutStart)))
		})
	}
}

// TestPlanOfApproval: the hash of its plan covers the effect of the stage, so an approval after another change is refused. The plan
// names the clusters.
func TestPlanOfApproval(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	require.NoError(t, w.as("ann", rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
	plan := w.plan(approve("r", "dev"))
	require.Contains(t, strings.Join(plan.Warnings, "\n"), `stage "dev" has 2 clusters, and its start changes 2: c0, c1`)
	w.must(withoutGuard(patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`)))
	w.refused(CodeStale, confirmed(plan.PlanHash, approve("r", "dev")))
	w.must(confirmed(w.plan(approve("r", "dev")).PlanHash, approve("r", "dev")))
}

// TestRestoreEndsApprovals: a restore does not bring back an approval that ended because its stage was rolled back.
func TestRestoreEndsApprovals(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.SecondPerson = true
	require.NoError(t, w.as("ann", rollOut(w, "r", approvedDev, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))))
	require.NoError(t, w.as("bob", approve("r", "dev")))
	approved := w.state.docs[KindRollout]["r"].Body
	require.NoError(t, w.as("bob", act("r", RolloutStart)))
	started := w.state.docs[KindRollout]["r"].Body
	require.NoError(t, w.as("bob", act("r", RolloutBack)))
	require.NoError(t, w.as("ann", act("r", RolloutResume)))
	restoreTo := func(body json.RawMessage) {
		w.log.past = Documents{KindRollout: {"r": body}}
		require.NoError(t, w.as("ann", operations(w, api.Operation{Op: "restore", Revision: 1})))
	}
	restoreTo(approved)
	require.Contains(t, w.refused(CodeConflict, act("r", RolloutStart)).Detail, "waits for the approval")
	require.NoError(t, w.as("bob", approve("r", "dev")))
	restoreTo(started)
	require.NotNil(t, w.state.docs[KindRollout]["r"].rollout().Stages[0].Approved, "the stage has started again, as it was then")
}
