package fleet

import (
	"encoding/json"
	"errors"
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

// rolloutFleets is a fleet with rollouts, and one fleet without rollouts for each set of them: there the changes of these
// rollouts were made when the rollouts were created, and all other changes as in the first fleet. A cluster must be served
// as in the fleet of the rollouts that reach it.
type rolloutFleets struct {
	*world
	without map[rolloutMask]*world
	ids     []string // of the rollouts, by their bit
	steps   map[rolloutMask]map[Revision]Revision
	past    map[Revision]rolloutPast
	inputs  map[string]*RolloutInputs // by the id of the rollout, each computed with the previous one
}

// rolloutPast is a State that a restore must return to.
type rolloutPast struct {
	ids     []string
	without map[rolloutMask]*world
	polls   map[string]string
}

func newRolloutFleets(w *world) *rolloutFleets {
	plain := *w
	f := &rolloutFleets{world: w, without: map[rolloutMask]*world{0: &plain}, past: map[Revision]rolloutPast{}, steps: map[rolloutMask]map[Revision]Revision{0: {}}}
	f.remember(nil)
	return f
}

func (f *rolloutFleets) remember(t require.TestingT) {
	if t == nil {
		t = f.t
	}
	f.past[f.state.Revision()] = rolloutPast{slices.Clone(f.ids), maps.Clone(f.without), polls(t, f.state)}
}

// withoutGuard runs an edit without the guard.
func withoutGuard(edit func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error {
		tx.Guard(Guard{Off: true})
		return edit(tx)
	}
}

// elsewhere makes a change in the fleets without rollouts.
func (f *rolloutFleets) elsewhere(t require.TestingT, what string, edit func(mask rolloutMask, w *world) func(*Tx) error) {
	for _, mask := range slices.Sorted(maps.Keys(f.without)) {
		next := *f.without[mask]
		next.log.commits = slices.Clone(next.log.commits)
		res, err := next.try(withoutGuard(edit(mask, &next)))
		require.NoError(t, err, "the fleet with the changes of rollouts %b: %s", mask, what)
		steps := maps.Clone(f.steps[mask])
		if len(res.Commit.Changes) > 0 {
			steps[f.state.Revision()] = res.State.Revision()
		}
		f.steps[mask] = steps
		next.keep(res)
		f.without[mask] = &next
	}
}

// of returns a rollout of the fleet.
func (f *rolloutFleets) of(bit int) *rollout { return f.state.docs[KindRollout][f.ids[bit]].rollout() }

// reaching returns the rollouts whose change a cluster must have.
func (f *rolloutFleets) reaching(c *api.Cluster) (mask rolloutMask) {
	for bit := range f.ids {
		if r := f.of(bit); r.State == rolloutCompleted || r.State != rolloutAborted && stageByHand(r, c) < r.Started {
			mask |= 1 << bit
		}
	}
	return mask
}

// stageByHand finds the stage of a cluster by other code than the fleet's, except for the position.
func stageByHand(r *rollout, c *api.Cluster) int {
	for i, s := range r.Stages {
		key, value, _ := strings.Cut(s.Selector, "=")
		in := s.All || slices.Contains(s.ClusterIDs, c.ID) || s.Selector != "" && (c.Labels[key] == value || key == "environment" && c.Environment == value)
		if s.Below != "" && fmt.Sprintf("%016x", position(r.ID, c.ID)) >= s.Below {
			in = false
		}
		if in && !s.Skipped {
			return i
		}
	}
	panic("the last stage has all clusters")
}

// requireServed compares all polls.
func (f *rolloutFleets) requireServed(t require.TestingT, what string) {
	for _, doc := range f.state.All(KindCluster) {
		mask := f.reaching(doc.Cluster())
		want := f.without[mask]
		require.NotNil(t, want, "%b", mask)
		for _, list := range f.state.kinds.lists {
			dns := doc.Cluster().ClusterDNS
			require.Equal(t, poll(t, want.state, dns, list.kind), poll(t, f.state, dns, list.kind), "%s of %s, reached by %b: %s", list.endpoint, doc.ID, mask, what)
		}
	}
}

// requireRolloutInputs compares the inputs that rollouts change, computed with those of the previous State, and anew.
func (f *rolloutFleets) requireRolloutInputs(t require.TestingT) {
	next := map[string]*RolloutInputs{}
	for id, d := range f.state.docs[KindRollout] {
		if !d.rollout().open() {
			continue
		}
		var err error
		next[id], err = f.state.RolloutInputs(f.t.Context(), d, f.inputs[id])
		require.NoError(t, err)
		anew, err := f.state.RolloutInputs(f.t.Context(), d, nil)
		require.NoError(t, err)
		require.Equal(t, anew.ByCluster, next[id].ByCluster, id)
	}
	f.inputs = next
}

// commit runs an edit in the fleet with rollouts. It returns false if the edit is refused or changes nothing.
func (f *rolloutFleets) commit(t *rapid.T, what string, edit func(*Tx) error) bool {
	before := f.state
	wasServed := polls(t, before)
	res, err := f.try(withoutGuard(edit))
	if err != nil {
		var e *Error
		require.True(t, errors.As(err, &e), "%s: %v", what, err)
		t.Logf("refused: %s: %s %v", what, e.Code, e)
		return false
	}
	if len(res.Commit.Changes) == 0 {
		return false
	}
	t.Logf("revision %d: %s", res.State.Revision(), what)
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
		differs := false
		for _, list := range res.State.kinds.lists {
			at := doc.Cluster().ClusterDNS + "/" + list.endpoint
			differs = differs || wasServed[at] != served[at]
		}
		require.Equal(t, differs, planned[id], "the plan names exactly the clusters whose polls differ: %s: %s", id, what)
	}
	followed, err := before.Apply(res.Commit)
	require.NoError(t, err, what)
	require.Equal(t, served, polls(t, followed), "followed: %s", what)
	loaded, err := NewState(testRules, res.State.head, res.State.at, slices.Collect(res.State.Records()))
	require.NoError(t, err, what)
	require.Equal(t, served, polls(t, loaded), "loaded: %s", what)
	require.Equal(t, wasServed, polls(t, before), "an old State never changes: %s", what)
	f.keep(res)
	f.now = f.now.Add(time.Minute)
	return true
}

// pastOf returns the documents that changed after a revision, as they were at it.
func (w *world) pastOf(at Revision) Documents {
	out := Documents{}
	for _, c := range slices.Backward(w.log.commits) {
		if c.Revision > at {
			for _, ch := range c.Changes {
				out.Set(ch.Kind, ch.ID, ch.Before)
			}
		}
	}
	return out
}

// stageableOperations draws operations that a rollout can make.
func stageableOperations(t *rapid.T) (ops []api.Operation) {
	for i := range rapid.IntRange(1, 3).Draw(t, "operations") {
		pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, fmt.Sprint("patch", i)) }
		ops = append(ops, []func() api.Operation{
			func() api.Operation {
				// Not target_namespace: that of a Helm component has no effect on a kustomize one, so its order with the change of the type matters.
				return patchOp(KindComponent, "grafana", pick(`{"component_version":"18"}`, `{"oci_url":"https://other.example.com"}`, `{"patches":{"a.b":"1"}}`, `{"patches":{"replicas":null}}`, `{"release_name":"g"}`, `{"component_path":"g2"}`, `{"oci_url":"oci://registry.example.com/x","type":"kustomize"}`))
			},
			func() api.Operation {
				return patchOp(KindComponent, "loki", pick(`{"depends_on":[]}`, `{"component_path":"x"}`, `{"component_version":"9"}`))
			},
			func() api.Operation {
				return patchOp(KindLayer, "base", pick(`{"patches":{"grafana":{"replicas":"9"}}}`, `{"selector":"tier=dev","all":null}`, `{"overrides":{"loki":{"component_version":"4"}}}`))
			},
			func() api.Operation {
				return patchOp(KindLayer, "prod", pick(`{"overrides":{"grafana":null}}`, `{"patches":{"grafana":{"replicas":null}}}`, `{"selector":"region=eu"}`))
			},
			// Lists entry by entry: to replace a list is another change in a fleet where another rollout has changed it.
			func() api.Operation {
				return rapid.SampledFrom([]api.Operation{
					{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "team"},
					{Op: "assign_namespace", Layers: []string{"base"}, NamespaceID: "kept"},
					{Op: "unassign_component", Layers: []string{"base"}, ComponentID: "grafana"},
					{Op: "assign_component", Layers: []string{"base"}, ComponentID: "loki"},
					{Op: "unassign_component", Layers: []string{"prod"}, ComponentID: "loki"},
					{Op: "unassign_resource", Type: "quotas", Layers: []string{"base"}, ResourceID: "small"},
					{Op: "assign_resource", Type: "quotas", Layers: []string{"prod"}, ResourceID: "small", Overrides: nullable.NewNullableWithValue(json.RawMessage(`{"cpu":8}`))},
				}).Draw(t, fmt.Sprint("assignment", i))
			},
			func() api.Operation { return patchOp(KindNamespace, "team", `{"labels":{"a":"b"}}`) },
			func() api.Operation {
				return patchOp(KindRoleBinding, "readers", `{"subjects":[{"kind":"Group","name":"ops"}]}`)
			},
			func() api.Operation {
				return api.Operation{Op: "patch", Kind: kindResource, Type: "quotas", ID: "small", Patch: json.RawMessage(`{"spec":{"cpu":7}}`)}
			},
		}[rapid.IntRange(0, 7).Draw(t, "kind")]())
	}
	return ops
}

func patchOp(kind Kind, id, body string) api.Operation {
	return api.Operation{Op: "patch", Kind: string(kind), ID: id, Patch: json.RawMessage(body)}
}

// randomStages draws the stages of a rollout.
func randomStages(t *rapid.T) (stages []RolloutStage) {
	for i := range rapid.IntRange(0, 3).Draw(t, "stages") {
		s := rapid.SampledFrom([]RolloutStage{
			{ClusterIDs: []string{"c0"}},
			{ClusterIDs: []string{"c1", "new"}},
			{Selector: "tier=dev"},
			{Selector: "tier=prod"},
			{Selector: "region=eu"},
			{All: true, Percent: 50},
			{All: true, Count: 1},
			{Selector: "tier=dev", Percent: 1},
			{Selector: "tier=none"},
			{Selector: "environment=dev", Count: 2},
		}).Draw(t, "stage")
		s.Name = fmt.Sprintf("s%d", i)
		stages = append(stages, s)
	}
	return stages
}

// randomOther draws a change that is not of a rollout.
func randomOther(t *rapid.T) (string, func(*Tx) error) {
	cluster := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "cluster"))
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "body") }
	component := pick("grafana", "loki")
	switch rapid.IntRange(0, 12).Draw(t, "other") {
	case 0, 1:
		body := fmt.Sprintf(`{"labels":{"tier":%q,"region":%q}}`, pick("dev", "prod", "none"), pick("eu", "us"))
		return cluster + " " + body, patch(KindCluster, cluster, body)
	case 2, 3:
		body := pick(`{}`, `{"component_version":"3"}`, `{"enabled":false}`, `{"component_path":"pinned"}`)
		return fmt.Sprint("assign ", component, " to ", cluster, body), assign(cluster, KindComponent, component, body)
	case 4:
		return fmt.Sprint("unassign ", component, " from ", cluster), func(tx *Tx) error { _, err := tx.Unassign(cluster, KindComponent, component); return err }
	case 5:
		body := pick(`{"patches":{"x":"1"}}`, `{"patches":{"replicas":"7"}}`, `{"component_version":"17.5"}`, `{"secret_ref":"pull"}`, `{"component_version":"18"}`)
		return "grafana " + body, patch(KindComponent, "grafana", body)
	case 6:
		body := pick(`{"component_version":"2"}`, `{"depends_on":["grafana"]}`, `{"patches":{"y":"1"}}`)
		return "loki " + body, patch(KindComponent, "loki", body)
	case 7:
		body := pick(`{"patches":{"grafana":{"z":"1"}}}`, `{"overrides":{"loki":{"component_version":"4"}}}`, `{"description":"x"}`)
		layer := pick("base", "prod")
		return layer + " " + body, patch(KindLayer, layer, body)
	case 8:
		layer, ns := pick("base", "prod"), pick("kept", "team")
		return fmt.Sprint("assign ", ns, " to ", layer), func(tx *Tx) error { _, err := tx.AssignToLayer(layer, KindNamespace, ns, nil); return err }
	case 9:
		body := pick(`{"labels":{"c":"d"}}`, `{"deletion_policy":"orphan"}`, `{"annotations":{"e":"f"}}`)
		return "team " + body, patch(KindNamespace, "team", body)
	case 10:
		body := pick(`{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"mem":{"type":"integer","default":7}}}}`, `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":5}}}}`)
		return "quotas " + body, patch(KindResourceType, "quotas", body)
	case 11:
		body := fmt.Sprintf(`{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"tier":%q}}`, pick("dev", "prod"))
		return "create " + body, func(tx *Tx) error {
			if _, err := tx.Get(KindCluster, "new"); err == nil {
				_, err := tx.Delete(KindCluster, "new", DeleteOptions{})
				return err
			}
			return create(KindCluster, body)(tx)
		}
	default:
		return "delete " + component, remove(KindComponent, component, DeleteOptions{Cascade: true})
	}
}

// TestRolloutsServeTheChangeToStartedStages: for random fleets, rollouts and other changes, in any order, a cluster that a
// rollout reaches is served as if the change had been made, and each other cluster as if not. Plans name exactly the
// clusters whose polls differ, a completion changes no byte, a follower and a start serve the same, and a restore serves
// what was served then.
func TestRolloutsServeTheChangeToStartedStages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newRolloutFleets(tiers(t, prodLayer, baseLayer))
		for range rapid.IntRange(3, 14).Draw(rt, "commits") {
			var open []int
			for bit := range f.ids {
				if f.of(bit).open() {
					open = append(open, bit)
				}
			}
			switch n := rapid.IntRange(0, 19).Draw(rt, "step"); {
			case len(f.ids) < 4 && (len(f.ids) == 0 || n < 3):
				f.create(rt)
			case n < 12 && len(open) > 0:
				f.act(rt, rapid.SampledFrom(open).Draw(rt, "rollout"))
			case n == 12:
				f.restore(rt)
			case n == 13:
				f.revert(rt)
			default:
				if what, edit := randomOther(rt); f.commit(rt, what, edit) {
					f.elsewhere(rt, what, func(rolloutMask, *world) func(*Tx) error { return edit })
				}
			}
			f.requireServed(rt, "")
			f.requireRolloutInputs(rt)
			f.remember(rt)
		}
	})
}

// create creates a rollout, which changes no answer.
func (f *rolloutFleets) create(t *rapid.T) {
	id, ops := fmt.Sprintf("r%d", len(f.ids)), stageableOperations(t)
	n := NewRollout{ID: id, Stages: randomStages(t), Operations: ops}
	if !f.commit(t, fmt.Sprintf("create %s %+v %s", id, n.Stages, asJSON(ops)), func(tx *Tx) error { _, err := tx.CreateRollout(n, &f.log); return err }) {
		return
	}
	bit := rolloutMask(1) << len(f.ids)
	f.ids = append(f.ids, id)
	for mask, w := range maps.Clone(f.without) {
		with := *w
		res, err := with.try(withoutGuard(func(tx *Tx) error { _, err := NewBatch(tx, &with.log).Run(ops); return err }))
		require.NoError(t, err, "the change in the fleet with the changes of rollouts %b", mask)
		with.log.commits = slices.Clone(with.log.commits)
		with.keep(res)
		f.without[mask|bit], f.steps[mask|bit] = &with, maps.Clone(f.steps[mask])
	}
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// act runs a random action on a rollout.
func (f *rolloutFleets) act(t *rapid.T, bit int) {
	action := rapid.SampledFrom([]string{
		RolloutStart, RolloutStart, RolloutStart, RolloutStart, RolloutPause, RolloutResume, RolloutResume, RolloutSkip, RolloutBack, RolloutAbort, RolloutComplete, RolloutComplete,
	}).Draw(t, "action")
	sealed := f.sealed(t)
	if !f.commit(t, fmt.Sprint(action, " ", f.ids[bit]), func(tx *Tx) error { _, err := tx.ChangeRollout(f.ids[bit], action, ""); return err }) {
		return
	}
	switch action {
	case RolloutAbort:
		f.drop(func(mask rolloutMask) bool { return mask&(1<<bit) != 0 })
	case RolloutComplete:
		f.drop(func(mask rolloutMask) bool { return mask&(1<<bit) == 0 })
	case RolloutPause, RolloutResume:
	default:
		return
	}
	if action != RolloutAbort {
		require.Equal(t, sealed, f.sealed(t), "%s changes no byte, receipt or ETag", action)
	}
}

// drop forgets fleets that no cluster can be served as any more.
func (f *rolloutFleets) drop(which func(rolloutMask) bool) {
	f.without = maps.Clone(f.without)
	maps.DeleteFunc(f.without, func(mask rolloutMask, _ *world) bool { return which(mask) })
}

// sealed are all answers with receipts and ETags.
func (f *rolloutFleets) sealed(t require.TestingT) map[string]string {
	out := map[string]string{}
	for _, doc := range f.state.docs[KindCluster] {
		for _, list := range f.state.kinds.lists {
			a, err := f.state.Answer(doc, list.kind)
			require.NoError(t, err)
			out[doc.ID+"/"+list.endpoint] = a.ETag + pollSealed(t, f.state, doc.Cluster().ClusterDNS, list.kind)
		}
	}
	return out
}

// restore restores the whole fleet to an earlier revision.
func (f *rolloutFleets) restore(t *rapid.T) {
	at := Revision(rapid.IntRange(1, int(f.state.Revision())).Draw(t, "restored"))
	before := f.past[at]
	f.log.past = f.pastOf(at)
	if !f.commit(t, fmt.Sprint("restore ", at), func(tx *Tx) error {
		_, err := NewBatch(tx, &f.log).Run([]api.Operation{{Op: "restore", Revision: int64(at)}})
		return err
	}) {
		return
	}
	f.ids = slices.Clone(before.ids) // also rollouts that an earlier restore deleted
	for bit := range f.ids {
		require.NotEqual(t, rolloutRunning, f.of(bit).State, "a restored rollout does not advance by itself")
	}
	f.without = maps.Clone(before.without)
	for mask, steps := range f.steps { // the other fleets have no later revisions either
		f.steps[mask] = maps.Clone(steps)
		maps.DeleteFunc(f.steps[mask], func(rev, _ Revision) bool { return rev > at })
	}
	served := polls(t, f.state)
	maps.DeleteFunc(served, func(at, _ string) bool { _, then := before.polls[at]; return !then }) // clusters that joined later
	require.Equal(t, before.polls, served, "a restore serves what was served at the revision")
}

// revert reverts a revision that changed more than rollouts, in all fleets.
func (f *rolloutFleets) revert(t *rapid.T) {
	rev := Revision(rapid.IntRange(1, int(f.state.Revision())).Draw(t, "reverted"))
	for mask := range f.without {
		if _, made := f.steps[mask][rev]; !made {
			return // a change of a rollout, or without an effect there
		}
	}
	op := api.Operation{Op: "revert", Revision: int64(rev)}
	if f.commit(t, fmt.Sprint("revert ", rev), func(tx *Tx) error { _, err := NewBatch(tx, &f.log).Run([]api.Operation{op}); return err }) {
		f.elsewhere(t, fmt.Sprint("revert ", rev), func(mask rolloutMask, w *world) func(*Tx) error {
			return func(tx *Tx) error {
				_, err := NewBatch(tx, &w.log).Run([]api.Operation{{Op: "revert", Revision: int64(f.steps[mask][rev])}})
				return err
			}
		})
	}
}
