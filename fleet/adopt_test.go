package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const adoptBase = `{"op":"adopt","layers":["base"]}`

// TestAdoptMovesCommonSettings: equal entries, settings and patches move to the layer, different ones stay, and no answer
// changes.
func TestAdoptMovesCommonSettings(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true}`)
	for i := range 4 {
		w.must(put(KindCluster, fmt.Sprintf("c%d", i), fmt.Sprintf(`{
			"platform_components":[{"id":"grafana","component_version":"16.0.0","oci_tag":"a"},{"id":"loki","component_version":"6.%d.0"}],
			"namespaces":[{"id":"team"},{"id":"kept"}],"rolebindings":[{"id":"readers"}],"resources":{"quotas":[{"id":"small","overrides":{"cpu":2}}]},
			"patches":{"grafana":{"replicas":2,"own":%d},"loki":{"a":"1"}}}`, i%2, i)))
	}
	before := polls(t, w.state)
	plan := w.plan(batch(adoptBase))
	require.Empty(t, plan.Groups)
	require.Len(t, plan.Changes, 5)
	w.must(confirmed(plan.PlanHash, batch(adoptBase)))
	require.Equal(t, before, polls(t, w.state))
	base, _ := w.state.Get(KindLayer, "base")
	require.JSONEq(t, `{"id":"base","priority":10,"all":true,"description":"","overrides":{},
		"platform_components":[{"id":"grafana","component_version":"16.0.0","oci_tag":"a"},{"id":"loki"}],"namespaces":[{"id":"team"},{"id":"kept"}],
		"rolebindings":[{"id":"readers"}],"resources":{"quotas":[{"id":"small","overrides":{"cpu":2}}]},"patches":{"grafana":{"replicas":2},"loki":{"a":"1"}}}`, string(base.Body))
	c1, _ := w.state.Get(KindCluster, "c1")
	var own map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(c1.Body, &own))
	require.JSONEq(t, `[{"id":"loki","enabled":true,"component_version":"6.1.0"}]`, string(own["platform_components"]))
	require.JSONEq(t, `{"grafana":{"own":1}}`, string(own["patches"]))
	require.JSONEq(t, `[]`, string(own["namespaces"]))
	require.NotContains(t, own, "resources")
	require.Empty(t, w.must(batch(adoptBase)).Commit.Changes, "there is no more")
}

// TestAdoptKeepsTheOrder: a moved entry precedes all that stay, so only the first entries move.
func TestAdoptKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true}`)
	for i, list := range []string{`{"id":"team"},{"id":"kept"}`, `{"id":"kept"},{"id":"team"}`, `{"id":"kept"},{"id":"team"}`, `{"id":"kept"},{"id":"team"}`} {
		w.must(put(KindCluster, fmt.Sprintf("c%d", i), `{"namespaces":[`+list+`],"rolebindings":[{"id":"readers"}]}`))
	}
	before := polls(t, w.state)
	res := w.must(batch(adoptBase))
	require.Equal(t, before, polls(t, w.state))
	base, _ := w.state.Get(KindLayer, "base")
	require.Empty(t, base.layer().Namespaces)
	require.Len(t, base.layer().Rolebindings, 1)
	require.Contains(t, res.Warnings, `2 of the namespaces that all clusters of layer "base" have stay in their documents: moving them would change the order of the polled list`)
}

// TestAdoptLeavesOverriddenSettings: a cluster overrides every layer, but a layer does not.
func TestAdoptLeavesOverriddenSettings(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true,"overrides":{"grafana":{"component_version":"15.0.0"}}}`,
		`{"id":"low","priority":1,"all":true,"platform_components":[{"id":"loki","enabled":false}]}`,
		`{"id":"prod","priority":20,"selector":"tier=prod","overrides":{"grafana":{"oci_tag":"z"}},"patches":{"grafana":{"replicas":"3"}},"resources":{"quotas":[{"id":"small","overrides":{"cpu":4}}]}}`)
	for i := range 4 {
		w.must(put(KindCluster, fmt.Sprintf("c%d", i), `{"platform_components":[{"id":"grafana","component_version":"16.0.0","oci_tag":"a"},{"id":"loki"}],
			"resources":{"quotas":[{"id":"small","overrides":{"cpu":2}}]},"patches":{"grafana":{"replicas":2,"own":"x","managed":"y"}}}`))
		w.must(func(tx *Tx) error {
			_, err := tx.PatchValues(fmt.Sprintf("c%d", i), "grafana", []byte(`{"managed":"y"}`), PatchOptions{Manager: "ci"})
			return err
		})
	}
	before := polls(t, w.state)
	w.must(batch(adoptBase))
	require.Equal(t, before, polls(t, w.state))
	base, _ := w.state.Get(KindLayer, "base")
	body := string(base.Body)
	require.Contains(t, body, `"platform_components":[{"enabled":true,"id":"loki"},{"id":"grafana"}]`, "what is switched on over a lower layer is said")
	require.Contains(t, body, `"quotas":[{"id":"small"}]`)
	require.Contains(t, body, `"patches":{"grafana":{"own":"x"}}`, "neither what a higher layer says nor what a manager owns")
	c2, _ := w.state.Get(KindCluster, "c2")
	require.Equal(t, "16.0.0", c2.Cluster().PlatformComponents[0].ComponentVersion)
	require.Len(t, c2.Cluster().PlatformComponents, 1)
}

func TestAdoptIsRefused(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, `{"id":"none","priority":3,"selector":"x"}`)
	for op, want := range map[string]string{
		`{"op":"adopt"}`: "layers: names the layers",
		`{"op":"adopt","layers":["base"],"cluster_ids":["c1"]}`: "layers: names the layers",
		`{"op":"adopt","layers":["none"]}`:                      `layer "none" matches no cluster`,
	} {
		require.Contains(t, w.refused(CodeInvalid, batch(op)).Error(), want, op)
	}
	require.Contains(t, w.refused(CodeNotFound, batch(`{"op":"adopt","layers":["nobody"]}`)).Error(), `there is no layer "nobody"`)
}

// TestAdoptInHistory: the log names the layers.
func TestAdoptInHistory(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true}`, `{"id":"prod","priority":20,"selector":"tier=prod"}`)
	for i := range 4 {
		w.must(assign(fmt.Sprintf("c%d", i), KindNamespace, "team", ""))
	}
	commit := w.must(batch(adoptBase)).Commit
	require.Equal(t, "moved shared settings of clusters to layer/base", commit.Summary(nil, 0))
}

// TestAdoptChangesNoPoll: for any fleet and any layers, adopting leaves every answer byte-identical, and adopting again
// moves no more.
func TestAdoptChangesNoPoll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		for range rapid.IntRange(1, 20).Draw(rt, "commits") {
			edit, name := randomLayerEdit(rt)
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if edit(tx) != nil {
				continue
			}
			res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			if err == nil && len(res.Commit.Changes) > 0 {
				w.state = res.State
				w.now = w.now.Add(time.Minute)
			} else if err != nil {
				require.True(rt, errors.As(err, new(*Error)), "%s: %v", name, err)
			}
		}
		before := polls(rt, w.state)
		for _, doc := range w.state.All(KindLayer) {
			adopt := func() Result {
				tx := w.state.Begin()
				if err := batch(fmt.Sprintf(`{"op":"adopt","layers":[%q]}`, doc.ID))(tx); err != nil {
					var e *Error
					require.True(rt, errors.As(err, &e), "%v", err)
					require.Contains(rt, e.Error(), "matches no cluster")
					return Result{}
				}
				res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
				require.NoError(rt, err)
				return res
			}
			res := adopt()
			if res.State == nil || len(res.Commit.Changes) == 0 {
				continue
			}
			plan, err := res.Plan()
			require.NoError(rt, err)
			require.Empty(rt, plan.Groups)
			require.Equal(rt, before, polls(rt, res.State))
			w.state = res.State
			require.Empty(rt, adopt().Commit.Changes)
		}
	})
}

// TestAdoptAfterInvalidDocument: the error is one of the request, not an internal one.
func TestAdoptAfterInvalidDocument(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		`{"namespaces":[{"id":"team"},{"id":"team"}]}`, `{"platform_components":[{"id":"grafana"},{"id":"grafana"}]}`,
		`{"namespaces":[{"id":"team"}],"excludes":{"namespaces":["team"]}}`,
	} {
		w := tiers(t, prodLayer, baseLayer)
		w.refused(CodeInvalid, both(put(KindCluster, "c3", wrong), func(tx *Tx) error {
			_, err := NewBatch(tx, &w.log).Run([]api.Operation{{Op: "adopt", Layers: []string{"base"}}})
			return err
		}))
	}
}
