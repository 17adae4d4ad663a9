package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// snapshotFleets is a fleet with pins, and a fleet with the same changes in which no freeze ever was.
type snapshotFleets struct {
	*world
	plain   *world
	plainA  map[Revision]Revision        // revision of the plain fleet, by that of the other
	writes  []Revision                   // that both fleets have
	begun   map[string]*State            // by the id of the freeze: the plain fleet then
	kept    map[string]map[string]string // by the id of the freeze: the answers to each cluster then
	held    int                          // polls that differ from the plain fleet
	removed int                          // by the ends of freezes
}

// answersOf returns the answers to a cluster with receipts and ETags. It treats the 404 of a deleted resource type like an empty
// list: neither removes an object.
func answersOf(t require.TestingT, s *State, id string) string {
	var out string
	doc := s.docs[KindCluster][id]
	for _, list := range s.kinds.lists {
		if list.count(s.Effective(doc)) == 0 {
			continue
		}
		a, err := s.Answer(doc, list.kind)
		require.NoError(t, err)
		out += fmt.Sprintln(list.endpoint, a.ETag, pollSealed(t, s, doc.Cluster().ClusterDNS, list.kind))
	}
	return out
}

// frozenIn returns the answers to a cluster at the time of the freeze.
func (f *snapshotFleets) frozenIn(id string) (kept string, frozen bool) {
	for _, clusters := range f.kept {
		if kept, frozen = clusters[id]; frozen {
			return kept, true
		}
	}
	return "", false
}

// requireServed compares all polls with those at the freeze, or with the plain fleet.
func (f *snapshotFleets) requireServed(t require.TestingT, what string) {
	for _, doc := range f.state.All(KindCluster) {
		plain := answersOf(t, f.plain.state, doc.ID)
		want, frozen := f.frozenIn(doc.ID)
		if !frozen {
			want = plain
		} else if want != plain {
			f.held++
		}
		require.Equal(t, want, answersOf(t, f.state, doc.ID), "%s, frozen: %v: %s", doc.ID, frozen, what)
	}
	for id := range f.kept {
		view := f.state.FreezeView(f.state.docs[KindFreeze][id], f.now)
		require.Equal(t, f.pendingOf(t, id), view.PendingClusterIds, "%s: %s", id, what)
	}
}

// pendingOf returns the clusters whose answers the end of a freeze would change.
func (f *snapshotFleets) pendingOf(t require.TestingT, freeze string) (ids []string) {
	for _, id := range sortedKeys(f.kept[freeze]) {
		if f.kept[freeze][id] != answersOf(t, f.plain.state, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// add commits an accepted change, and compares its plan with the polls, and the State with that of a follower and of a start.
func (f *snapshotFleets) add(t *rapid.T, what string, res Result) api.Plan {
	before := f.state
	wasServed := polls(t, before)
	plan, err := res.Plan()
	require.NoError(t, err, what)
	requirePlanned(t, before, res.State, plan, what)
	served := polls(t, res.State)
	planned := map[string]bool{}
	for _, g := range plan.Groups {
		for _, id := range g.Clusters {
			planned[id] = true
		}
	}
	for id, doc := range res.State.docs[KindCluster] {
		if before.docs[KindCluster][id] == nil {
			continue
		}
		dns := doc.Cluster().ClusterDNS
		require.Equal(t, answersTo(t, before, dns) != answersTo(t, res.State, dns), planned[id], "the plan names exactly the clusters whose polls differ: %s: %s", id, what)
	}
	followed, err := before.Apply(res.Commit)
	require.NoError(t, err, what)
	require.Equal(t, served, polls(t, followed), "followed: %s", what)
	if rapid.IntRange(0, 3).Draw(t, "load") == 0 {
		loaded, err := NewState(testRules, res.State.head, res.State.at, slices.Collect(res.State.Records()))
		require.NoError(t, err, what)
		require.Equal(t, served, polls(t, loaded), "loaded: %s", what)
	}
	require.Equal(t, wasServed, polls(t, before), "an old State never changes: %s", what)
	f.keep(res)
	f.plainA[f.state.Revision()] = f.plain.state.Revision()
	f.now = f.now.Add(time.Minute)
	f.plain.now = f.now
	return plan
}

// write makes a change in both fleets. Only a change that a snapshot cannot delay is refused in one of them.
func (f *snapshotFleets) write(t *rapid.T, what string, edit func(w *world) func(*Tx) error) {
	before := map[string]string{}
	for id := range f.plain.state.docs[KindCluster] {
		before[id] = answersOf(t, f.plain.state, id)
	}
	plain, failed := f.plain.try(edit(f.plain))
	if e, ok := errors.AsType[*Error](failed); ok && e.Code == CodeInvalid && !strings.Contains(e.Detail, "set deletion_policy to orphan first") {
		_, err := f.try(edit(f.world))
		require.Error(t, err, "it would be invalid at the end: %s: %v", what, failed)
	}
	if failed != nil || len(plain.Commit.Changes) == 0 {
		return
	}
	res, err := f.try(edit(f.world))
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeFrozen {
		for _, id := range frozenIDs(err) {
			kept, frozen := f.frozenIn(id)
			require.True(t, frozen, "%s: %v", what, err)
			doc := plain.State.docs[KindCluster][id]
			require.True(t, doc == nil || doc.Deleted() || kept != answersOf(t, plain.State, id) || before[id] != answersOf(t, plain.State, id), "%s: %v", what, err)
		}
		t.Logf("frozen: %s", what)
		return
	} else if ok && len(f.kept) > 0 && strings.Contains(e.Detail, "set deletion_policy to orphan first") {
		return // the frozen cluster was never served that policy
	}
	require.NoError(t, err, what)
	t.Logf("revision %d: %s", res.State.Revision(), what)
	f.plain.keep(plain)
	f.writes = append(f.writes, res.State.Revision())
	plan := f.add(t, what, res)
	want, got := map[string][]string{}, map[string][]string{}
	for freeze, clusters := range f.kept {
		for _, id := range sortedKeys(clusters) {
			if before[id] != answersOf(t, f.plain.state, id) {
				want[freeze] = append(want[freeze], id)
			}
		}
	}
	for _, p := range plan.Pending {
		got[p.Freeze] = p.ClusterIds
	}
	require.Equal(t, want, got, "the plan names the frozen clusters that the change reaches later, for each freeze: %s", what)
}

// freeze begins or ends a freeze.
func (f *snapshotFleets) freeze(t *rapid.T) {
	id := rapid.SampledFrom([]string{"f0", "f1"}).Draw(t, "freeze")
	if f.kept[id] != nil {
		want := f.pendingOf(t, id)
		res, err := f.try(withoutGuard(remove(KindFreeze, id, DeleteOptions{})))
		if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeInvalid {
			require.ErrorContains(t, err, "set deletion_policy to orphan first")
			return
		}
		require.NoError(t, err)
		t.Logf("revision %d: end %s", res.State.Revision(), id)
		for _, cluster := range slices.Clone(want) { // unless the other freeze has it too
			if res.State.frozen[cluster] != nil {
				want = slices.DeleteFunc(want, func(c string) bool { return c == cluster })
			}
		}
		plan := f.add(t, "end "+id, res)
		var got []string
		for _, g := range plan.Groups {
			got = append(got, g.Clusters...)
		}
		require.ElementsMatch(t, want, got, "the plan of the end names exactly the clusters that differ")
		if len(f.kept) == 1 && f.begun[id] != nil {
			f.requireRemovals(t, id, res)
		}
		delete(f.kept, id)
		delete(f.begun, id)
		return
	}
	body := rapid.SampledFrom([]string{`"all":true`, `"selector":"tier=prod"`, `"selector":"region=eu"`, `"selector":"id=c1"`, `"selector":"tier=dev"`}).Draw(t, "frozen")
	res, err := f.try(create(KindFreeze, fmt.Sprintf(`{"id":%q,"mode":"pin","reason":"CHG-1",%s}`, id, body)))
	if err != nil {
		require.ErrorContains(t, err, "selects 0 clusters")
		return
	}
	t.Logf("revision %d: %s %s", res.State.Revision(), id, body)
	served := map[string]string{}
	for _, c := range res.State.docs[KindSnapshot][id].snapshot().Clusters {
		served[c.ID] = answersOf(t, f.state, c.ID)
	}
	require.Empty(t, f.add(t, "freeze "+id, res).Groups, "a freeze changes no answer")
	if len(f.kept) == 0 { // otherwise it may keep the answers of another freeze
		f.begun[id] = f.plain.state
	}
	f.kept[id] = served
}

// requireRemovals compares the removals of the end of a freeze with those of one change that does all that has changed since it
// began, in the fleet without it.
func (f *snapshotFleets) requireRemovals(t require.TestingT, freeze string, end Result) {
	was, is := f.begun[freeze], f.plain.state
	commit := Commit{Revision: was.Revision() + 1, ID: uuid.New(), At: end.Commit.At}
	var edits []edit
	for kind := range is.kinds.byName {
		for id := range mergedKeys(was.docs[kind], is.docs[kind]) {
			ch := Change{Kind: kind, ID: id}
			if d := was.docs[kind][id]; d != nil {
				ch.Before = d.Body
			}
			if d := is.docs[kind][id]; d != nil {
				ch.After = d.Body
			}
			if !isInternal(kind) && string(ch.Before) != string(ch.After) {
				commit.Changes, edits = append(commit.Changes, ch), append(edits, edit{kind: kind, id: id})
			}
		}
	}
	slices.SortFunc(commit.Changes, func(a, b Change) int { return strings.Compare(string(a.Kind)+" "+a.ID, string(b.Kind)+" "+b.ID) })
	next, err := was.Apply(commit)
	require.NoError(t, err)
	r := Result{Commit: commit, State: next, base: was, layerChanges: next.layerChanges(was, edits), work: newWork(context.Background()), objects: newObjectChanges(was, next, newWork(context.Background()))}
	names, err := r.affected(false)
	require.NoError(t, err)
	r.removals = r.computeRemovals(names)
	for id := range f.kept[freeze] {
		name := lowerName(is.docs[KindCluster][id].Cluster())
		require.Len(t, end.removals.byName[name], len(r.removals.byName[name]), "removals from %s: %v, %v", id, end.removals.byName[name], r.removals.byName[name])
		f.removed += len(r.removals.byName[name])
	}
}

func mergedKeys(a, b map[string]*Document) map[string]bool {
	keys := map[string]bool{}
	for id := range a {
		keys[id] = true
	}
	for id := range b {
		keys[id] = true
	}
	return keys
}

// TestSnapshotFreezesKeepAnswers: for random fleets and writes in any order, each answer to a cluster under a freeze of mode
// snapshot, with its receipts and ETag, is that at the freeze until it ends, and then that of a fleet in which the freeze
// never was; other clusters are served as in that fleet at any time. Plans name exactly the clusters whose polls differ, and
// the frozen ones that the change reaches later; a follower and a start serve the same.
func TestSnapshotFreezesKeepAnswers(t *testing.T) {
	t.Parallel()
	held, removed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := tiers(t, prodLayer, baseLayer)
		w.state.rules.MaxRemovals = 1 << 20
		plain := *w
		plain.log.commits = slices.Clone(w.log.commits)
		f := &snapshotFleets{world: w, plain: &plain, kept: map[string]map[string]string{}, begun: map[string]*State{}, plainA: map[Revision]Revision{1: 1}}
		f.freeze(rt)
		for range rapid.IntRange(1, 5).Draw(rt, "writes") {
			f.step(rt)
			f.requireServed(rt, "")
		}
		held, removed = held+f.held, removed+f.removed
	})
	require.Positive(t, held)
	t.Logf("%d answers were kept while the fleet differed, %d removals at ends", held, removed)
}

// step makes one random change.
func (f *snapshotFleets) step(t *rapid.T) {
	open := f.state.sorted(KindRollout, func(d *Document) bool { return d.rollout().open() })
	cluster := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "of"))
	everywhere := func(edit func(*Tx) error) func(*world) func(*Tx) error {
		return func(*world) func(*Tx) error { return edit }
	}
	switch n := rapid.IntRange(0, 20).Draw(t, "step"); {
	case n < 4:
		f.freeze(t)
	case n < 7 && len(open) > 0:
		d := rapid.SampledFrom(open).Draw(t, "rollout")
		action := rapid.SampledFrom([]string{RolloutStart, RolloutStart, RolloutStart, RolloutSkip, RolloutBack, RolloutPause, RolloutResume, RolloutAbort, RolloutComplete}).Draw(t, "action")
		f.write(t, action+" "+d.ID, everywhere(act(d.ID, action)))
	case n == 7:
		id, stages, ops := fmt.Sprint("r", f.state.Revision()), randomStages(t), stageableOperations(t)
		f.write(t, "create "+id, func(w *world) func(*Tx) error { return rollOut(w, id, stages, ops...) })
	case n == 8:
		at := Revision(rapid.IntRange(1, int(f.state.Revision())).Draw(t, "restored"))
		f.write(t, fmt.Sprint("restore ", at), func(w *world) func(*Tx) error {
			at := at
			if w == f.plain {
				at = f.plainA[at]
			}
			w.log.past = w.pastOf(at)
			return operations(w, api.Operation{Op: "restore", Revision: int64(at)})
		})
	case n == 9:
		ops := stageableOperations(t)
		f.write(t, asJSON(ops), func(w *world) func(*Tx) error { return operations(w, ops...) })
	case n == 10:
		f.write(t, "delete "+cluster, everywhere(remove(KindCluster, cluster, DeleteOptions{Orphan: rapid.Bool().Draw(t, "orphan")})))
	case n == 11:
		body := rapid.SampledFrom([]string{`{"environment":"qa"}`, `{"cluster_name":"renamed"}`, fmt.Sprintf(`{"cluster_dns":"new-%s.example.com"}`, cluster), `{"deletion_protection":false}`}).Draw(t, "cluster")
		f.write(t, cluster+" "+body, everywhere(patch(KindCluster, cluster, body)))
	case n == 12:
		body := rapid.SampledFrom([]string{`{"priority":5}`, `{"all":null,"selector":"tier=dev"}`, `{"namespaces":[]}`, `{"patches":{"grafana":{"replicas":null}}}`}).Draw(t, "layer")
		f.write(t, "prod "+body, everywhere(patch(KindLayer, "prod", body)))
	case n == 13 && len(f.writes) > 0:
		at := rapid.SampledFrom(f.writes).Draw(t, "reverted")
		f.write(t, fmt.Sprint("revert ", at), func(w *world) func(*Tx) error {
			at := at
			if w == f.plain {
				at = f.plainA[at]
			}
			return operations(w, api.Operation{Op: "revert", Revision: int64(at), Prefer: "theirs"})
		})
	case n == 14:
		f.write(t, "delete quotas", everywhere(remove(KindResourceType, "quotas", DeleteOptions{Cascade: true})))
	default:
		what, edit := randomOther(t)
		f.write(t, what, everywhere(edit))
	}
}

// TestSnapshotFreezeRules: a cluster keeps its inputs, the end is a guarded change, and changes that a snapshot cannot delay are
// refused, also with an override.
func TestSnapshotFreezeRules(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	snapshot := func(body string) func(*Tx) error {
		return create(KindFreeze, `{"id":"stop","mode":"pin","reason":"INC-7",`+body+`}`)
	}
	for body, at := range map[string]string{
		`"selector":"tier=none"`: "/selector", `"all":true,"from":"2026-01-01T00:00:00Z"`: "/from", `"all":true,"selector":"tier=dev"`: "/selector",
	} {
		e := w.refused(CodeInvalid, snapshot(body))
		require.Equal(t, at, e.Problems[0].Pointer, "%v", e)
	}
	w.must(snapshot(`"selector":"id=c3","until":"2026-01-02T04:00:00Z"`))
	kept := answersOf(t, w.state, "c3")
	for _, body := range []string{`{"selector":"tier=dev"}`, `{"mode":"block"}`, `{"mode":null}`} {
		w.refused(CodeInvalid, patch(KindFreeze, "stop", body))
	}
	w.must(patch(KindFreeze, "stop", `{"until":"2026-01-02T05:00:00Z"}`))

	w.must(patch(KindCluster, "c3", `{"patches":{"grafana":{"image.tag":"1"}}}`))
	require.ErrorContains(t, w.as("ann", patch(KindComponent, "grafana", `{"patches":{"image":"x"}}`)), "image.tag", "it would contradict the later patches of c3")
	w.must(patch(KindComponent, "grafana", `{"component_version":"18","target_namespace":"elsewhere"}`))
	w.must(patch(KindCluster, "c3", `{"labels":{"tier":"none"}}`))
	w.must(remove(KindLayer, "prod", DeleteOptions{}))
	require.Equal(t, "/patches/loki", w.refused(CodeInvalid, patch(KindCluster, "c3", `{"patches":{"loki":{"a":"1"}}}`)).Problems[0].Pointer, "loki will not be on it")
	w.must(remove(KindComponent, "loki", DeleteOptions{Cascade: true}))
	require.Equal(t, kept, answersOf(t, w.state, "c3"))
	require.Error(t, w.as("ann", patch(KindCluster, "c3", `{"namespaces":[{"id":"nothing"}]}`)), "it would be invalid when the freeze ends")
	for _, write := range []func(*Tx) error{
		remove(KindCluster, "c3", DeleteOptions{Orphan: true}),
		patch(KindCluster, "c3", `{"cluster_dns":"other.example.com"}`),
		remove(KindResourceType, "quotas", DeleteOptions{Cascade: true}),
		patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer"},"mem":{"type":"integer","default":7}}}}`),
	} {
		err := w.as("ann", both(func(tx *Tx) error {
			tx.Guard(Guard{OverrideFreezes: []string{"stop"}})
			return nil
		}, write))
		require.Equal(t, []string{"c3"}, frozenIDs(err), "%v", err)
		require.Equal(t, kept, answersOf(t, w.state, "c3"))
	}

	doc := w.state.docs[KindCluster]["c3"]
	ex, err := w.state.Explain(t.Context(), doc, "platform-components", "loki", "")
	require.NoError(t, err)
	require.Equal(t, "stop", ex.Freeze)
	require.NoError(t, w.state.Blame(t.Context(), &ex, &w.log))
	for _, v := range ex.Inputs[0].Values {
		require.Equal(t, int64(w.state.docs[KindFreeze]["stop"].Revision), v.SaidBy.Revision)
	}

	// The end removes loki, and redeploys grafana: the protection forbids that, and then the budget.
	end := remove(KindFreeze, "stop", DeleteOptions{})
	w.must(patch(KindCluster, "c3", `{"deletion_protection":true}`))
	w.state.rules.MaxRemovals = 1
	w.refused(CodeProtected, end)
	w.must(patch(KindCluster, "c3", `{"deletion_protection":false}`))
	w.refused(CodeConfirm, end)
	require.Empty(t, w.state.OverdueFreezes(w.now))
	require.Contains(t, w.state.OverdueFreezes(w.now.Add(2*time.Hour)), "stop")
	require.Equal(t, kept, answersOf(t, w.state, "c3"), "no answer depends on a clock")
	plan := w.plan(end)
	require.Equal(t, 2, plan.Totals.Removals)
	require.Len(t, plan.Groups, 1)
	w.must(both(func(tx *Tx) error { tx.Guard(Guard{PlanHash: plan.PlanHash}); return nil }, end))
	require.NotEqual(t, kept, answersOf(t, w.state, "c3"))
	require.Nil(t, w.state.frozen)

	// A recent deletion policy that the cluster was never served does not count.
	w.state.rules.MaxRemovals = 100
	w.must(snapshot(`"selector":"id=c2"`))
	w.must(patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`))
	w.now = w.now.Add(24 * time.Hour)
	w.must(patch(KindLayer, "base", `{"selector":"tier=dev","all":null}`))
	require.ErrorContains(t, w.as("ann", end), `namespace "team" would be deleted on cluster "c2"`)
}

// TestSnapshotFreezeOfStages: no stage starts that would reach a cluster under a pin, and a rollout waits
// for one that is frozen in a started stage.
func TestSnapshotFreezeOfStages(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev"}, {Name: "prod", Selector: "tier=prod"}}, bump2))
	w.must(act("r", RolloutStart))
	w.must(create(KindFreeze, `{"id":"stop","mode":"pin","reason":"INC-7","selector":"id=c3"}`))
	start := act("r", RolloutStart)
	require.Equal(t, []string{"c3"}, frozenIDs(w.refused(CodeFrozen, start)))
	require.Equal(t, "c3", w.plan(start).Frozen[0].ClusterIds[0])
	step, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutStart, Stage: "prod"}, w.now)
	require.NoError(t, err)
	require.Equal(t, RolloutStep{Reason: "freeze", Stage: "prod", Message: `pin "stop" of c3`}, step)
	require.Empty(t, w.plan(remove(KindFreeze, "stop", DeleteOptions{})).Groups)
	w.must(remove(KindFreeze, "stop", DeleteOptions{}))
	w.must(create(KindFreeze, `{"id":"stop","mode":"pin","reason":"INC-7","selector":"id=c3"}`))
	inputs, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout]["r"], nil)
	require.NoError(t, err)
	require.NotEmpty(t, inputs.ByCluster["c3"], "the rollout counts it")
	heldBack := func() bool {
		held, err := w.state.HeldBack(w.state.docs[KindCluster]["c3"], inputs.ByCluster["c3"])
		require.NoError(t, err)
		return held
	}
	require.True(t, heldBack(), "its stage has not started")
	w.must(patch(KindNamespace, "team", `{"labels":{"later":"1"}}`))
	require.Equal(t, []string{"c3"}, w.state.FreezeView(w.state.docs[KindFreeze]["stop"], w.now).PendingClusterIds)
	w.must(remove(KindFreeze, "stop", DeleteOptions{}))
	w.must(start)
}

// TestSnapshotFreezeLimits: all snapshots together are bounded, and a change of a freeze does not log its snapshot again.
func TestSnapshotFreezeLimits(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	freeze := func(id, selector string) func(*Tx) error {
		return create(KindFreeze, fmt.Sprintf(`{"id":%q,"mode":"pin","reason":"INC-7","selector":%q}`, id, selector))
	}
	must := func(edits ...func(*Tx) error) Result { // w.must compares all polls
		res, err := w.try(both(edits...))
		require.NoError(t, err)
		w.keep(res)
		return res
	}
	size := func(res Result) (n int) {
		for _, ch := range res.Commit.Changes {
			n += len(ch.Before) + len(ch.After)
		}
		return n
	}
	must(patch(KindCluster, "c3", fmt.Sprintf(`{"patches":{"grafana":{"big":%q}}}`, strings.Repeat("x", 250_000))))
	begun := must(freeze("f0", "id=c3"))
	require.Greater(t, size(begun), 250_000)
	require.Less(t, size(must(patch(KindFreeze, "f0", `{"until":"2999-01-01T00:00:00Z"}`))), 1_000)
	for i := range maxSnapshotBytes/size(begun) - 1 {
		must(freeze(fmt.Sprint("more", i), "id=c3"))
	}
	e := w.refused(CodeLimitExceeded, freeze("f1", "id=c3"))
	require.Equal(t, "/selector", e.Problems[0].Pointer)
	require.ErrorContains(t, e, "end another pin first")
	must(freeze("small", "id=c2"))
	must(remove(KindFreeze, "f0", DeleteOptions{}))
	must(freeze("f1", "id=c3"))
	var clusters []func(*Tx) error
	for i := range 2 * maxSnapshotClusters {
		clusters = append(clusters, create(KindCluster, fmt.Sprintf(`{"id":"more%d","cluster_dns":"more%d.example.com","environment":"dev","labels":{"tier":"more"}}`, i, i)))
	}
	must(clusters...)
	require.ErrorContains(t, w.refused(CodeInvalid, freeze("many", "tier=more")), "selects 200 clusters; a pin has 1 to 100")
}

// TestSnapshotFreezeEndsWithoutPerson: the end by time removes nothing from a protected environment.
func TestSnapshotFreezeEndsWithoutPerson(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.MaxRemovals, w.state.rules.Protected = 100, []string{"dev"}
	w.must(create(KindFreeze, `{"id":"stop","mode":"pin","reason":"INC-7","selector":"id=c3"}`))
	w.must(patch(KindComponent, "grafana", `{"target_namespace":"elsewhere"}`))
	byTime := func(tx *Tx) error { return tx.EndFreeze("stop") }
	require.ErrorContains(t, w.refused(CodeConfirm, byTime), `would be removed from 1 cluster of the protected environment "dev"`)
	w.must(patch(KindComponent, "grafana", `{"target_namespace":null}`))
	w.must(byTime)
}

// TestSnapshotFreezeOfRecentPolicy: a deletion policy that was recent when the freeze began is as old as its document at the end.
func TestSnapshotFreezeOfRecentPolicy(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.now = w.now.Add(time.Hour)
	w.must(patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`))
	w.must(create(KindFreeze, `{"id":"stop","mode":"pin","reason":"INC-7","selector":"id=c2"}`))
	w.must(patch(KindCluster, "c2", `{"excludes":{"namespaces":["team"]}}`))
	end := remove(KindFreeze, "stop", DeleteOptions{})
	require.Equal(t, 1, w.plan(end).Totals.Removals)
	w.now = w.now.Add(24 * time.Hour)
	require.Zero(t, w.plan(end).Totals.Removals)
	w.must(end)
}

// TestMessagesOfFreezesAreShort: they have the first clusters and the number of the others; the wait of a rollout has the end of
// the freezes once, beside its message.
func TestMessagesOfFreezesAreShort(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "all", All: true}}, patchOp(KindNamespace, "team", `{"labels":{"a":"b"}}`)))
	w.must(create(KindFreeze, `{"id":"stop","all":true,"until":"2999-01-01T00:00:00Z","reason":"INC-7"}`))
	require.Equal(t, `the answers to 4 clusters would change, which freeze "stop" (INC-7) forbids until 2999-01-01T00:00:00Z: c0, c1, c2 and 1 more; to make the change all the same, send X-Fleet-Override-Freeze: stop and X-Change-Reason`,
		w.refused(CodeFrozen, act("r", RolloutStart)).Detail)
	step, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutStart, Stage: "all"}, w.now)
	require.NoError(t, err)
	require.Equal(t, RolloutStep{Reason: "freeze", Stage: "all", Message: `freeze "stop" of c0, c1, c2 and 1 more`, Until: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)}, step)
}
