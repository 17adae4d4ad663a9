package fleet

import (
	"encoding/json"
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
	require.Equal(t, &stageApproval{By: "ann", At: w.now}, first.Approved)
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
