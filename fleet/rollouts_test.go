package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// TestVariantOfAChangedType: the variant is decoded with the newest resource type, whose defaults all inputs have.
func TestVariantOfAChangedType(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, api.Operation{Op: "patch", Kind: kindResource, Type: "quotas", ID: "small", Patch: json.RawMessage(`{"spec":{"cpu":2}}`)}))
	w.must(act("r", RolloutStart))
	w.must(patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"mem":{"type":"integer","default":7}}}}`))
	for dns, cpu := range map[string]float64{"c0.example.com": 2, "c2.example.com": 4} {
		in := inputsOf(t, w.state, dns, ResourceKind("quotas"))[0]
		require.Equal(t, cpu, in["cpu"])
		require.Equal(t, 7.0, in["mem"])
	}
	// A schema that the variant does not match is refused, although no stored resource has the value.
	e := w.refused(CodeInRollout, patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1,"not":{"const":2}}}}}`))
	require.Contains(t, e.Detail, `quotas resource "small"`)
	w.refused(CodeInRollout, remove(ResourceKind("quotas"), "small", DeleteOptions{Cascade: true}))
}

// TestFieldsInARollout are protected, all others are not.
func TestFieldsInARollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18.0.0","patches":{"a":"1"}}`), patchOp(KindLayer, "prod", `{"selector":"region=eu"}`)))
	for _, started := range []bool{false, true} {
		if started {
			w.must(act("r", RolloutStart))
		}
		for _, body := range []string{`{"component_version":"17.0.1"}`, `{"component_version":"18.0.0"}`, `{"patches":{"a":"2"}}`, `{"patches":{"a":"1"}}`} {
			e := w.refused(CodeInRollout, patch(KindComponent, "grafana", body))
			require.Contains(t, e.Detail, `rollout "r"`, body)
			require.Equal(t, KindComponent, e.Problems[0].Kind)
		}
		w.refused(CodeInRollout, remove(KindComponent, "grafana", DeleteOptions{Cascade: true}))
		w.refused(CodeInRollout, rollOut(w, "other", nil, patchOp(KindComponent, "grafana", `{"component_version":"19.0.0"}`)))
	}
	w.must(patch(KindComponent, "grafana", `{"patches":{"b":"1"}}`))
	require.Equal(t, map[string]any{"replicas": 1.0, "a": 1.0, "b": 1.0}, component(t, w.state, "c0.example.com", "grafana")["values"])
	require.Equal(t, map[string]any{"replicas": 3.0, "b": 1.0}, component(t, w.state, "c3.example.com", "grafana")["values"])
	w.must(assign("c0", KindComponent, "grafana", `{"component_version":"17.0.1"}`))
	require.Equal(t, "17.0.1", component(t, w.state, "c0.example.com", "grafana")["component_version"], "a hotfix wins")

	res := w.must(patch(KindCluster, "c1", `{"labels":{"tier":"prod"}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `cluster "c1" moves from stage "dev" to stage "rest" of rollout "r" and loses the change`)
	require.Equal(t, "17.1.0", component(t, w.state, "c1.example.com", "grafana")["component_version"])

	// Once the rollout is aborted, nothing is protected.
	w.must(act("r", RolloutAbort))
	w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.1"}`))
}

// TestVariantsStayValid: a change that is valid now and invalid with the change of an open rollout is refused.
func TestVariantsStayValid(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, op api.Operation) *world {
		w := tiers(t, prodLayer, baseLayer)
		w.must(create(KindComponent, `{"id":"tempo","component_path":"tempo","oci_url":"https://charts.example.com"}`))
		w.must(rollOut(w, "r", devFirst, op))
		return w
	}
	onTempo := patchOp(KindComponent, "grafana", `{"depends_on":["tempo"]}`)
	w := setup(t, onTempo)
	require.Contains(t, w.refused(CodeInRollout, remove(KindComponent, "tempo", DeleteOptions{})).Detail, `there is no platform component "tempo"`)
	require.Contains(t, w.refused(CodeInRollout, patch(KindComponent, "tempo", `{"depends_on":["grafana"]}`)).Detail, "cycle")
	require.Contains(t, w.refused(CodeInRollout, rollOut(w, "s", nil, patchOp(KindComponent, "loki", `{"depends_on":[]}`))).Detail, "only one rollout at a time")

	w = setup(t, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "tempo"})
	w.refused(CodeInRollout, remove(KindComponent, "tempo", DeleteOptions{}))

	// Two entries at the same place of a list would be in the order of completion.
	w = setup(t, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "tempo"})
	require.Contains(t, w.refused(CodeInRollout, rollOut(w, "s", nil, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "loki"})).Detail, "order of a list")
}

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

// TestUnreadableVariant: a store whose rollout contradicts its documents must not be served. The error is
// logged, so it has no values.
func TestUnreadableVariant(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18","patches":{"password":"hunter2"}}`)))
	w.must(act("r", RolloutStart))
	doc := w.state.docs[KindComponent]["grafana"]
	edited := json.RawMessage(strings.NewReplacer("17.0.0", "17.0.1", `"replicas":"1"`, `"password":"hunter3"`).Replace(string(doc.Body)))
	const want = `the changes of the rollouts r cannot be merged with the stored documents: /component_version of platform component "grafana", /patches/password of platform component "grafana"`
	_, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{KindComponent, "grafana", doc.Body, edited}}})
	require.EqualError(t, err, want)
	records := slices.Collect(w.state.Records())
	for i := range records {
		if records[i].ID == "grafana" {
			records[i].Body = edited
		}
	}
	_, err = NewState(testRules, w.state.head, w.state.at, records)
	require.EqualError(t, err, want)
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

// TestObjectsOfVariants: on a cluster that a rollout reaches, the variant must not render the object of another definition.
func TestObjectsOfVariants(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	w.must(create(KindCluster, `{"id":"k2","cluster_dns":"k2.example.com","environment":"dev"}`))
	w.must(assign("k", kindPatch, "c", ""))
	w.must(assign("k2", kindPatch, "c", ""))
	w.must(rollOut(w, "r", []RolloutStage{{Name: "one", ClusterIDs: []string{"k"}}},
		api.Operation{Op: "patch", Kind: kindResource, Type: "object-patches", ID: "c", Patch: json.RawMessage(`{"spec":{"manifest":{"metadata":{"name":"settings"}}}}`)}))
	w.must(withoutGuard(act("r", RolloutStart)))
	require.Contains(t, w.refused(CodeObjectConflict, assign("k", kindPatch, "a", "")).Detail, "both make ConfigMap shared/settings")
	w.must(assign("k2", kindPatch, "a", ""))
	require.Contains(t, w.refused(CodeObjectConflict, withoutGuard(act("r", RolloutStart))).Detail, "both make ConfigMap shared/settings")
}

// TestExplainNamesTheRollout beside the values that it changes; all others have their place in the stored document.
func TestExplainNamesTheRollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer, `{"id":"two","priority":30,"selector":"tier=dev","platform_components":[{"id":"grafana"},{"id":"loki","component_path":"x"}]}`)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`), api.Operation{Op: "unassign_component", Layers: []string{"two"}, ComponentID: "grafana"},
		api.Operation{Op: "set_component", Layers: []string{"two"}, ComponentID: "loki", ComponentVersion: nullable.NewNullableWithValue("9")}))
	w.must(withoutGuard(act("r", RolloutStart)))
	source := func(cluster, id, pointer string) api.ValueSource {
		ex, err := w.state.Explain(t.Context(), w.state.docs[KindCluster][cluster], "platform-components", id, pointer)
		require.NoError(t, err)
		require.NoError(t, w.state.Blame(t.Context(), &ex, &w.log))
		return ex.Inputs[0].Values[0].SaidBy
	}
	version := source("c0", "grafana", "/component_version")
	require.Equal(t, "r", version.Rollout)
	require.Equal(t, int64(3), version.Revision, "of the last change of the rollout")
	require.Equal(t, "platform_component", version.Kind)
	require.Empty(t, source("c3", "grafana", "/component_version").Rollout)
	require.Empty(t, source("c0", "grafana", "/source/oci_url").Rollout)
	require.Equal(t, int64(1), source("c0", "grafana", "/source/oci_url").Revision)
	path := source("c0", "loki", "/component_path")
	require.Empty(t, path.Rollout)
	require.Equal(t, "/platform_components/1/component_path", path.Pointer, "in the stored document")
	require.Equal(t, "r", source("c0", "loki", "/component_version").Rollout)
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

// TestHistoriesWithRollouts: a stage appears in the history of its clusters and of the component, and its completion in
// neither; the inputs that a revision changed are those of the clusters of the stage.
func TestHistoriesWithRollouts(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)                                                                           // 1
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))) // 2
	w.must(act("r", RolloutStart))                                                                     // 3
	w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                                         // 4
	w.must(act("r", RolloutStart))                                                                     // 5
	w.must(act("r", RolloutComplete))                                                                  // 6
	w.must(patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))                                     // 7
	revisions := func(of DocumentName) (all []Revision) {
		for _, r := range w.served(t, of, 3) {
			if len(r.Effect) > 0 {
				all = append(all, r.Revision)
			}
		}
		return all
	}
	require.Equal(t, []Revision{4, 3, 1}, revisions(DocumentName{KindCluster, "c0"}))
	require.Equal(t, []Revision{5, 4, 1}, revisions(DocumentName{KindCluster, "c3"}))
	require.Equal(t, []Revision{5, 4, 3, 1}, revisions(DocumentName{KindComponent, "grafana"}))
	for rev, want := range map[Revision][]string{2: {}, 3: {"c0", "c1"}, 5: {"c2", "c3"}, 6: {}} {
		past, err := recorded{&w.log}.Past(PastQuery{At: rev, UpTo: w.state.Revision()})
		require.NoError(t, err)
		changes, err := w.log.Changes(rev)
		require.NoError(t, err)
		changed, err := w.state.InputsChangedBy(t.Context(), changes, past)
		require.NoError(t, err)
		require.ElementsMatch(t, want, sortedKeys(changed), "revision %d", rev)
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

// TestSetsOfRolloutsShareVariants: clusters that different sets of rollouts reach share the variants of each rollout, since
// there can be as many sets as clusters.
func TestSetsOfRolloutsShareVariants(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", nil, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
	w.must(rollOut(w, "s", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, patchOp(KindComponent, "loki", `{"component_version":"9"}`)))
	w.must(act("s", RolloutStart))
	w.must(act("r", RolloutStart))
	of := func(cluster string) *Document {
		doc, ok := w.state.definition(w.state.Effective(w.state.docs[KindCluster][cluster]), KindComponent, "grafana")
		require.True(t, ok)
		return doc
	}
	require.False(t, w.state.docs[KindComponent]["grafana"] == of("c0"), "the stored document")
	require.True(t, of("c0") == of("c2"), "merged once")
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

// TestChangedLists: only rollouts that change the same list can depend on their order.
func TestChangedLists(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before, after string
		lists         []string
	}{
		{`{"a":1,"b":{"c":"x"}}`, `{"a":2,"b":{"c":"y"}}`, nil},
		{`{"a":[1],"b":[2]}`, `{"a":[1],"b":[2,3]}`, []string{"/b"}},
		{`{"a":{"b":[{"c":[1]}]}}`, `{"a":{"b":[{"c":[2]}]}}`, []string{"/a/b"}},
		{`{}`, `{"a":{"b":[]},"c":{"d":1}}`, []string{"/a/b"}},
		{`{"a/b":[1],"c":{"d":[2]},"e":[3]}`, `{"c":"x","e":null}`, []string{"/a~1b", "/c/d", "/e"}},
	} {
		lists := map[string]bool{}
		addChangedLists(lists, "", json.RawMessage(tc.before), json.RawMessage(tc.after))
		require.Equal(t, tc.lists, slices.Sorted(maps.Keys(lists)), "%s to %s", tc.before, tc.after)
	}
}
