package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// randomLimitedWrite draws a change of any kind. Some create or end a pin, or assign a definition to one cluster.
func randomLimitedWrite(t *rapid.T, w *world) (string, func(*Tx) error) {
	switch rapid.IntRange(0, 7).Draw(t, "limited write") {
	case 0:
		if ids := sortedKeys(w.state.pinned); len(ids) > 0 {
			return fmt.Sprint("unpin ", ids), unpinAll(ids...)
		}
		selector, err := ParseSelector(rapid.SampledFrom([]string{"tier=prod", "region=eu", "id=c1"}).Draw(t, "pinned"))
		require.NoError(t, err)
		ids := idsOf(w.state.sorted(KindCluster, func(d *Document) bool { return !d.Deleted() && selector.Matches(d.Cluster()) }))
		return fmt.Sprint("pin ", ids), pinAll(ids...)
	case 1:
		id := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "of"))
		kind := rapid.SampledFrom([]Kind{KindNamespace, ResourceKind("quotas")}).Draw(t, "kind")
		definition := map[Kind]string{KindNamespace: "kept", ResourceKind("quotas"): "small"}[kind]
		if rapid.Bool().Draw(t, "unassign") {
			return "unassign " + definition, func(tx *Tx) error { _, err := tx.Unassign(id, kind, definition); return err }
		}
		return "assign " + definition, assign(id, kind, definition, "")
	}
	return randomWrite(t, w)
}

// clustersToCoverByHand returns all clusters that access documents must cover, from a comparison of every cluster.
func clustersToCoverByHand(t require.TestingT, tx *Tx, r *Result) []affected {
	clusters, err := r.affected(true)
	require.NoError(t, err)
	late, err := r.affectedLater()
	require.NoError(t, err)
	clusters = append(clusters, late...)
	staged := tx.changedByRollouts()
	for id := range r.State.docs[KindCluster] {
		if a, reached := r.reachedByRollouts(id, staged); reached {
			clusters = append(clusters, a)
		}
	}
	return clusters
}

// requireSameScope compares checkClustersInScope with a check of all clusters that must be covered. It reports whether the change is
// permitted.
func requireSameScope(t require.TestingT, tx *Tx, r *Result, rights Rights, what string) bool {
	tx.LimitTo(rights, true)
	var want error
	if slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return g.limitsClusters() }) {
		all := clustersToCoverByHand(t, tx, r)
		slices.SortFunc(all, func(a, b affected) int { return strings.Compare(a.id, b.id) })
		want = tx.scope.narrow(len(all), func(g grant, i int) bool { return g.coversCluster(r, all[i]) }, func(i int) Problem {
			return Problem{Kind: KindCluster, ID: all[i].id, Detail: "its answers may change, and no access document of yours permits that"}
		})
	}
	permitting := tx.scope.ids()
	tx.LimitTo(rights, true)
	err := tx.checkClustersInScope(r)
	require.Equal(t, want, err, what)
	if err == nil {
		require.Equal(t, permitting, tx.scope.ids(), what)
	}
	return err == nil
}

// ids returns the access documents that may still permit the change.
func (s *scope) ids() (ids []string) {
	for _, g := range s.grants {
		ids = append(ids, g.ID)
	}
	return ids
}

// TestScopeChecksTheSameAsAComparisonOfAllClusters: for random fleets, access documents and writes, the check of clusters decides
// the same, with the same error, as one that looks at every cluster, and the table of references is that of the State.
func TestScopeChecksTheSameAsAComparisonOfAllClusters(t *testing.T) {
	t.Parallel()
	first := tiers(t, prodLayer, baseLayer)
	first.state.rules.MaxRemovals = 1 << 20
	permitted, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, state: first.state, now: first.now, log: log{commits: slices.Clone(first.log.commits)}}
		for i := range rapid.IntRange(1, 4).Draw(rt, "access documents") {
			selector := rapid.SampledFrom([]string{"tier=prod", "tier=dev", "tier in (dev,prod)", "region=eu", "region!=us", "environment=dev", "id!=c0", "id=new"}).Draw(rt, "selector")
			w.grantCI(fmt.Sprint("a", i), `["write"]`, rapid.SampledFrom([]string{"", `{"kinds":["cluster"]}`, fmt.Sprintf(`{"selector":%q}`, selector), fmt.Sprintf(`{"selector":%q}`, selector), fmt.Sprintf(`{"selector":%q}`, selector)}).Draw(rt, "on"))
		}
		if id := rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(rt, "pinned"); id != "" {
			w.must(pinAll(id))
		}
		for range rapid.IntRange(1, 10).Draw(rt, "writes") {
			what, edit := randomLimitedWrite(rt, w)
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if edit(tx) != nil {
				continue
			}
			res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
			if err != nil || len(res.Commit.Changes) == 0 {
				continue
			}
			if rapid.IntRange(0, 2).Draw(rt, "check") > 0 {
				if requireSameScope(rt, tx, &res, w.state.Rights(ci, w.now), what) {
					permitted++
				} else {
					refused++
				}
				requireReferences(rt, w.state)
			}
			if rapid.IntRange(0, 9).Draw(rt, "recompute") == 0 && w.state.references.table != nil {
				w.state.references.table.updates = maxReferenceUpdates
			}
			if rapid.Bool().Draw(rt, "keep") {
				w.keep(res)
			}
		}
	})
	t.Logf("%d changes permitted, %d refused", permitted, refused)
	require.Positive(t, permitted)
	require.Positive(t, refused)
}

// limitedTo returns an access document with a selector.
func limitedTo(t require.TestingT, text string) *access {
	selector, err := ParseSelector(text)
	require.NoError(t, err)
	return &access{Access: api.Access{On: &api.AccessScope{Selector: text}}, selector: selector}
}

// requireReferences compares the table with the clusters of a State, for each definition. No fleet of this test has as many
// definitions as a set has numbers.
func requireReferences(t require.TestingT, s *State) {
	limits := []*access{}
	for _, selector := range []string{"tier=prod", "region=eu", "environment=dev,tier!=prod"} {
		limits = append(limits, limitedTo(t, selector))
	}
	for _, a := range s.kinds.lists {
		for id := range s.docs[a.kind] {
			want, have := map[string][]int{}, map[string][]int{}
			for cluster, d := range s.docs[KindCluster] {
				if _, refers := a.enabled(s.configured(d), id); !refers {
					continue
				}
				for i, limit := range limits {
					if !limit.selector.Matches(d.Cluster()) {
						want[cluster] = append(want[cluster], i)
					}
				}
			}
			for cluster, outside := range s.referrersOutside(limits, map[Kind]map[string]bool{a.kind: {id: true}}) {
				have[cluster] = slices.Clone(outside)
			}
			require.Equal(t, want, have, "%s %s", a.kind, id)
		}
	}
}

// TestScopeChecksPinnedClusters: a pinned cluster counts with the configuration that it is served, and with
// the one that it gets when it is unpinned.
func TestScopeChecksPinnedClusters(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(pinAll("c1"))
	w.must(withoutGuard(patch(KindLayer, "base", `{"namespaces":[]}`)))
	w.grantCI("others", `["write"]`, `{"selector":"id!=c1"}`)
	for what, edit := range map[string]func(*Tx) error{
		"a definition of the pin": patch(KindNamespace, "team", `{"labels":{"a":"b"}}`),
		"a definition for later":  patch(KindComponent, "grafana", `{"component_version":"18"}`),
		"a layer":                 patch(KindLayer, "base", `{"namespaces":[{"id":"kept"}]}`),
	} {
		tx := w.state.Begin()
		require.NoError(t, withoutGuard(edit)(tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
		require.NoError(t, err)
		require.False(t, requireSameScope(t, tx, &res, w.state.Rights(ci, w.now), what), what)
	}
}

// TestReferencesToManyDefinitions: with more definitions than a set has numbers, no cluster is missing.
func TestReferencesToManyDefinitions(t *testing.T) {
	t.Parallel()
	const n = 64*len(definitionSet{}) + 3
	w := newWorld(t)
	w.must(func(tx *Tx) error {
		var failed error
		for i := range n {
			id := fmt.Sprint("n", i)
			failed = errors.Join(failed, create(KindNamespace, fmt.Sprintf(`{"id":%q}`, id))(tx))
			failed = errors.Join(failed, create(KindCluster, fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":"dev","namespaces":[{"id":%q}]}`, i, i, id))(tx))
		}
		return failed
	})
	limits := []*access{limitedTo(t, "tier=prod")}
	for i := range n {
		found := maps.Collect(w.state.referrersOutside(limits, map[Kind]map[string]bool{KindNamespace: {fmt.Sprint("n", i): true}}))
		require.Contains(t, found, fmt.Sprint("c", i))
		require.LessOrEqual(t, len(found), 2)
	}
	w.grantCI("a", `["write"]`, `{"selector":"id notin (c0,c97)"}`)
	w.grantCI("b", `["write"]`, `{"selector":"id!=none"}`)
	numbers := w.state.references.tableOf(w.state).numbers
	require.Equal(t, numbers[docKey{KindNamespace, "n0"}]+64*len(definitionSet{}), numbers[docKey{KindNamespace, "n97"}], "they are the same in a set")
	for _, id := range []string{"n0", "n97"} {
		tx := w.state.Begin()
		require.NoError(t, patch(KindNamespace, id, `{"labels":{"a":"b"}}`)(tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
		require.NoError(t, err)
		require.True(t, requireSameScope(t, tx, &res, w.state.Rights(ci, w.now), id))
	}
}

// TestReferencesAreBounded: however many clusters change and whichever selectors are used, the tables stay small.
func TestReferencesAreBounded(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.state.references.tableOf(w.state)
	for i := range maxReferenceUpdates + 10 {
		res, err := w.try(patch(KindCluster, "c0", fmt.Sprintf(`{"labels":{"n":"%d"}}`, i)))
		require.NoError(t, err)
		w.keep(res)
		require.LessOrEqual(t, len(w.state.references.changed), maxReferenceUpdates)
	}
	require.Nil(t, w.state.references.from)
	require.Empty(t, w.state.references.changed)
	table := w.state.references.tableOf(w.state)
	for i := range 3 * maxReferenceSelectors {
		table.outside(w.state, limitedTo(t, fmt.Sprint("n=", i)))
		require.LessOrEqual(t, len(table.selectors), maxReferenceSelectors)
	}
}
