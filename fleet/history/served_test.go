package history_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/fleettest"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
)

// served reads the whole served history of a document, in pages.
func served(t require.TestingT, w *fleettest.World, of fleet.DocumentName, limit int) (all []history.ServedRevision) {
	before := w.State.Revision() + 1
	for before > 0 {
		page, err := history.Served(w.T.Context(), w.State, of, before, limit, &w.Log)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Revisions), limit)
		all, before = append(all, page.Revisions...), page.Next
	}
	return all
}

// TestServedHistory: a change of a layer or of the catalog appears in the history of the affected clusters only.
func TestServedHistory(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)                                                    // 1
	w.Must(fleettest.Patch(fleet.KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`))                       // 2
	w.Must(fleettest.Patch(fleet.KindComponent, "grafana", `{"oci_tag":"x"}`))                                         // 3
	w.Must(fleettest.Create(fleet.KindNamespace, `{"id":"unused"}`))                                                   // 4
	w.Must(fleettest.Patch(fleet.KindCluster, "c2", `{"labels":{"team":"x"}}`))                                        // 5: no change of an input
	w.Must(fleettest.Patch(fleet.KindResourceType, "quotas", `{"description":"x"}`))                                   // 6: the same, in another document
	w.Must(fleettest.Create(fleet.KindLayer, `{"id":"gone","priority":90,"all":true,"namespaces":[{"id":"unused"}]}`)) // 7
	w.Must(fleettest.Unguarded, fleettest.Delete(fleet.KindLayer, "gone"))                                             // 8
	w.Must(fleettest.Unguarded, fleettest.Delete(fleet.KindNamespace, "unused"))                                       // 9
	revisions := func(cluster string) (all []fleet.Revision) {
		for _, r := range served(t, w, fleet.DocumentName{Kind: fleet.KindCluster, ID: cluster}, 2) {
			all = append(all, r.Revision)
		}
		return all
	}
	require.Equal(t, []fleet.Revision{8, 7, 5, 3, 2, 1}, revisions("c2"))
	require.Equal(t, []fleet.Revision{8, 7, 3, 1}, revisions("c1"))
	require.Empty(t, revisions("nobody"))
	all := served(t, w, fleet.DocumentName{Kind: fleet.KindCluster, ID: "c2"}, 100)
	require.Equal(t, []string{"unused"}, all[0].Effect["namespaces"].Removed)
	require.Len(t, all[1].Effect["namespaces"].Added, 1)
	require.Empty(t, all[2].Effect)
	changed := all[4].Effect["platform-components"].Changed
	require.Len(t, changed, 1)
	require.Equal(t, "grafana", changed[0].ID)
	text, err := json.Marshal(changed[0].Fields)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"pointer":"/patches/replicas","before":"3","after":"5"}`)
	require.NotEmpty(t, all[5].Effect["platform-components"].Added)

	w.Log.Oldest = 4
	require.Equal(t, []fleet.Revision{8, 7, 5}, revisions("c2"), "what the log still has")
}

// TestServedHistoryOfComponent: the history of a component has the revisions that changed its input on some cluster, through
// any document, and those of its own.
func TestServedHistoryOfComponent(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)                                                 // 1
	w.Must(fleettest.Patch(fleet.KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`))                    // 2
	w.Must(fleettest.Patch(fleet.KindComponent, "grafana", `{"oci_tag":"x"}`))                                      // 3
	w.Must(fleettest.Patch(fleet.KindComponent, "loki", `{"oci_tag":"x"}`))                                         // 4: of another component
	w.Must(fleettest.Patch(fleet.KindCluster, "c2", `{"labels":{"team":"x"}}`))                                     // 5: changes no input
	w.Must(fleettest.Patch(fleet.KindCluster, "c3", `{"patches":{"grafana":{"replicas":"7"}}}`))                    // 6
	w.Must(fleettest.Patch(fleet.KindLayer, "prod", `{"patches":{"grafana":{"replicas":"6"}}}`))                    // 7: c3 has its own
	w.Must(fleettest.Unguarded, fleettest.Patch(fleet.KindCluster, "c2", `{"labels":{"tier":"dev"}}`))              // 8: another layer
	w.Must(fleettest.Patch(fleet.KindLayer, "base", `{"description":"x"}`))                                         // 9
	w.Must(fleettest.Create(fleet.KindComponent, `{"id":"unused","component_path":"u","oci_url":"https://x.y/z"}`)) // 10
	w.Must(fleettest.Unguarded, fleettest.Delete(fleet.KindCluster, "c0"))                                          // 11
	all := served(t, w, fleet.DocumentName{Kind: fleet.KindComponent, ID: "grafana"}, 3)
	var revisions []fleet.Revision
	var clusters []int
	for _, r := range all {
		revisions, clusters = append(revisions, r.Revision), append(clusters, r.Clusters)
	}
	require.Equal(t, []fleet.Revision{11, 8, 7, 6, 3, 2, 1}, revisions)
	require.Equal(t, []int{1, 1, 1, 1, 4, 2, 4}, clusters)
	require.Equal(t, []string{"grafana"}, all[0].Effect["platform-components"].Removed)
	text, err := json.Marshal(all[2].Effect["platform-components"].Changed)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"pointer":"/patches/replicas","before":"5","after":"6"}`)
	require.Len(t, all[6].Effect["platform-components"].Added, 2, "with and without the layer prod")

	// The same history gives the same bytes: clusters are compared in order, whichever changed in one revision.
	for range 20 {
		require.Equal(t, all, served(t, w, fleet.DocumentName{Kind: fleet.KindComponent, ID: "grafana"}, 3))
	}

	unused := served(t, w, fleet.DocumentName{Kind: fleet.KindComponent, ID: "unused"}, 3)
	require.Len(t, unused, 1)
	require.Empty(t, unused[0].Effect, "it is on no cluster")
	_, err = history.Served(t.Context(), w.State, fleet.DocumentName{Kind: fleet.KindNamespace, ID: "team"}, 2, 1, &w.Log)
	require.Error(t, err)
}

// TestServedHistoryMatchesPolls: in random fleets, it has the revisions between which a cluster's polls differ, in pages of
// any size, and those of its document.
func TestServedHistoryMatchesPolls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		states := []*fleet.State{nil}
		w := randomWorld(t, rt, true, func(s *fleet.State) { states = append(states, s) })
		w.Log.Oldest = fleet.Revision(rapid.IntRange(1, 4).Draw(rt, "oldest"))
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		ids := map[string]bool{}
		for _, s := range states[1:] {
			for rec := range s.Records() {
				if rec.Kind == fleet.KindCluster {
					ids[rec.ID] = true
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			var want, got []fleet.Revision
			differ := map[fleet.Revision]bool{}
			for i := len(w.Log.Commits) - 1; i >= 0 && w.Log.Commits[i].Revision >= w.Log.Oldest; i-- {
				c := w.Log.Commits[i]
				differ[c.Revision] = inputsText(rt, states[c.Revision-1], id) != inputsText(rt, states[c.Revision], id)
				own := slices.ContainsFunc(c.Changes, func(ch fleet.Change) bool { return ch.Kind == fleet.KindCluster && ch.ID == id })
				if differ[c.Revision] || own {
					want = append(want, c.Revision)
				}
			}
			for _, r := range served(rt, w, fleet.DocumentName{Kind: fleet.KindCluster, ID: id}, limit) {
				got = append(got, r.Revision)
				forgotten := !states[r.Revision].Has(fleet.KindCluster, id) // it is not answered any more
				require.Equal(rt, differ[r.Revision] && !forgotten, len(r.Effect) > 0, "%s at %d: %v", id, r.Revision, r.Effect)
			}
			require.Equal(rt, want, got, id)
			at := fleet.Revision(rapid.IntRange(1, len(states)-1).Draw(rt, "at"))
			var then string
			if view, _, err := history.ClusterAt(w.State, id, at, &w.Log); err == nil {
				then = inputsText(rt, view, id)
			}
			require.Equal(rt, inputsText(rt, states[at], id), then, "%s at %d", id, at)
		}
		requireComponentHistories(rt, w, states, slices.Sorted(maps.Keys(ids)), limit)
	})
}

// requireComponentHistories compares the history of each component with its inputs on all clusters, before and after each
// revision.
func requireComponentHistories(rt *rapid.T, w *fleettest.World, states []*fleet.State, clusters []string, limit int) {
	for _, id := range []string{"c0", "c1", "c2"} {
		var want, got []fleet.Revision
		differ := map[fleet.Revision]int{}
		for i := len(w.Log.Commits) - 1; i >= 0 && w.Log.Commits[i].Revision >= w.Log.Oldest; i-- {
			c := w.Log.Commits[i]
			for _, cluster := range clusters {
				if inputText(rt, states[c.Revision-1], cluster, id) != inputText(rt, states[c.Revision], cluster, id) {
					differ[c.Revision]++
				}
			}
			own := slices.ContainsFunc(c.Changes, func(ch fleet.Change) bool { return ch.Kind == fleet.KindComponent && ch.ID == id })
			if differ[c.Revision] > 0 || own {
				want = append(want, c.Revision)
			}
		}
		for _, r := range served(rt, w, fleet.DocumentName{Kind: fleet.KindComponent, ID: id}, limit) {
			got = append(got, r.Revision)
			require.Equal(rt, differ[r.Revision], r.Clusters, "%s at %d: %v", id, r.Revision, r.Effect)
			require.Equal(rt, differ[r.Revision] > 0, len(r.Effect) > 0, "%s at %d: %v", id, r.Revision, r.Effect)
		}
		require.Equal(rt, want, got, id)
	}
}

// inputText returns a component's input on a cluster as text; empty: there is none.
func inputText(t require.TestingT, s *fleet.State, cluster, component string) string {
	text := ""
	eachInput(t, s, cluster, func(in fleet.BuiltInput, value string) {
		if in.Definition.Kind == fleet.KindComponent && in.ID == component {
			text = value
		}
	})
	return text
}

// inputsText returns all inputs of a cluster as text.
func inputsText(t require.TestingT, s *fleet.State, cluster string) string {
	text := ""
	eachInput(t, s, cluster, func(in fleet.BuiltInput, value string) { text += in.List + value })
	return text
}

func eachInput(t require.TestingT, s *fleet.State, cluster string, visit func(in fleet.BuiltInput, value string)) {
	if s == nil || !s.Has(fleet.KindCluster, cluster) {
		return
	}
	doc, err := s.FindIncludingDeleted(cluster)
	require.NoError(t, err)
	for in, err := range s.BuiltInputs(doc, "", "") {
		require.NoError(t, err)
		body, err := json.Marshal(in.Value)
		require.NoError(t, err)
		visit(in, string(body))
	}
}

// TestHistoriesWithRollouts: a stage appears in the history of its clusters and of the component, and its completion in
// neither; the inputs that a revision changed are those of the clusters of the stage.
func TestHistoriesWithRollouts(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer) // 1
	w.Must(w.CreateRollout("r", []fleet.RolloutStage{{Name: "dev", Selector: "tier=dev"}},
		`{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"18"}}`)) // 2
	w.Must(fleettest.ChangeRollout("r", fleet.RolloutStart))                       // 3
	w.Must(fleettest.Patch(fleet.KindComponent, "grafana", `{"oci_tag":"x"}`))     // 4
	w.Must(fleettest.ChangeRollout("r", fleet.RolloutStart))                       // 5
	w.Must(fleettest.ChangeRollout("r", fleet.RolloutComplete))                    // 6
	w.Must(fleettest.Patch(fleet.KindCluster, "c0", `{"labels":{"tier":"prod"}}`)) // 7
	revisions := func(kind fleet.Kind, id string) (all []fleet.Revision) {
		for _, r := range served(t, w, fleet.DocumentName{Kind: kind, ID: id}, 3) {
			if len(r.Effect) > 0 {
				all = append(all, r.Revision)
			}
		}
		return all
	}
	require.Equal(t, []fleet.Revision{4, 3, 1}, revisions(fleet.KindCluster, "c0"))
	require.Equal(t, []fleet.Revision{5, 4, 1}, revisions(fleet.KindCluster, "c3"))
	require.Equal(t, []fleet.Revision{5, 4, 3, 1}, revisions(fleet.KindComponent, "grafana"))
	for rev, want := range map[fleet.Revision][]string{2: {}, 3: {"c0", "c1"}, 5: {"c2", "c3"}, 6: {}} {
		past, err := w.Log.Past(fleet.PastQuery{At: rev, UpTo: w.State.Revision()})
		require.NoError(t, err)
		changes, err := w.Log.Changes(rev)
		require.NoError(t, err)
		changed, err := w.State.InputsChangedBy(t.Context(), changes, past)
		require.NoError(t, err)
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(changed)), "revision %d", rev)
	}
}
