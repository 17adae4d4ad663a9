package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestRemovalsOfStagesAddUp: stage by stage, the plans remove what the plan of the whole change removes.
func TestRemovalsOfStagesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := tiers(t, prodLayer, baseLayer)
		for range rapid.IntRange(0, 4).Draw(rt, "before") {
			if _, edit := randomOther(rt); true {
				if res, err := w.try(withoutGuard(edit)); err == nil {
					w.keep(res)
				}
			}
		}
		counted := w.state.recentRemovals(w.now)
		ops := stageableOperations(rt)
		made, err := w.try(withoutGuard(operations(w, ops...)))
		if err != nil || len(made.Commit.Changes) == 0 {
			return
		}
		whole, err := made.Plan()
		require.NoError(rt, err)
		create, err := w.try(confirmed(whole.PlanHash, rollOut(w, "r", randomStages(rt), ops...)))
		require.NoError(rt, err)
		require.Equal(rt, polls(rt, w.state), polls(rt, create.State))
		w.keep(create)
		removals := 0
		for range create.State.docs[KindRollout]["r"].rollout().Stages {
			res, err := w.try(act("r", RolloutStart)) // without a plan_hash: the removals are confirmed
			require.NoError(rt, err)
			plan, err := res.Plan()
			require.NoError(rt, err)
			removals += plan.Totals.Removals
			w.keep(res)
		}
		require.Equal(rt, whole.Totals.Removals, removals)
		require.Equal(rt, polls(rt, made.State), polls(rt, w.state))
		require.Equal(rt, counted, w.state.recentRemovals(w.now), "removals that were confirmed at the creation do not count again")
		done, err := w.try(act("r", RolloutComplete))
		require.NoError(rt, err)
		plan, err := done.Plan()
		require.NoError(rt, err)
		require.Empty(rt, plan.Groups)
		require.Zero(rt, plan.Totals.Removals)
		for key, body := range bodies(made.State) {
			require.Equal(rt, body, bodies(done.State)[key], "the completion makes the change")
		}
	})
}

// TestRolloutRemovalsNeedConfirmation at the creation, or else at each stage, and so does more than was confirmed.
func TestRolloutRemovalsNeedConfirmation(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.MaxRemovals = 1
	move := patchOp(KindComponent, "grafana", `{"target_namespace":"monitoring"}`)
	stages := []RolloutStage{{Name: "dev", Selector: "tier=dev"}}
	e := w.refused(CodeConfirm, rollOut(w, "r", stages, move))
	require.Contains(t, e.Detail, "4 installed things would be removed from 4 clusters")
	plan := w.plan(operations(w, move))
	w.refused(CodeStale, confirmed(plan.PlanHash, rollOut(w, "r", stages, patchOp(KindComponent, "grafana", `{"target_namespace":"other"}`))))
	w.must(confirmed(plan.PlanHash, rollOut(w, "r", stages, move)))
	require.Equal(t, 4, w.state.docs[KindRollout]["r"].rollout().ConfirmedRemovals)

	stage := w.plan(act("r", RolloutStart))
	require.Equal(t, 2, stage.Totals.Removals, "the variant has another deployment")
	require.Equal(t, []string{"c0", "c1"}, stage.Groups[0].Clusters)
	require.True(t, stage.Groups[0].Effect["platform-components"].Changed[0].Removal)
	w.must(act("r", RolloutStart))
	require.Equal(t, "monitoring", component(t, w.state, "c0.example.com", "grafana")["target_namespace"])

	// Rolling back removes again, and that was not confirmed.
	w.refused(CodeConfirm, act("r", RolloutBack))
	w.refused(CodeConfirm, act("r", RolloutAbort))
	// A cluster that joins has more to lose than was confirmed.
	w.must(create(KindCluster, `{"id":"c4","cluster_dns":"c4.example.com","environment":"dev","labels":{"tier":"prod"}}`))
	require.Contains(t, w.refused(CodeConfirm, act("r", RolloutStart)).Detail, "3 installed things")
	w.must(confirmed(w.plan(act("r", RolloutStart)).PlanHash, act("r", RolloutStart)))

	// deletion_protection refuses the rollout before any stage.
	w = tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c3", `{"deletion_protection":true}`))
	require.Contains(t, w.refused(CodeProtected, rollOut(w, "r", stages, move)).Detail, `cluster "c3" has deletion_protection`)
}

// TestStagesRemoveFromProtectedEnvironments: the removals that were confirmed for a rollout do not override a request that
// states where it may remove.
func TestStagesRemoveFromProtectedEnvironments(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.MaxRemovals, w.state.rules.Protected = 1, []string{"dev"}
	move := patchOp(KindComponent, "grafana", `{"target_namespace":"monitoring"}`)
	w.must(confirmed(w.plan(operations(w, move)).PlanHash, rollOut(w, "r", nil, move)))
	start := func(g Guard) func(*Tx) error {
		return both(func(tx *Tx) error { tx.Guard(g); return nil }, act("r", RolloutStart))
	}
	require.Contains(t, w.refused(CodeConfirm, start(Guard{Careful: true})).Detail, `4 installed things would be removed from 4 clusters of the protected environment "dev"`)
	w.must(start(Guard{Careful: true, RemovesFrom: []string{"dev"}}))
}

// TestRetainedNamespaceInARollout: a rollout that changes a label of a namespace and takes it off clusters removes nothing if
// its deletion policy has long been orphan, as without a rollout.
func TestRetainedNamespaceInARollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, strings.Replace(baseLayer, `"namespaces":[`, `"namespaces":[{"id":"kept"},`, 1))
	w.now = w.now.Add(time.Hour)
	w.must(rollOut(w, "r", devFirst, patchOp(KindNamespace, "kept", `{"labels":{"a":"b"}}`),
		api.Operation{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "kept"}))
	w.must(act("r", RolloutStart))
	w.must(act("r", RolloutStart))
}

// TestDeletionPolicyAfterARollout: a cluster that loses the change of a rollout has polled the deletion policy of the rollout
// last, so Flux may still delete a namespace whose stored policy has been orphan for long.
func TestDeletionPolicyAfterARollout(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world){
		"abort": func(w *world) { w.must(act("r", RolloutAbort)) },
		"back":  func(w *world) { w.must(act("r", RolloutBack)) },
		"label": func(w *world) {
			w.must(patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))
			w.must(patch(KindCluster, "c1", `{"labels":{"tier":"prod"}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, strings.Replace(baseLayer, `"namespaces":[`, `"namespaces":[{"id":"kept"},`, 1))
			w.now = w.now.Add(time.Hour)
			w.must(rollOut(w, "r", devFirst, patchOp(KindNamespace, "kept", `{"deletion_policy":"delete"}`)))
			w.must(act("r", RolloutStart))
			w.now = w.now.Add(time.Hour)
			leave(w)
			off := operations(w, api.Operation{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "kept"})
			require.Contains(t, w.refused(CodeConfirm, off).Detail, `namespace "kept" and everything in it would be deleted on`)
			w.now = w.now.Add(settleTime)
			w.must(off)
		})
	}
}

// TestRolloutIsKeptForItsDeletionPolicy: neither a deletion nor a restore makes the fleet forget that clusters may have polled the
// deletion policy of a rollout.
func TestRolloutIsKeptForItsDeletionPolicy(t *testing.T) {
	t.Parallel()
	started := func() *world {
		w := tiers(t, strings.Replace(baseLayer, `"namespaces":[`, `"namespaces":[{"id":"kept"},`, 1))
		w.now = w.now.Add(time.Hour)
		w.must(rollOut(w, "r", devFirst, patchOp(KindNamespace, "kept", `{"deletion_policy":"delete"}`)))
		w.must(act("r", RolloutStart))
		return w
	}
	unassign := api.Operation{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "kept"}
	forget := remove(KindRollout, "r", DeleteOptions{})

	w := started()
	w.must(act("r", RolloutAbort))
	ended := w.state.docs[KindRollout]["r"].UpdatedAt
	w.now = ended.Add(settleTime - time.Second)
	require.Equal(t, `rollout "r" changed the deletion policy of the namespace "kept", and clusters may not have polled since it ended: delete it after `+ended.Add(settleTime).UTC().Format(time.RFC3339),
		w.refused(CodeConflict, forget).Detail)
	w.refused(CodeConfirm, operations(w, unassign))
	w.now = ended.Add(settleTime)
	w.must(forget)
	w.must(operations(w, unassign))

	for name, state := range map[string]string{RolloutAbort: rolloutAborted, RolloutComplete: rolloutCompleted, RolloutPause: rolloutAborted} {
		w := started()
		if name == RolloutComplete {
			w.must(act("r", RolloutStart))
		}
		w.must(act("r", name))
		w.log.past = w.pastOf(1)
		w.must(withoutGuard(operations(w, api.Operation{Op: "restore", Revision: 1})))
		require.Equal(t, state, w.state.docs[KindRollout]["r"].rollout().State, name)
		require.Contains(t, w.refused(CodeConfirm, operations(w, unassign)).Detail, `namespace "kept" and everything in it would be deleted on`, name)
	}
}

// TestConfirmedRemovalsAreASet: removals from other clusters than those of the confirmed plan are not confirmed, even if
// they are not more.
func TestConfirmedRemovalsAreASet(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"apps","priority":10,"selector":"tier=dev","platform_components":[{"id":"grafana"},{"id":"loki"}]}`)
	w.state.rules.MaxRemovals = 1
	drop := api.Operation{Op: "unassign_component", Layers: []string{"apps"}, ComponentID: "loki"}
	w.must(confirmed(w.plan(operations(w, drop)).PlanHash, rollOut(w, "r", devFirst, drop)))
	require.Equal(t, 2, w.state.docs[KindRollout]["r"].rollout().ConfirmedRemovals)

	// c0 and c1 keep it by their own assignment; c2 and c3 get it from the layer.
	w.must(both(assign("c0", KindComponent, "loki", ""), assign("c1", KindComponent, "loki", "")))
	w.must(both(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`), patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`)))
	plan := w.plan(act("r", RolloutStart))
	require.Equal(t, []string{"c2", "c3"}, plan.Groups[0].Clusters)
	require.Equal(t, 2, plan.Totals.Removals)
	w.refused(CodeConfirm, act("r", RolloutStart))

	// Fewer removals than were confirmed are confirmed.
	w.must(withoutGuard(both(patch(KindCluster, "c2", `{"labels":{"tier":"prod"}}`), patch(KindCluster, "c3", `{"labels":{"tier":"prod"}}`))))
	w.must(func(tx *Tx) error { _, err := tx.Unassign("c1", KindComponent, "loki"); return err })
	require.Equal(t, 1, w.plan(act("r", RolloutStart)).Totals.Removals)
	counted := w.state.recentRemovals(w.now)
	w.must(act("r", RolloutStart))
	require.Equal(t, counted, w.state.recentRemovals(w.now))
}
