package fleet

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recorded is the history of a world as the store answers it.
type recorded struct{ *log }

func (r recorded) Past(q PastQuery) (Documents, error) {
	docs := Documents{}
	for _, c := range slices.Backward(r.commits) {
		if c.Revision <= q.At || c.Revision > q.UpTo {
			continue
		}
		for _, ch := range c.Changes {
			if slices.Contains(q.Documents, DocumentName{ch.Kind, ch.ID}) || slices.Contains(q.Documents, DocumentName{Kind: ch.Kind}) {
				docs.Set(ch.Kind, ch.ID, ch.Before)
			}
		}
	}
	return docs, nil
}

// served reads the whole history of what a cluster is served, in pages.
func (w *world) served(t require.TestingT, cluster string, limit int) (all []ServedRevision) {
	before := w.state.Revision() + 1
	for before > 0 {
		page, err := w.state.ServedHistory(w.t.Context(), cluster, before, limit, recorded{&w.log})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Revisions), limit)
		all, before = append(all, page.Revisions...), page.Next
	}
	return all
}

func unguarded(edit func(*Tx) error) func(*Tx) error {
	return both(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil }, edit)
}

// TestServedHistory: a change of a layer and of the catalog is one of the clusters that are served it, and of no other.
func TestServedHistory(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)                                                                // 1
	w.must(patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`))                       // 2
	w.must(patch(KindComponent, "grafana", `{"oci_tag":"x"}`))                                         // 3
	w.must(create(KindNamespace, `{"id":"unused"}`))                                                   // 4
	w.must(patch(KindCluster, "c2", `{"labels":{"team":"x"}}`))                                        // 5: nothing that is served
	w.must(patch(KindResourceType, "quotas", `{"description":"x"}`))                                   // 6: likewise, of another document
	w.must(create(KindLayer, `{"id":"gone","priority":90,"all":true,"namespaces":[{"id":"unused"}]}`)) // 7
	w.must(unguarded(remove(KindLayer, "gone", DeleteOptions{})))                                      // 8
	w.must(unguarded(remove(KindNamespace, "unused", DeleteOptions{})))                                // 9
	revisions := func(cluster string) (all []Revision) {
		for _, r := range w.served(t, cluster, 2) {
			all = append(all, r.Revision)
		}
		return all
	}
	require.Equal(t, []Revision{8, 7, 5, 3, 2, 1}, revisions("c2"))
	require.Equal(t, []Revision{8, 7, 3, 1}, revisions("c1"))
	require.Empty(t, revisions("nobody"))
	history := w.served(t, "c2", 100)
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

// TestServedHistoryIsWhatPollsWere: of random fleets, it has the revisions between which a cluster's polls differ, in pages of any
// size, and those of its document.
func TestServedHistoryIsWhatPollsWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		states := []*State{nil, w.state}
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			edit, _ := randomLayerEdit(rt)
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
			for _, r := range w.served(rt, id, limit) {
				got = append(got, r.Revision)
				forgotten := states[r.Revision].docs[KindCluster][id] == nil // it is not answered any more
				require.Equal(rt, differ[r.Revision] && !forgotten, len(r.Effect) > 0, "%s at %d: %v", id, r.Revision, r.Effect)
			}
			require.Equal(rt, want, got, id)
		}
	})
}

// inputsText are all inputs of a cluster, as text.
func inputsText(t require.TestingT, s *State, cluster string) string {
	if s == nil || s.docs[KindCluster][cluster] == nil {
		return ""
	}
	text := ""
	for _, a := range s.kinds.lists {
		inputs, _, err := s.inputs(s.servedTo(cluster), a, nil)
		require.NoError(t, err)
		for _, in := range inputs {
			body, err := json.Marshal(in.value)
			require.NoError(t, err)
			text += a.endpoint + string(body)
		}
	}
	return text
}
