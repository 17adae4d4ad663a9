package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestRolloutFailureCases has a case for each event during a rollout that must not serve a wrong answer. Events that concern
// the progress of clusters, clocks and tokens are in TestNextStep, and in TestRollout... of package server.
func TestRolloutFailureCases(t *testing.T) {
	t.Parallel()
	bump := patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`)
	version := func(w *world, cluster string) any {
		c := component(w.t, w.state, cluster+".example.com", "grafana")
		if c == nil {
			return nil
		}
		return c["component_version"]
	}
	versions := func(w *world, want ...any) {
		w.t.Helper()
		for i, cluster := range []string{"c0", "c1", "c2", "c3"} {
			require.Equal(w.t, want[i], version(w, cluster), cluster)
		}
	}
	joins := func(id, tier string) func(*Tx) error {
		return create(KindCluster, `{"id":"`+id+`","cluster_dns":"`+id+`.example.com","environment":"dev","labels":{"tier":"`+tier+`"}}`)
	}
	for name, test := range map[string]func(*testing.T, *world){
		"a revert of the same field is refused": func(t *testing.T, w *world) {
			require.Contains(t, w.refused(CodeInRollout, revert(w, api.Operation{Revision: 2})).Detail, `rollout "r"`)
			w.must(act("r", RolloutAbort))
			w.must(revert(w, api.Operation{Revision: 2}))
			versions(w, "17.0.0", "17.0.0", "17.0.0", "17.0.0")
		},
		"a revert of another field is accepted": func(t *testing.T, w *world) {
			w.must(revert(w, api.Operation{Revision: 3}))
			versions(w, "18.0.0", "18.0.0", "17.0.5", "17.0.5")
		},
		"a revert of the completion concerns all clusters at once, as its plan shows": func(t *testing.T, w *world) {
			w.must(act("r", RolloutStart))
			done := w.must(act("r", RolloutComplete))
			undo := revert(w, api.Operation{Revision: int64(done.Commit.Revision)})
			plan := w.plan(undo)
			require.Len(t, plan.Groups, 1)
			require.Equal(t, []string{"c0", "c1", "c2", "c3"}, plan.Groups[0].Clusters)
			w.must(undo)
			versions(w, "17.0.5", "17.0.5", "17.0.5", "17.0.5")
		},
		"a restore to a time of the rollout serves the answers of that time, and pauses it": func(t *testing.T, w *world) {
			at, served := w.state.Revision(), polls(t, w.state)
			w.must(act("r", RolloutStart))
			w.must(act("r", RolloutComplete))
			w.log.past = w.pastOf(at)
			w.must(operations(w, api.Operation{Op: "restore", Revision: int64(at)}))
			require.Equal(t, served, polls(t, w.state))
			require.Equal(t, rolloutPaused, w.state.docs[KindRollout]["r"].rollout().State)
			require.False(t, Advances(w.state.docs[KindRollout]["r"]))
		},
		"a cluster that moves to a stage that has not started loses the change": func(t *testing.T, w *world) {
			move := patch(KindCluster, "c1", `{"labels":{"tier":"prod"}}`)
			require.Equal(t, []string{"c1"}, w.plan(move).Groups[0].Clusters)
			require.Contains(t, strings.Join(w.must(move).Warnings, "\n"), `cluster "c1" moves from stage "dev" to stage "rest" of rollout "r" and loses the change`)
			versions(w, "18.0.0", "17.0.5", "17.0.5", "17.0.5")
		},
		"a cluster that moves to a started stage receives the change": func(t *testing.T, w *world) {
			move := patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`)
			require.Equal(t, []string{"c3"}, w.plan(move).Groups[0].Clusters)
			w.must(move)
			versions(w, "18.0.0", "18.0.0", "17.0.5", "18.0.0")
		},
		"a cluster that joins is served as its stage": func(t *testing.T, w *world) {
			w.must(joins("c4", "dev"))
			w.must(joins("c5", "prod"))
			require.Equal(t, "18.0.0", version(w, "c4"))
			require.Equal(t, "17.0.5", version(w, "c5"))
		},
		"a cluster that leaves is not counted": func(t *testing.T, w *world) {
			w.must(withoutGuard(remove(KindCluster, "c1", DeleteOptions{})))
			changed, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout]["r"], nil)
			require.NoError(t, err)
			require.NotContains(t, changed.ByCluster, "c1")
			require.Len(t, changed.ByCluster, 3)
		},
		"a second rollout of other fields is accepted": func(t *testing.T, w *world) {
			w.must(rollOut(w, "two", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, patchOp(KindComponent, "grafana", `{"patches":{"b":"1"}}`)))
			w.must(act("two", RolloutStart))
			versions(w, "18.0.0", "18.0.0", "17.0.5", "17.0.5")
			require.NotContains(t, component(t, w.state, "c0.example.com", "grafana")["values"], "b")
			require.Contains(t, component(t, w.state, "c3.example.com", "grafana")["values"], "b")
		},
		"a second rollout of the same field is refused": func(t *testing.T, w *world) {
			w.refused(CodeInRollout, rollOut(w, "two", nil, patchOp(KindComponent, "grafana", `{"component_version":"19.0.0"}`)))
		},
		"a second rollout of depends_on is refused": func(t *testing.T, w *world) {
			w.must(create(KindComponent, `{"id":"tempo","component_path":"tempo","oci_url":"https://charts.example.com"}`))
			w.must(rollOut(w, "two", nil, patchOp(KindComponent, "loki", `{"depends_on":[]}`)))
			require.Contains(t, w.refused(CodeInRollout, rollOut(w, "three", nil, patchOp(KindComponent, "tempo", `{"depends_on":["grafana"]}`))).Detail, `rollout "two" changes depends_on`)
		},
		"a hotfix wins, and its cluster is not affected": func(t *testing.T, w *world) {
			w.must(assign("c3", KindComponent, "grafana", `{"component_version":"17.9.9"}`))
			changed, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout]["r"], nil)
			require.NoError(t, err)
			require.NotContains(t, changed.ByCluster, "c3")
			w.must(act("r", RolloutStart))
			versions(w, "18.0.0", "18.0.0", "18.0.0", "17.9.9")
			w.must(act("r", RolloutComplete))
			versions(w, "18.0.0", "18.0.0", "18.0.0", "17.9.9")
		},
		"deletion_protection refuses a rollout that removes": func(t *testing.T, w *world) {
			w.must(patch(KindCluster, "c3", `{"deletion_protection":true}`))
			err := w.refused(CodeProtected, rollOut(w, "two", devFirst, patchOp(KindComponent, "grafana", `{"target_namespace":"monitoring"}`)))
			require.Contains(t, err.Detail, `cluster "c3" has deletion_protection`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, baseLayer)                                                  // 1
			w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.5"}`)) // 2
			w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                // 3
			w.must(rollOut(w, "r", devFirst, bump))                                   // 4
			w.must(act("r", RolloutStart))                                            // 5
			versions(w, "18.0.0", "18.0.0", "17.0.5", "17.0.5")
			test(t, w)
		})
	}
}
