package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestContradictingPolicies: of two policies that contradict each other, one refuses each change but the exempt ones. Suspending or changing
// one of them, which needs only the right to do so, frees the fleet.
func TestContradictingPolicies(t *testing.T) {
	t.Parallel()
	w := policed(t)
	w.must(create(KindAccess, `{"id":"a","subjects":[{"issuer":"corp","groups":["g"]}],"may":["write"]}`))
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`)))
	w.must(act("r", RolloutStart))
	w.must(create(KindPolicy, `{"id":"some","rule":"effect.count > 0","action":"deny"}`))
	w.must(create(KindPolicy, `{"id":"none","rule":"effect.count == 0","action":"approve"}`))
	component, namespace := patch(KindComponent, "loki", `{"component_version":"6.0.0"}`), create(KindNamespace, `{"id":"new"}`)
	refusedBy := func(id string, change func(*Tx) error) {
		t.Helper()
		e := w.refused(CodePolicy, change)
		require.Len(t, e.Problems, 1)
		require.Equal(t, id, e.Problems[0].ID)
	}
	refusedBy("none", component)
	refusedBy("some", namespace)
	refusedBy("none", both(component, patch(KindPolicy, "none", `{"suspended":true}`)))
	for _, change := range []func(*Tx) error{create(KindFreeze, `{"id":"f","all":true,"reason":"x"}`), remove(KindAccess, "a", DeleteOptions{}), act("r", RolloutAbort)} {
		_, err := w.try(change)
		require.NoError(t, err)
	}
	w.must(patch(KindPolicy, "none", `{"suspended":true}`))
	_, err := w.try(component)
	require.NoError(t, err)
	refusedBy("some", namespace)
	w.must(both(patch(KindPolicy, "none", `{"suspended":false,"rule":"effect.count < 100"}`), patch(KindPolicy, "some", `{"rule":"effect.count >= 0"}`)))
	w.must(both(component, namespace))
}

// TestPolicyAddedDuringARollout: an automatic rollout pauses before the stage that a new policy refuses, with its message, and can be taken
// back.
func TestPolicyAddedDuringARollout(t *testing.T) {
	t.Parallel()
	w := policed(t)
	stages := []RolloutStage{{Name: "a", ClusterIDs: []string{"c0"}}, {Name: "b", ClusterIDs: []string{"c1", "c2"}}}
	w.must(rollOut(w, "r", stages, patchOp(KindComponent, "grafana", `{"component_path":"other"}`)))
	w.must(act("r", RolloutStart))
	before := polls(t, w.state)
	w.must(create(KindPolicy, never))
	w.refused(CodePolicy, act("r", RolloutStart))
	require.Equal(t, before, polls(t, w.state))
	w.must(act("r", RolloutPause))
	w.refused(CodePolicy, act("r", RolloutResume))
	w.must(act("r", RolloutBack))
	require.NotEqual(t, before, polls(t, w.state))
}

// withManyPolicies returns a State with policies that do not fail, half of them with a match.
func withManyPolicies(t testing.TB, base *State, n int) *State {
	tx := base.Begin()
	for i := range n {
		match := ""
		if i%2 == 1 {
			match = `"match":{"environments":["prod","dev"]},`
		}
		_, err := tx.Create(KindPolicy, fmt.Appendf(nil, `{"id":"p%d",%s"rule":%q,"action":"deny"}`, i, match, benchmarkRules[i%len(benchmarkRules)]))
		require.NoError(t, err)
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), Actor: "test"})
	require.NoError(t, err)
	return res.State
}

// TestLimitOfClustersInAnHour: a change that is split into several is refused like the whole one, until an hour has passed. The clusters
// are those that the policy sees.
func TestLimitOfClustersInAnHour(t *testing.T) {
	t.Parallel()
	w := policed(t, `{"id":"few","match":{"selector":"tier=prod"},"rule":"effect.count + recent.count <= 2","message":"string(recent.count)","action":"deny"}`)
	label := func(cluster, value string) func(*Tx) error {
		return patch(KindCluster, cluster, fmt.Sprintf(`{"labels":{"x":%q}}`, value))
	}
	w.must(label("c0", "1"))
	w.must(label("c2", "1"))
	w.must(label("c3", "1"))
	require.Equal(t, "2", w.refused(CodePolicy, label("c2", "2")).Problems[0].Detail)
	w.must(label("c0", "2"))
	restarted, err := NewState(testRules, w.state.Head(), w.now, slices.Collect(w.state.Records()))
	require.NoError(t, err)
	require.Equal(t, 2, restarted.recentClusters(w.now, "few"))
	require.False(t, w.state.HasRecentRemovals(w.now))
	w.now = w.now.Add(time.Hour + time.Minute)
	w.must(label("c2", "2"))
	for i := range 3 * maxBudgetEntries { // entries of one minute are merged
		w.must(patch(KindPolicy, "few", fmt.Sprintf(`{"rule":"effect.count + recent.count <= %d"}`, i+5)))
		w.must(label("c3", fmt.Sprint(i)))
	}
	require.Equal(t, 1+3*maxBudgetEntries, w.state.recentClusters(w.now, "few"))
	require.LessOrEqual(t, len(w.state.recentEntries(w.now)), maxBudgetEntries)
}

// TestManyPolicies: 100 policies judge changes of 10,000 clusters, whose rules have enough steps. No more policies are possible.
func TestManyPolicies(t *testing.T) {
	t.Parallel()
	s := withManyPolicies(t, loadShared(t, sharedFleet(t, 10_000, 0)), maxPolicies)
	for name, operation := range map[string]string{
		"catalog": `{"op":"patch","kind":"platform_component","id":"c0","patch":{"component_version":"2.0.0"}}`,
		"cluster": `{"op":"patch","kind":"cluster","id":"k00001","patch":{"patches":{"c0":{"replicaCount":"7"}}}}`,
	} {
		tx := s.Begin()
		_, err := NewBatch(tx, nil).Run(operationsOf(t, operation))
		require.NoError(t, err)
		res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
		require.NoError(t, err, name)
		plan, err := res.Plan()
		require.NoError(t, err)
		require.Len(t, plan.Policies, maxPolicies)
		for _, v := range plan.Policies {
			require.False(t, v.Failed, "%s: %s", v.ID, v.Message)
		}
	}
	tx := s.Begin()
	require.NoError(t, create(KindPolicy, `{"id":"one-more","rule":"true","action":"deny"}`)(tx))
	_, err := tx.Finish(Commit{ID: uuid.New(), Actor: "test"})
	require.ErrorContains(t, err, "at most 100 are possible")
}

func operationsOf(t testing.TB, operation string) (ops []api.Operation) {
	require.NoError(t, json.Unmarshal([]byte("["+operation+"]"), &ops))
	return ops
}
