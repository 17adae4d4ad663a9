package fleet

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recorded is the history of a world in the form of a store.
type recorded struct{ *log }

func (r recorded) Past(q PastQuery) (Documents, error) {
	docs := Documents{}
	for _, c := range slices.Backward(r.commits) {
		if c.Revision <= q.At || c.Revision > q.UpTo {
			continue
		}
		for _, ch := range c.Changes {
			if len(q.Documents) == 0 || slices.Contains(q.Documents, DocumentName{ch.Kind, ch.ID}) || slices.Contains(q.Documents, DocumentName{Kind: ch.Kind}) {
				docs.Set(ch.Kind, ch.ID, ch.Before)
			}
		}
	}
	return docs, nil
}

// served reads the whole served history of a document, in pages.
func (w *world) served(t require.TestingT, of DocumentName, limit int) (all []ServedRevision) {
	before := w.state.Revision() + 1
	for before > 0 {
		page, err := w.state.ServedHistory(w.t.Context(), of, before, limit, recorded{&w.log})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Revisions), limit)
		all, before = append(all, page.Revisions...), page.Next
	}
	return all
}

func unguarded(edit func(*Tx) error) func(*Tx) error {
	return both(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil }, edit)
}

// TestServedHistory: a change of a layer or of the catalog appears in the history of the affected clusters only.
func TestServedHistory(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)                                                                // 1
	w.must(patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`))                       // 2
	w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                                         // 3
	w.must(create(KindNamespace, `{"id":"unused"}`))                                                   // 4
	w.must(patch(KindCluster, "c2", `{"labels":{"team":"x"}}`))                                        // 5: no change of an input
	w.must(patch(KindResourceType, "quotas", `{"description":"x"}`))                                   // 6: the same, in another document
	w.must(create(KindLayer, `{"id":"gone","priority":90,"all":true,"namespaces":[{"id":"unused"}]}`)) // 7
	w.must(unguarded(remove(KindLayer, "gone", DeleteOptions{})))                                      // 8
	w.must(unguarded(remove(KindNamespace, "unused", DeleteOptions{})))                                // 9
	revisions := func(cluster string) (all []Revision) {
		for _, r := range w.served(t, DocumentName{KindCluster, cluster}, 2) {
			all = append(all, r.Revision)
		}
		return all
	}
	require.Equal(t, []Revision{8, 7, 5, 3, 2, 1}, revisions("c2"))
	require.Equal(t, []Revision{8, 7, 3, 1}, revisions("c1"))
	require.Empty(t, revisions("nobody"))
	history := w.served(t, DocumentName{KindCluster, "c2"}, 100)
	require.Equal(t, []string{"unused"}, history[0].Effect["namespaces"].Removed)
	require.Len(t, history[1].Effect["namespaces"].Added, 1)
	require.Empty(t, history[2].Effect)
	changed := history[4].Effect["platform-components"].Changed
	require.Len(t, changed, 1)
	require.Equal(t, "grafana", changed[0].ID)
	text, err := json.Marshal(changed[0].Fields)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"pointer":"/patches/replicas","before":"3","after":"5"}`)
	require.NotEmpty(t, history[5].Effect["platform-components"].Added)

	w.log.oldest = 4
	require.Equal(t, []Revision{8, 7, 5}, revisions("c2"), "what the log still has")
}

// TestServedHistoryOfComponent: the history of a component has the revisions that changed its input on some cluster, through
// any document, and those of its own.
func TestServedHistoryOfComponent(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)                                                             // 1
	w.must(patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`))                    // 2
	w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                                      // 3
	w.must(patch(KindComponent, "loki", `{"oci_tag":"x"}`))                                         // 4: of another component
	w.must(patch(KindCluster, "c2", `{"labels":{"team":"x"}}`))                                     // 5: changes no input
	w.must(patch(KindCluster, "c3", `{"patches":{"grafana":{"replicas":"7"}}}`))                    // 6
	w.must(patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"6"}}}`))                    // 7: c3 has its own
	w.must(unguarded(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`)))                        // 8: another layer
	w.must(patch(KindLayer, "base", `{"description":"x"}`))                                         // 9
	w.must(create(KindComponent, `{"id":"unused","component_path":"u","oci_url":"https://x.y/z"}`)) // 10
	w.must(unguarded(remove(KindCluster, "c0", DeleteOptions{})))                                   // 11
	history := w.served(t, DocumentName{KindComponent, "grafana"}, 3)
	var revisions []Revision
	var clusters []int
	for _, r := range history {
		revisions, clusters = append(revisions, r.Revision), append(clusters, r.Clusters)
	}
	require.Equal(t, []Revision{11, 8, 7, 6, 3, 2, 1}, revisions)
	require.Equal(t, []int{1, 1, 1, 1, 4, 2, 4}, clusters)
	require.Equal(t, []string{"grafana"}, history[0].Effect["platform-components"].Removed)
	text, err := json.Marshal(history[2].Effect["platform-components"].Changed)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"pointer":"/patches/replicas","before":"5","after":"6"}`)
	require.Len(t, history[6].Effect["platform-components"].Added, 2, "with and without the layer prod")

	// The same history gives the same bytes: clusters are compared in order, whichever changed in one revision.
	for range 20 {
		require.Equal(t, history, w.served(t, DocumentName{KindComponent, "grafana"}, 3))
	}

	unused := w.served(t, DocumentName{KindComponent, "unused"}, 3)
	require.Len(t, unused, 1)
	require.Empty(t, unused[0].Effect, "it is on no cluster")
	_, err = w.state.ServedHistory(t.Context(), DocumentName{KindNamespace, "team"}, 2, 1, recorded{&w.log})
	require.Error(t, err)
}

// TestServedHistoryMatchesPolls: in random fleets, it has the revisions between which a cluster's polls differ, in pages of
// any size, and those of its document.
func TestServedHistoryMatchesPolls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		states := []*State{nil, w.state}
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			edit, _ := randomLayerEdit(rt)
			if rapid.IntRange(0, 5).Draw(rt, "freeze") == 0 {
				if edit = unpinAll(sortedKeys(w.state.pinned)...); len(w.state.pinned) == 0 {
					edit = pinAll(idsOf(w.state.All(KindCluster))...)
				}
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if edit(tx) != nil {
				continue
			}
			if res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"}); err == nil && len(res.Commit.Changes) > 0 {
				w.keep(res)
				states = append(states, w.state)
			}
		}
		w.log.oldest = Revision(rapid.IntRange(1, 4).Draw(rt, "oldest"))
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		ids := map[string]bool{}
		for _, s := range states[1:] {
			for id := range s.docs[KindCluster] {
				ids[id] = true
			}
		}
		for _, id := range sortedKeys(ids) {
			var want, got []Revision
			differ := map[Revision]bool{}
			for i := len(w.log.commits) - 1; i >= 0 && w.log.commits[i].Revision >= w.log.oldest; i-- {
				c := w.log.commits[i]
				differ[c.Revision] = inputsText(rt, states[c.Revision-1], id) != inputsText(rt, states[c.Revision], id)
				own := slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Kind == KindCluster && ch.ID == id })
				if differ[c.Revision] || own {
					want = append(want, c.Revision)
				}
			}
			for _, r := range w.served(rt, DocumentName{KindCluster, id}, limit) {
				got = append(got, r.Revision)
				forgotten := states[r.Revision].docs[KindCluster][id] == nil // it is not answered any more
				require.Equal(rt, differ[r.Revision] && !forgotten, len(r.Effect) > 0, "%s at %d: %v", id, r.Revision, r.Effect)
			}
			require.Equal(rt, want, got, id)
			at := Revision(rapid.IntRange(1, len(states)-1).Draw(rt, "at"))
			var then string
			if view, _, err := w.state.ClusterAt(id, at, recorded{&w.log}); err == nil {
				then = inputsText(rt, view, id)
			}
			require.Equal(rt, inputsText(rt, states[at], id), then, "%s at %d", id, at)
		}
		requireComponentHistories(rt, w, states, sortedKeys(ids), limit)
	})
}

// requireComponentHistories compares the history of each component with its inputs on all clusters, before and after each
// revision.
func requireComponentHistories(rt *rapid.T, w *world, states []*State, clusters []string, limit int) {
	for _, id := range []string{"c0", "c1", "c2"} {
		var want, got []Revision
		differ := map[Revision]int{}
		for i := len(w.log.commits) - 1; i >= 0 && w.log.commits[i].Revision >= w.log.oldest; i-- {
			c := w.log.commits[i]
			for _, cluster := range clusters {
				if inputText(rt, states[c.Revision-1], cluster, id) != inputText(rt, states[c.Revision], cluster, id) {
					differ[c.Revision]++
				}
			}
			own := slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Kind == KindComponent && ch.ID == id })
			if differ[c.Revision] > 0 || own {
				want = append(want, c.Revision)
			}
		}
		for _, r := range w.served(rt, DocumentName{KindComponent, id}, limit) {
			got = append(got, r.Revision)
			require.Equal(rt, differ[r.Revision], r.Clusters, "%s at %d: %v", id, r.Revision, r.Effect)
			require.Equal(rt, differ[r.Revision] > 0, len(r.Effect) > 0, "%s at %d: %v", id, r.Revision, r.Effect)
		}
		require.Equal(rt, want, got, id)
	}
}

// inputText returns a component's input on a cluster as text; empty: there is none.
func inputText(t require.TestingT, s *State, cluster, component string) string {
	if s == nil || s.docs[KindCluster][cluster] == nil {
		return ""
	}
	inputs, _, err := s.resolveInputs(s.clusterByID(cluster), s.kinds.descriptor(KindComponent), map[string]bool{component: true})
	require.NoError(t, err)
	if len(inputs) == 0 {
		return ""
	}
	body, err := json.Marshal(inputs[0].value)
	require.NoError(t, err)
	return string(body)
}

// inputsText returns all inputs of a cluster as text.
func inputsText(t require.TestingT, s *State, cluster string) string {
	if s == nil || s.docs[KindCluster][cluster] == nil {
		return ""
	}
	text := ""
	for _, a := range s.kinds.lists {
		inputs, _, err := s.resolveInputs(s.clusterByID(cluster), a, nil)
		require.NoError(t, err)
		for _, in := range inputs {
			body, err := json.Marshal(in.value)
			require.NoError(t, err)
			text += a.endpoint + string(body)
		}
	}
	return text
}
