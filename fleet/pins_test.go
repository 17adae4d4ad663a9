package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// pinnedFleets is a fleet with pinned clusters, and a fleet with the same changes in which no cluster ever was pinned.
type pinnedFleets struct {
	*world
	plain   *world
	plainA  map[Revision]Revision // revision of the plain fleet, by that of the other
	writes  []Revision            // that both fleets have
	begun   map[string]*State     // by cluster: the plain fleet when it was pinned
	kept    map[string]string     // by cluster: the answers then
	held    int                   // polls that differ from the plain fleet
	removed int                   // by the ends of pins
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

// requireServed compares all polls with those at the pin, or with the plain fleet.
func (f *pinnedFleets) requireServed(t require.TestingT) {
	require.Len(t, f.state.pinned, len(f.kept))
	for _, doc := range f.state.All(KindCluster) {
		plain := answersOf(t, f.plain.state, doc.ID)
		want, pinned := f.kept[doc.ID]
		if !pinned {
			want = plain
		} else if want != plain {
			f.held++
		}
		require.Equal(t, pinned, doc.Cluster().Pinned != nil)
		require.Equal(t, want, answersOf(t, f.state, doc.ID), "%s, pinned: %v", doc.ID, pinned)
	}
}

// add commits an accepted change, and compares its plan with the polls, and the State with that of a follower and of a start.
func (f *pinnedFleets) add(t *rapid.T, what string, res Result) api.Plan {
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
func (f *pinnedFleets) write(t *rapid.T, what string, edit func(w *world) func(*Tx) error) {
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
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodePinned {
		for _, id := range frozenIDs(err) {
			kept, pinned := f.kept[id]
			require.True(t, pinned, "%s: %v", what, err)
			doc := plain.State.docs[KindCluster][id]
			require.True(t, doc == nil || doc.Deleted() || kept != answersOf(t, plain.State, id) || before[id] != answersOf(t, plain.State, id), "%s: %v", what, err)
		}
		t.Logf("pinned: %s", what)
		return
	} else if ok && len(f.kept) > 0 && strings.Contains(e.Detail, "set deletion_policy to orphan first") {
		return // the pinned cluster was never served that policy
	}
	require.NoError(t, err, what)
	t.Logf("revision %d: %s", res.State.Revision(), what)
	f.plain.keep(plain)
	f.writes = append(f.writes, res.State.Revision())
	plan := f.add(t, what, res)
	var want []string
	for _, id := range sortedKeys(f.kept) {
		if before[id] != answersOf(t, f.plain.state, id) {
			want = append(want, id)
		}
	}
	require.ElementsMatch(t, want, plan.Pending, "the plan names the pinned clusters that the change reaches later: %s", what)
}

// pin pins some clusters, or unpins those of them that are pinned.
func (f *pinnedFleets) pin(t *rapid.T) {
	selector, err := ParseSelector(rapid.SampledFrom([]string{"tier in (dev,prod)", "tier=prod", "region=eu", "id=c1", "tier=dev"}).Draw(t, "pinned"))
	require.NoError(t, err)
	var ids, pinned []string
	for _, d := range f.state.All(KindCluster) {
		if selector.Matches(d.Cluster()) {
			if ids = append(ids, d.ID); f.kept[d.ID] != "" {
				pinned = append(pinned, d.ID)
			}
		}
	}
	if len(pinned) > 0 {
		f.unpin(t, pinned)
		return
	}
	if len(ids) == 0 {
		return
	}
	res, err := f.try(pinAll(ids...))
	require.NoError(t, err)
	t.Logf("revision %d: pin %v", res.State.Revision(), ids)
	served := map[string]string{}
	for _, id := range ids {
		served[id] = answersOf(t, f.state, id)
	}
	require.Empty(t, f.add(t, "pin", res).Groups, "a pin changes no answer")
	maps.Copy(f.kept, served)
	for _, id := range ids {
		f.begun[id] = f.plain.state
	}
}

// unpin unpins some clusters, and compares the plan with the answers, and the removals with those of one change that does all that has
// changed since the pin, in the plain fleet.
func (f *pinnedFleets) unpin(t *rapid.T, ids []string) {
	var want, got []string
	for _, id := range ids {
		if f.kept[id] != answersOf(t, f.plain.state, id) {
			want = append(want, id)
		}
	}
	res, err := f.try(withoutGuard(unpinAll(ids...)))
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeInvalid {
		require.ErrorContains(t, err, "set deletion_policy to orphan first")
		return
	}
	require.NoError(t, err)
	t.Logf("revision %d: unpin %v", res.State.Revision(), ids)
	plan := f.add(t, "unpin", res)
	for _, g := range plan.Groups {
		got = append(got, g.Clusters...)
	}
	require.ElementsMatch(t, want, got, "the plan of the end names exactly the clusters that differ")
	for _, id := range ids {
		f.requireRemovals(t, id, res)
		delete(f.kept, id)
		delete(f.begun, id)
	}
}

// requireRemovals compares the removals of an end with those of one change that does all that has changed since the pin.
func (f *pinnedFleets) requireRemovals(t require.TestingT, id string, end Result) {
	was, is := f.begun[id], f.plain.state
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
	name := lowerName(is.docs[KindCluster][id].Cluster())
	require.Len(t, end.removals.byName[name], len(r.removals.byName[name]), "removals from %s: %v, %v", id, end.removals.byName[name], r.removals.byName[name])
	f.removed += len(r.removals.byName[name])
}

// pinAll pins clusters.
func pinAll(ids ...string) func(*Tx) error {
	return patchAll(`{"pinned":{"reason":"INC-7"}}`, ids...)
}

// unpinAll unpins clusters.
func unpinAll(ids ...string) func(*Tx) error { return patchAll(`{"pinned":null}`, ids...) }

func patchAll(body string, ids ...string) func(*Tx) error {
	edits := make([]func(*Tx) error, len(ids))
	for i, id := range ids {
		edits[i] = patch(KindCluster, id, body)
	}
	return both(edits...)
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

// TestPinsKeepAnswers: for random fleets and writes in any order, each answer to a pinned cluster, with its receipts and ETag, is that
// at the pin until it ends, and then that of a fleet in which no cluster ever was pinned; other clusters are served as in that fleet at
// any time. Plans name exactly the clusters whose polls differ, and the pinned ones that the change reaches later; a follower and a start
// serve the same.
func TestPinsKeepAnswers(t *testing.T) {
	t.Parallel()
	held, removed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := tiers(t, prodLayer, baseLayer)
		w.state.rules.MaxRemovals = 1 << 20
		plain := *w
		plain.log.commits = slices.Clone(w.log.commits)
		f := &pinnedFleets{world: w, plain: &plain, kept: map[string]string{}, begun: map[string]*State{}, plainA: map[Revision]Revision{1: 1}}
		f.pin(rt)
		for range rapid.IntRange(1, 5).Draw(rt, "writes") {
			f.step(rt)
			f.requireServed(rt)
		}
		held, removed = held+f.held, removed+f.removed
	})
	require.Positive(t, held)
	t.Logf("%d answers were kept while the fleet differed, %d removals at ends", held, removed)
}

// step makes one random change.
func (f *pinnedFleets) step(t *rapid.T) {
	open := f.state.sorted(KindRollout, func(d *Document) bool { return d.rollout().open() })
	cluster := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "of"))
	everywhere := func(edit func(*Tx) error) func(*world) func(*Tx) error {
		return func(*world) func(*Tx) error { return edit }
	}
	switch n := rapid.IntRange(0, 20).Draw(t, "step"); {
	case n < 4:
		f.pin(t)
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

// TestPinRules: a pinned cluster keeps its inputs, the end is a guarded change, and changes that a pin cannot delay are refused, also
// with an override.
func TestPinRules(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	for body, at := range map[string]string{`{"pinned":{}}`: "/pinned/reason", `{"pinned":{"reason":"` + strings.Repeat("x", 1025) + `"}}`: "/pinned/reason"} {
		require.Equal(t, at, w.refused(CodeInvalid, patch(KindCluster, "c3", body)).Problems[0].Pointer)
	}
	joining := `{"id":"new","cluster_dns":"new.example.com","environment":"dev"`
	require.Equal(t, "/pinned", w.refused(CodeInvalid, create(KindCluster, joining+`,"pinned":{"reason":"r"}}`)).Problems[0].Pointer)
	require.Equal(t, "/pinned", w.refused(CodeInvalid, both(create(KindCluster, joining+`}`), pinAll("new"))).Problems[0].Pointer)
	for _, other := range []string{
		`{"cluster_dns":"other.example.com"}`,
	} {
		require.Equal(t, []string{"c3"}, frozenIDs(w.refused(CodePinned, both(pinAll("c3"), patch(KindCluster, "c3", other)))))
	}
	strict := patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer"},"mem":{"type":"integer","default":7}}}}`)
	require.Equal(t, []string{"c3"}, frozenIDs(w.refused(CodePinned, both(pinAll("c3"), strict))), "a pin alters nothing that is served at that moment")

	pinned := patch(KindCluster, "c3", `{"pinned":{"reason":"INC-7","until":"2026-01-02T04:00:00Z"}}`)
	kept := answersOf(t, w.state, "c3")
	res, err := w.try(both(patch(KindCluster, "c3", `{"patches":{"grafana":{"image.tag":"0"}}}`), pinned))
	require.NoError(t, err)
	plan, err := res.Plan()
	require.NoError(t, err)
	require.Equal(t, []string{"c3"}, plan.Pending, "the rest of the commit waits")
	require.Empty(t, plan.Groups)
	w.must(pinned)
	w.must(patch(KindCluster, "c3", `{"pinned":{"until":"2026-01-02T05:00:00Z"}}`))
	require.Equal(t, "INC-7", w.state.docs[KindCluster]["c3"].Cluster().Pinned.Reason)
	w.must(put(KindCluster, "c3", `{"pinned":null,"labels":{"tier":"dev"}}`))
	require.NotNil(t, w.state.pinned["c3"], "a PUT removes no field")

	w.must(patch(KindCluster, "c3", `{"patches":{"grafana":{"image.tag":"1"}}}`))
	require.ErrorContains(t, w.as("ann", patch(KindComponent, "grafana", `{"patches":{"image":"x"}}`)), "image.tag", "it would contradict the later patches of c3")
	w.must(patch(KindComponent, "grafana", `{"component_version":"18","target_namespace":"elsewhere"}`))
	w.must(patch(KindCluster, "c3", `{"labels":{"tier":"none"},"environment":"qa"}`))
	w.must(remove(KindLayer, "prod", DeleteOptions{}))
	require.Equal(t, "/patches/loki", w.refused(CodeInvalid, patch(KindCluster, "c3", `{"patches":{"loki":{"a":"1"}}}`)).Problems[0].Pointer, "loki will not be on it")
	w.must(remove(KindComponent, "loki", DeleteOptions{Cascade: true}))
	require.Equal(t, kept, answersOf(t, w.state, "c3"))
	require.Error(t, w.as("ann", patch(KindCluster, "c3", `{"namespaces":[{"id":"nothing"}]}`)), "it would be invalid when the pin ends")
	for _, write := range []func(*Tx) error{
		remove(KindCluster, "c3", DeleteOptions{Orphan: true}),
		remove(KindCluster, "c3", DeleteOptions{}),
		both(unpinAll("c3"), remove(KindCluster, "c3", DeleteOptions{})),
		patch(KindCluster, "c3", `{"cluster_dns":"other.example.com"}`),
		remove(KindResourceType, "quotas", DeleteOptions{Cascade: true}),
		strict,
	} {
		err := w.as("ann", both(func(tx *Tx) error {
			tx.Guard(Guard{OverrideFreezes: []string{"c3"}})
			return nil
		}, write))
		require.Equal(t, []string{"c3"}, frozenIDs(err), "%v", err)
		require.Equal(t, kept, answersOf(t, w.state, "c3"))
	}

	doc := w.state.docs[KindCluster]["c3"]
	require.Less(t, w.state.docs[KindPin]["c3"].Revision, doc.Revision)

	// The end removes loki, and redeploys grafana: the protection forbids that, and then the budget.
	end := unpinAll("c3")
	w.must(patch(KindCluster, "c3", `{"deletion_protection":true,"environment":"dev"}`))
	w.state.rules.MaxRemovals = 1
	w.refused(CodeProtected, end)
	w.must(patch(KindCluster, "c3", `{"deletion_protection":false}`))
	w.refused(CodeConfirm, end)
	require.Empty(t, w.state.OverduePins(w.now))
	require.Contains(t, w.state.OverduePins(w.now.Add(2*time.Hour)), "c3")
	require.Equal(t, kept, answersOf(t, w.state, "c3"), "no answer depends on a clock")
	plan = w.plan(end)
	require.Equal(t, 2, plan.Totals.Removals)
	require.Len(t, plan.Groups, 1)
	w.must(both(func(tx *Tx) error { tx.Guard(Guard{PlanHash: plan.PlanHash}); return nil }, end))
	require.NotEqual(t, kept, answersOf(t, w.state, "c3"))
	require.Nil(t, w.state.pinned)
	require.Empty(t, w.state.docs[KindPin])

	// A recent deletion policy that the cluster was never served does not count.
	w.state.rules.MaxRemovals = 100
	w.must(pinAll("c2"))
	w.must(patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`))
	w.now = w.now.Add(24 * time.Hour)
	w.must(patch(KindLayer, "base", `{"selector":"tier=dev","all":null}`))
	require.ErrorContains(t, w.as("ann", unpinAll("c2")), `namespace "team" would be deleted on cluster "c2"`)
}

// TestPinsAreNotReverted: reverts and restores leave pins as they are, and restore no pin with a deleted cluster.
func TestPinsAreNotReverted(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.MaxRemovals = 1 << 20
	undo := func(op string, at Revision) { w.must(operations(w, api.Operation{Op: op, Revision: int64(at)})) }
	isPinned := func(pinned bool) {
		t.Helper()
		require.Equal(t, pinned, w.state.pinned["c3"] != nil)
		require.Equal(t, pinned, w.state.docs[KindCluster]["c3"].Cluster().Pinned != nil)
	}
	before := w.state.Revision()
	w.must(pinAll("c3"))
	pin := w.state.Revision()
	w.must(patch(KindCluster, "c3", `{"cluster_name":"renamed"}`))
	renamed := w.state.Revision()
	w.log.past = w.pastOf(before)
	undo("restore", before)
	isPinned(true)
	require.Equal(t, "c3", w.state.docs[KindCluster]["c3"].Cluster().ClusterName)
	undo("revert", pin)
	isPinned(true)
	w.must(patch(KindCluster, "c3", `{"pinned":{"reason":"other"}}`))
	undo("revert", pin)
	isPinned(true)
	w.must(unpinAll("c3"))
	w.log.past = w.pastOf(renamed)
	undo("restore", renamed)
	isPinned(false)
	require.Equal(t, "renamed", w.state.docs[KindCluster]["c3"].Cluster().ClusterName)
	w.must(remove(KindCluster, "c3", DeleteOptions{}))
	w.log.past = w.pastOf(renamed)
	undo("restore", renamed)
	isPinned(false)
}

// TestPinsOfStages: no stage starts that would reach a pinned cluster, and a rollout waits for one that is pinned in a started stage.
func TestPinsOfStages(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev"}, {Name: "prod", Selector: "tier=prod"}}, bump2))
	w.must(act("r", RolloutStart))
	w.must(pinAll("c3"))
	start := act("r", RolloutStart)
	require.Equal(t, []string{"c3"}, frozenIDs(w.refused(CodePinned, start)))
	require.Equal(t, []string{"c3"}, w.plan(start).Pending)
	require.Contains(t, strings.Join(w.plan(start).Warnings, "\n"), "the change would be refused: pinned clusters would be deleted or served something else: c3")
	step, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutStart, Stage: "prod"}, w.now)
	require.NoError(t, err)
	require.Equal(t, RolloutStep{Reason: "pin", Stage: "prod", Message: `pins of c3`}, step)
	require.Empty(t, w.plan(unpinAll("c3")).Groups)
	w.must(unpinAll("c3"))
	w.must(pinAll("c3"))
	inputs, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout]["r"], nil)
	require.NoError(t, err)
	require.NotEmpty(t, inputs.ByCluster["c3"], "the rollout counts it")
	held, err := w.state.HeldBack(w.state.docs[KindCluster]["c3"], inputs.ByCluster["c3"])
	require.NoError(t, err)
	require.True(t, held, "its stage has not started")
	require.Equal(t, []string{"c3"}, w.plan(patch(KindNamespace, "team", `{"labels":{"later":"1"}}`)).Pending)
	w.must(unpinAll("c3"))
	w.must(start)
}

// TestPinLimits: all pins together are bounded, and another change of a pinned cluster does not log its pin again.
func TestPinLimits(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	must := func(edits ...func(*Tx) error) Result { // w.must compares all polls
		res, err := w.try(both(edits...))
		require.NoError(t, err)
		w.keep(res)
		return res
	}
	size := func(res Result) (n int) {
		for _, ch := range res.Commit.Changes {
			if ch.Kind == KindPin {
				n += len(ch.Before) + len(ch.After)
			}
		}
		return n
	}
	var clusters []func(*Tx) error
	var ids []string
	for i := range 2 * maxPins {
		ids = append(ids, fmt.Sprint("more", i))
		patches := "{}"
		if i < 50 {
			patches = fmt.Sprintf(`{"grafana":{"big":%q}}`, strings.Repeat("x", 250_000))
		}
		clusters = append(clusters, create(KindCluster, fmt.Sprintf(`{"id":"more%d","cluster_dns":"more%d.example.com","environment":"dev","platform_components":[{"id":"grafana"}],"patches":%s}`, i, i, patches)))
	}
	must(clusters...)
	begun := must(pinAll("more0"))
	require.Greater(t, size(begun), 250_000)
	require.Zero(t, size(must(patch(KindCluster, "more0", `{"pinned":{"until":"2999-01-01T00:00:00Z"}}`))))
	fits := maxPinBytes / size(begun)
	require.Less(t, fits, 50)
	must(pinAll(ids[1:fits]...))
	require.ErrorContains(t, w.refused(CodeLimitExceeded, pinAll(ids[fits])), "bytes of pins")
	must(unpinAll("more0"))
	must(pinAll(ids[fits]))
	must(unpinAll(ids[1 : fits+1]...))
	require.ErrorContains(t, w.refused(CodeLimitExceeded, pinAll(ids[50:]...)), "pin fewer clusters")
	must(pinAll(ids[60:160]...))
	require.ErrorContains(t, w.refused(CodeLimitExceeded, pinAll(ids[160])), "there would be 101 pinned clusters; at most 100 are possible")
}

// TestPinEndsWithoutPerson: the end by time removes nothing from a protected environment.
func TestPinEndsWithoutPerson(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.state.rules.MaxRemovals, w.state.rules.Protected = 100, []string{"dev"}
	w.must(pinAll("c3"))
	w.must(patch(KindComponent, "grafana", `{"target_namespace":"elsewhere"}`))
	byTime := func(tx *Tx) error { return tx.EndPin("c3") }
	require.ErrorContains(t, w.refused(CodeConfirm, byTime), `would be removed from 1 cluster of the protected environment "dev"`)
	w.must(patch(KindComponent, "grafana", `{"target_namespace":null}`))
	w.must(byTime)
}

// TestPinOfRecentPolicy: a deletion policy that was recent when the cluster was pinned is as old as its document at the end.
func TestPinOfRecentPolicy(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.now = w.now.Add(time.Hour)
	w.must(patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`))
	w.must(pinAll("c2"))
	w.must(patch(KindCluster, "c2", `{"excludes":{"namespaces":["team"]}}`))
	end := unpinAll("c2")
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
	require.Equal(t, `the answers to 4 clusters would change, which freeze "stop" (INC-7) forbids until 2999-01-01T00:00:00Z: c0, c1, c2 and 1 more`,
		w.refused(CodeFrozen, act("r", RolloutStart)).Detail)
	step, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutStart, Stage: "all"}, w.now)
	require.NoError(t, err)
	require.Equal(t, RolloutStep{Reason: "freeze", Stage: "all", Message: `freeze "stop" of c0, c1, c2 and 1 more`, Until: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)}, step)
}

// TestLayersOfPinnedCluster: a pinned cluster is shown with the layers that match it, although the pin has the settings.
func TestLayersOfPinnedCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"a","cluster_dns":"a.example.com","environment":"prod"}`, string(KindLayer), `{"id":"l","priority":1,"selector":"environment=prod"}`)
	w.must(patch(KindCluster, "a", `{"pinned":{"reason":"INC-7"}}`))
	view := w.state.EffectiveView(w.state.docs[KindCluster]["a"]).(*api.Cluster)
	require.Equal(t, []string{"l"}, view.Layers)
	require.NotNil(t, view.Pinned)
}

// TestPinnedClustersAreWarned: an accepted change that pinned clusters are not served names them, unless its plan did.
func TestPinnedClustersAreWarned(t *testing.T) {
	t.Parallel()
	about := func(res Result) (out []string) {
		for _, w := range res.Warnings {
			if strings.Contains(w, "pinned") {
				out = append(out, w)
			}
		}
		return out
	}
	w := tiers(t, baseLayer, prodLayer)
	w.state.rules.MaxRemovals = 100
	bump := patch(KindComponent, "grafana", `{"component_version":"18.0.0"}`)
	require.Empty(t, about(w.must(bump)))
	require.Empty(t, about(w.must(pinAll("c2"))), "the pin itself changes no answer")
	const one = "1 cluster is pinned and keeps what it is served: c2"
	require.Equal(t, []string{one}, about(w.must(patch(KindCluster, "c2", `{"cluster_name":"renamed"}`))))
	require.Equal(t, []string{one}, about(w.must(patch(KindCluster, "c2", `{"patches":{"grafana":{"replicas":"9"}}}`))))
	require.Empty(t, about(w.must(patch(KindCluster, "c1", `{"cluster_name":"renamed"}`))), "another cluster")
	w.must(pinAll("c3"))
	const two = "2 clusters are pinned and keep what they are served: c2, c3"
	layer := patch(KindLayer, "base", `{"rolebindings":[]}`)
	planned := w.plan(layer)
	require.NotContains(t, planned.Warnings, two, "a plan has its own warning")
	res, err := w.try(both(func(tx *Tx) error { tx.Guard(Guard{PlanHash: planned.PlanHash}); return nil }, layer))
	require.NoError(t, err)
	require.Empty(t, about(res))
	require.Equal(t, []string{two}, about(w.must(layer)))
	require.Empty(t, about(w.must(unpinAll("c2"))), "it is served the changes now, and c3 is not concerned")
}
