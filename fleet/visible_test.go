package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// readsOf returns the JSON of all reads of a State, without the texts that people write into freezes.
func readsOf(t require.TestingT, w *world, s *State) string {
	var all []any
	for kind := range s.docs {
		for _, d := range s.sorted(kind, func(*Document) bool { return true }) {
			switch kind {
			case KindFreeze:
				view := s.FreezeView(d, w.now)
				view.Selector, view.Reason = "", ""
				all = append(all, view)
			case KindRollout:
				all = append(all, s.RolloutView(d))
			case KindLayer:
				all = append(all, s.LayerView(d))
			case KindComponent:
				usage, err := s.Usage(d.ID)
				require.NoError(t, err)
				all = append(all, d.View(), usage)
			case KindCluster:
				all = append(all, d.View(), s.EffectiveView(d))
				origins, err := s.Origins(d)
				require.NoError(t, err)
				for in, err := range s.BuiltInputs(d, "", "") {
					require.NoError(t, err)
					all = append(all, in.List, in.ID, in.Value)
					origins = append(origins, in.Definition)
				}
				for _, o := range origins { // what package history explains
					all = append(all, o.Kind, o.ID, o.Object, o.Stored, o.Rollouts)
				}
				inputs, err := s.DesiredInputs(d)
				require.NoError(t, err)
				for _, list := range inputs {
					for id := range list.Inputs {
						all = append(all, id)
					}
				}
			default:
				all = append(all, d.View())
			}
		}
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return string(text)
}

// TestVisibleStates: for random fleets with layers, rollouts and freezes, and random limits on the right to read, exactly the
// clusters within the limits are visible, their inputs are those of the whole State, and no read names another cluster.
func TestVisibleStates(t *testing.T) {
	t.Parallel()
	first := tiers(t, prodLayer, baseLayer)
	first.state.rules.MaxRemovals = 1 << 20
	visible, hidden := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, state: first.state, now: first.now, log: log{commits: slices.Clone(first.log.commits)}}
		for range rapid.IntRange(2, 12).Draw(rt, "writes") {
			_, edit := randomWrite(rt, w)
			if res, err := w.try(withoutGuard(edit)); err == nil && len(res.Commit.Changes) > 0 {
				w.keep(res)
			}
		}
		var selectors []string
		for i := range rapid.IntRange(1, 2).Draw(rt, "access documents") {
			selector := rapid.SampledFrom([]string{"tier=prod", "tier=dev", "region=eu", "id=c1", "id=c3"}).Draw(rt, "selector")
			selectors = append(selectors, selector)
			res, err := w.try(create(KindAccess, fmt.Sprintf(`{"id":"a%d","subjects":[{"token":"ci"}],"may":["read"],"on":{"selector":%q}}`, i, selector)))
			require.NoError(rt, err)
			w.keep(res)
		}
		s := w.state.VisibleTo(w.state.Rights(ci, w.now))
		text := readsOf(rt, w, s)
		for id, d := range w.state.docs[KindCluster] {
			within := slices.ContainsFunc(selectors, func(selector string) bool { return inSelector(selector, d.Cluster()) })
			require.Equal(rt, within, s.Has(KindCluster, id), id)
			if within {
				visible++
				require.Equal(rt, answersTo(rt, w.state, d.Cluster().ClusterDNS), answersTo(rt, s, d.Cluster().ClusterDNS), id)
				continue
			}
			hidden++
			require.NotContains(rt, text, d.Cluster().ClusterDNS)
			require.NotContains(rt, text, fmt.Sprintf("%q", id))
		}
		tx := s.Begin()
		require.NoError(rt, create(KindNamespace, `{"id":"new"}`)(tx))
		_, err := tx.Finish(Commit{ID: uuid.New(), At: w.now})
		require.ErrorContains(rt, err, "cannot be changed")
		_, err = s.ClustersAnswer()
		require.Error(rt, err)
	})
	t.Logf("%d visible clusters, %d others", visible, hidden)
	require.Positive(t, visible)
	require.Positive(t, hidden)
}

// TestVisibleDocuments: the limits of several access documents add up, and definitions are visible with what they depend on.
func TestVisibleDocuments(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	see := func(on ...string) string {
		t.Helper()
		var r Rights
		for i, limits := range on {
			var a access
			require.NoError(t, json.Unmarshal([]byte(limits), &a.On))
			a.ID, a.May = fmt.Sprint(i), []string{RightRead}
			require.NoError(t, a.parse([]byte(`{}`)))
			r.grants = append(r.grants, &a)
		}
		var ids []string
		for kind, docs := range w.state.VisibleTo(r).docs {
			for id := range docs {
				ids = append(ids, string(kind)+"/"+id)
			}
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	const base = "layer/base namespace/team platform_component/grafana resource/quotas/small resource_type/quotas rolebinding/readers"
	require.Equal(t, "cluster/c0 cluster/c1 "+base, see(`{"selector":"tier=dev"}`))
	require.Equal(t, "cluster/c3 layer/base layer/prod namespace/team platform_component/grafana platform_component/loki resource/quotas/small resource_type/quotas rolebinding/readers", see(`{"selector":"id=c3"}`))
	require.Equal(t, "platform_component/grafana platform_component/loki", see(`{"components":["loki"]}`))
	require.Equal(t, "namespace/kept namespace/team", see(`{"kinds":["namespace"]}`))
	require.Equal(t, "cluster/c0 cluster/c1 "+strings.Replace(base, "namespace/team", "namespace/kept namespace/team", 1), see(`{"selector":"tier=dev"}`, `{"kinds":["namespace"]}`))
	require.Equal(t, "resource/quotas/small resource_type/quotas", see(`{"kinds":["resource/quotas"]}`))
	require.Empty(t, see(`{"selector":"tier=none"}`))
	require.NotContains(t, see(`{"selector":"tier=none","kinds":["layer"]}`), "layer")
}
