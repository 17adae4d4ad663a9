package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func rollOut(w *world, id string, stages []RolloutStage, ops ...api.Operation) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.CreateRollout(NewRollout{ID: id, Stages: stages, Operations: ops}, &w.log)
		return err
	}
}

func act(id, action string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.ChangeRollout(id, action, ""); return err }
}

func operations(w *world, ops ...api.Operation) func(*Tx) error {
	return func(tx *Tx) error { _, err := NewBatch(tx, &w.log).Run(ops); return err }
}

var devFirst = []RolloutStage{{Name: "dev", Selector: "tier=dev"}}

// TestNotStageable: all such changes are named.
func TestNotStageable(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	e := w.refused(CodeNotStageable, rollOut(w, "r", nil,
		patchOp(KindLayer, "base", `{"priority":11}`), patchOp(KindCluster, "c0", `{"labels":{"a":"b"}}`), patchOp(KindComponent, "grafana", `{"component_version":"18"}`),
		patchOp(KindResourceType, "quotas", `{"description":"x"}`), api.Operation{Op: "delete", Kind: string(KindNamespace), ID: "kept"},
		api.Operation{Op: "create", Kind: string(KindNamespace), Document: json.RawMessage(`{"id":"more"}`)}))
	var named []string
	for _, p := range e.Problems {
		named = append(named, string(p.Kind)+"/"+p.ID)
	}
	require.ElementsMatch(t, []string{"layer/base", "cluster/c0", "resource_type/quotas", "namespace/kept", "namespace/more"}, named)
	w.refused(CodeInvalid, rollOut(w, "r", nil, patchOp(KindComponent, "grafana", `{"component_version":"17.0.0"}`)))
}

// TestRolloutLimits and invalid stages, all problems at once.
func TestRolloutLimits(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	bump := patchOp(KindComponent, "grafana", `{"component_version":"18"}`)
	e := w.refused(CodeInvalid, rollOut(w, "r", []RolloutStage{
		{Name: "a"}, {Name: "a", Selector: "x=y", All: true}, {Name: "B", Selector: "x=y", Percent: 101}, {Name: "c", ClusterIDs: []string{"c0"}, Count: 2}, {Name: "d", All: true, Percent: 1, Count: -1}, {Name: "rest", Selector: "x=y"},
	}, bump))
	var at []string
	for _, p := range e.Problems {
		at = append(at, p.Pointer)
	}
	require.Subset(t, at, []string{"/stages/0", "/stages/1", "/stages/1/name", "/stages/2/name", "/stages/2/percent", "/stages/3/cluster_ids", "/stages/4/count", "/stages/5/name"})
	for _, s := range []RolloutStage{{Name: "a", All: true, Count: -1}, {Name: "a", All: true, Percent: -5}, {Name: "a", All: true, Percent: 1000}} {
		w.refused(CodeInvalid, rollOut(w, "r", []RolloutStage{s}, bump))
	}
	// Problems of stages and operations are reported together, at their place in the request.
	e = w.refused(CodeInvalid, rollOut(w, "r", []RolloutStage{{Name: "a", Selector: "x in (y"}}, bump, patchOp(KindComponent, "loki", `{"component_version":" x"}`)))
	require.Equal(t, []string{"/stages/0/selector", "/operations/1/patch/component_version"}, []string{e.Problems[0].Pointer, e.Problems[1].Pointer})
	e = w.refused(CodeInvalid, func(tx *Tx) error {
		_, err := tx.CreateRollout(NewRollout{ID: "r", Strategy: "missing", Operations: []api.Operation{bump}}, &w.log)
		return err
	})
	require.Equal(t, "/strategy", e.Problems[0].Pointer)
	w.refused(CodeInvalid, rollOut(w, "r", make([]RolloutStage, 33), bump))

	// Documents and bytes of one rollout.
	var many, large []api.Operation
	w.must(func(tx *Tx) error {
		for i := range 21 {
			id := fmt.Sprintf("n%d", i)
			if _, err := tx.Create(KindNamespace, fmt.Appendf(nil, `{"id":%q}`, id)); err != nil {
				return err
			}
			many = append(many, patchOp(KindNamespace, id, `{"labels":{"a":"b"}}`))
			large = append(large, patchOp(KindNamespace, id, fmt.Sprintf(`{"annotations":{"a":%q}}`, strings.Repeat("x", 20_000))))
		}
		return nil
	})
	w.refused(CodeLimitExceeded, rollOut(w, "r", nil, many...))
	w.refused(CodeLimitExceeded, rollOut(w, "r", nil, large[:20]...))
	for i := range maxRollouts {
		w.must(rollOut(w, fmt.Sprint("r", i), nil, many[i]))
	}
	w.refused(CodeLimitExceeded, rollOut(w, "more", nil, bump))
	w.must(act("r3", RolloutAbort))
	w.must(rollOut(w, "more", nil, bump))
	w.refused(CodeConflict, rollOut(w, "r3", nil, bump))
	w.refused(CodeConflict, remove(KindRollout, "more", DeleteOptions{}))
	w.must(remove(KindRollout, "r3", DeleteOptions{}))
}

// TestRolloutActions: which action is possible in which state.
func TestRolloutActions(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "one", ClusterIDs: []string{"c0"}}, {Name: "two", Selector: "tier=dev"}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
	state := func() string {
		r := w.state.docs[KindRollout]["r"].rollout()
		return fmt.Sprint(r.State, r.Started)
	}
	require.Equal(t, "proposed0", state())
	for i, step := range []struct{ action, want string }{
		{RolloutResume, ""},
		{RolloutBack, ""},
		{RolloutComplete, ""},
		{RolloutPause, "paused0"},
		{RolloutStart, ""},
		{RolloutResume, "proposed0"},
		{RolloutSkip, "running1"},
		{RolloutStart, "running2"},
		{RolloutComplete, ""},
		{RolloutSkip, ""},
		{RolloutBack, "paused1"},
		{RolloutBack, "paused0"},
		{RolloutResume, "proposed0"},
		{RolloutStart, "running1"},
		{RolloutStart, "running2"},
		{RolloutStart, "running3"},
		{RolloutStart, ""},
		{RolloutPause, "paused3"},
		{RolloutComplete, ""},
		{RolloutResume, "running3"},
		{RolloutComplete, "completed3"},
		{RolloutAbort, ""},
		{RolloutBack, ""},
	} {
		if step.want == "" {
			w.refused(CodeConflict, act("r", step.action))
			continue
		}
		w.must(act("r", step.action))
		require.Equal(t, step.want, state(), "%d: %s", i, step.action)
	}
	w.refused(CodeNotFound, act("other", RolloutStart))
	require.Equal(t, "18", w.state.docs[KindComponent]["grafana"].Component().ComponentVersion)
}

// TestStageOfPercent: exactly that many of the clusters, at least one, and a cluster that joins displaces no other one.
func TestStageOfPercent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindComponent), `{"id":"a","component_path":"a","oci_url":"https://charts.example.com"}`)
	add := func(from, to int) {
		w.must(func(tx *Tx) error {
			for i := from; i < to; i++ {
				if _, err := tx.Create(KindCluster, fmt.Appendf(nil, `{"id":"k%d","cluster_dns":"k%d.example.com","environment":"prod","platform_components":[{"id":"a"}]}`, i, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	add(0, 30)
	w.must(rollOut(w, "r", []RolloutStage{
		{Name: "one", All: true, Percent: 1}, {Name: "ten", Selector: "environment=prod", Percent: 10}, {Name: "five", All: true, Count: 5}, {Name: "none", Selector: "environment=dev", Count: 3},
	}, patchOp(KindComponent, "a", `{"component_version":"2"}`)))
	stages := func() (out [5][]string) {
		r := w.state.docs[KindRollout]["r"].rollout()
		for _, d := range w.state.All(KindCluster) {
			at := r.stageOf(d.Cluster())
			out[at] = append(out[at], d.ID)
		}
		return out
	}
	first := stages()
	for i, n := range []int{1, 3, 5, 0, 21} {
		require.Len(t, first[i], n)
	}
	add(30, 300)
	for i, now := range stages() {
		require.Subset(t, now, first[i])
	}
	require.Greater(t, len(stages()[1]), 5, "clusters that join are in it in proportion")
}

// TestRevertDuringARollout: other fields can be reverted, the fields of the rollout not; rollouts are never reverted.
func TestRevertDuringARollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)                                                                    // 1
	w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.1"}`))                              // 2
	w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                                             // 3
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`))) // 4
	w.must(act("r", RolloutStart))                                                                         // 5
	w.refused(CodeInRollout, revert(w, api.Operation{Revision: 2}))
	w.must(revert(w, api.Operation{Revision: 3}))
	require.Equal(t, "18.0.0", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	require.Contains(t, w.refused(CodeInvalid, revert(w, api.Operation{Revision: 5})).Detail, "rollouts, which are never reverted")
	w.must(act("r", RolloutStart))
	served := polls(t, w.state)
	done := w.must(act("r", RolloutComplete))
	require.Equal(t, served, polls(t, w.state), "the completion keeps the edits of other fields")
	res := w.must(revert(w, api.Operation{Revision: int64(done.Commit.Revision)}))
	require.Contains(t, strings.Join(res.Warnings, "\n"), "rollouts are never reverted")
	require.Equal(t, "17.0.1", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	require.Equal(t, rolloutCompleted, w.state.docs[KindRollout]["r"].rollout().State)
}

// TestPlanOfDependents: a component that depends on another only in its variant is in the plan of a change of that one.
func TestPlanOfDependents(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer, `{"id":"two","priority":30,"all":true,"platform_components":[{"id":"loki"}]}`)
	w.must(patch(KindComponent, "loki", `{"depends_on":[]}`))
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"depends_on":["loki"]}`)))
	w.must(withoutGuard(act("r", RolloutStart)))
	require.Len(t, component(t, w.state, "c0.example.com", "grafana")["dependencies"], 1)
	off := assign("c0", KindComponent, "loki", `{"enabled":false}`)
	plan := w.plan(off)
	var changed []string
	for _, in := range plan.Groups[0].Effect["platform-components"].Changed {
		changed = append(changed, in.ID)
	}
	require.ElementsMatch(t, []string{"grafana", "loki"}, changed)
	w.must(withoutGuard(off))
	require.Empty(t, component(t, w.state, "c0.example.com", "grafana")["dependencies"])
}

// TestPlanOfClustersThatMoveApart: two clusters with the same configuration get different ones in one commit.
func TestPlanOfClustersThatMoveApart(t *testing.T) {
	t.Parallel()
	for range 20 { // clusters are visited in the order of a map
		w := tiers(t, baseLayer)
		w.must(rollOut(w, "r", []RolloutStage{{Name: "eu", Selector: "wave=1"}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		w.must(act("r", RolloutStart))
		plan := w.plan(both(patch(KindCluster, "c0", `{"labels":{"wave":"1"}}`), patch(KindCluster, "c3", `{"labels":{"wave":"2"}}`)))
		require.Len(t, plan.Groups, 1)
		require.Equal(t, []string{"c0"}, plan.Groups[0].Clusters)
	}
}

// TestBatchDuringARollout: an operation on many clusters reads for each of them the layers that it has. Otherwise an entry
// would copy enabled=false from a cluster that the rollout reaches to one that it does not reach, which would uninstall.
func TestBatchDuringARollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(rollOut(w, "r", devFirst, api.Operation{Op: "set_component", Layers: []string{"base"}, ComponentID: "grafana", Enabled: new(bool)}))
	w.must(act("r", RolloutStart))
	w.must(operations(w,
		api.Operation{Op: "set_labels", All: true, Labels: json.RawMessage(`{"x":"y"}`)},
		api.Operation{Op: "assign_component", All: true, ComponentID: "grafana"},
	))
	for cluster, enabled := range map[string]bool{"c0": false, "c1": false, "c2": true, "c3": true} {
		require.Equal(t, enabled, component(t, w.state, cluster+".example.com", "grafana")["enabled"], cluster)
	}
}

// TestStrategiesAreRestoredAndReverted like other documents.
func TestStrategiesAreRestoredAndReverted(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(create(KindStrategy, `{"id":"waves","stages":[{"name":"one","selector":"tier=dev"}]}`))
	at, first := w.state.Revision(), bodies(w.state)
	changed := w.must(patch(KindStrategy, "waves", `{"stages":[{"name":"two","selector":"tier=dev"}]}`))
	w.must(revert(w, api.Operation{Revision: int64(changed.Commit.Revision)}))
	require.Equal(t, first, bodies(w.state))
	w.must(remove(KindStrategy, "waves", DeleteOptions{}))
	w.must(create(KindStrategy, `{"id":"more","stages":[{"name":"one","selector":"tier=dev"}]}`))
	w.log.past = w.pastOf(at)
	w.must(operations(w, api.Operation{Op: "restore", Revision: int64(at)}))
	require.Equal(t, first, bodies(w.state))
}

// TestAssignmentsFitOpenRollouts: a component with the Helm release name that an open rollout gives to another one of the
// cluster is refused, also while no stage of it has started: otherwise its stage could not start.
func TestAssignmentsFitOpenRollouts(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"release_name":"loki"}`)))
	err := w.refused(CodeInRollout, assign("c3", KindComponent, "loki", ""))
	require.Contains(t, err.Detail, `cluster "c3", with the changes of the rollouts that are not completed or aborted: /platform_components: components "`)
	byLayer := patch(KindLayer, "base", `{"platform_components":[{"id":"grafana"},{"id":"loki"}]}`)
	require.Contains(t, w.refused(CodeInRollout, byLayer).Detail, "with the changes of the rollouts")
	w.refused(CodeInRollout, create(KindLayer, `{"id":"more","priority":20,"selector":"tier=prod","platform_components":[{"id":"loki"}]}`))
	w.must(act("r", RolloutStart))
	w.refused(CodeInRollout, assign("c3", KindComponent, "loki", ""))
	w.must(patch(KindCluster, "c3", `{"labels":{"tier":"prod","x":"y"}}`))
	w.must(act("r", RolloutAbort))
	w.must(assign("c3", KindComponent, "loki", ""))
	w.must(byLayer)
}

// TestLayerCombinationsNameRollouts: stages divide the clusters of each combination of layers.
func TestLayerCombinationsNameRollouts(t *testing.T) {
	t.Parallel()
	counter := costCounter{chains: map[string][]*Document{"": {{Record: Record{ID: "wide"}, value: new(layer)}}}, layerCost: layerCost{chainEntries: maxChainEntries + 1}}
	require.ErrorContains(t, counter.check(layerCost{}, []*Document{{Record: Record{ID: "a"}}, {Record: Record{ID: "b"}}}), "or first complete or abort some of the rollouts a, b, which multiply the combinations")
}

// TestVariantsFollowTheResourceType: a resource that reached clusters have in another version is read by the newest version of its
// resource type, with new defaults.
func TestVariantsFollowTheResourceType(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(rollOut(w, "r", devFirst, api.Operation{Op: "patch", Kind: kindResource, Type: "quotas", ID: "small", Patch: json.RawMessage(`{"spec":{"cpu":7}}`)}))
	w.must(act("r", RolloutStart))
	w.must(patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"mem":{"type":"integer","default":3}}}}`))
	for dns, cpu := range map[string]float64{"c0.example.com": 7, "c2.example.com": 1} {
		input := inputsOf(t, w.state, dns, ResourceKind("quotas"))[0]
		require.Equal(t, []any{cpu, 3.0}, []any{input["cpu"], input["mem"]}, dns)
	}
}
