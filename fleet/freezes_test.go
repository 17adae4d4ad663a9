package fleet

import (
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

// frozenByHand returns the live clusters that active freezes select, by freeze, with other code than the fleet's.
func frozenByHand(s *State, now time.Time) map[string][]string {
	out := map[string][]string{}
	for id, d := range s.docs[KindFreeze] {
		f := d.freeze()
		if f.From != nil && f.From.After(now) || f.Until != nil && !f.Until.After(now) {
			continue
		}
		for _, cluster := range s.All(KindCluster) {
			key, value, _ := strings.Cut(f.Selector, "=")
			if c := cluster.Cluster(); f.All || f.Selector != "" && (c.Labels[key] == value || key == "environment" && c.Environment == value || key == "id" && c.ID == value) {
				out[id] = append(out[id], cluster.ID)
			}
		}
	}
	return out
}

// answersTo returns the answers with inputs to polls by a name, with receipts; empty: none. An empty list of a resource type
// that is deleted becomes 404, which removes nothing: that is no difference.
func answersTo(t require.TestingT, s *State, dns string) string {
	cluster, ok := s.ByDNS(dns)
	if !ok {
		return ""
	}
	var out strings.Builder
	fmt.Fprintln(&out, cluster.ID)
	for _, list := range s.kinds.lists {
		if list.count(s.Effective(cluster)) > 0 {
			fmt.Fprintln(&out, list.endpoint, pollSealed(t, s, cluster.Cluster().ClusterDNS, list.kind))
		}
	}
	return out.String()
}

// forbidden returns the frozen clusters that a change must not make: those whose polls differ, and those that leave the
// fleet or the freeze.
func forbidden(t require.TestingT, base, next *State, now time.Time) []string {
	ids := map[string]bool{}
	for id, clusters := range frozenByHand(base, now) {
		f := base.docs[KindFreeze][id]
		after := &State{docs: map[Kind]map[string]*Document{KindFreeze: {id: f}, KindCluster: next.docs[KindCluster]}}
		still := frozenByHand(after, now)[id]
		for _, cluster := range clusters {
			dns := base.docs[KindCluster][cluster].Cluster().ClusterDNS
			if !slices.Contains(still, cluster) || answersTo(t, base, dns) != answersTo(t, next, dns) {
				ids[cluster] = true
			}
		}
	}
	return sortedKeys(ids)
}

// losing returns the frozen clusters on which the change would uninstall objects, whether or not an input goes: a resource
// type that exists again, or a name with installations that a cluster takes over.
func losing(base *State, res Result, now time.Time) (ids []string) {
	next := &State{docs: map[Kind]map[string]*Document{KindFreeze: base.docs[KindFreeze], KindCluster: res.State.docs[KindCluster]}}
	for _, s := range []*State{base, next} {
		for _, frozen := range frozenByHand(s, now) {
			for _, id := range frozen {
				name := lowerName(s.docs[KindCluster][id].Cluster())
				old, ok := base.ByDNS(name)
				if len(res.removals.byName[name]) > 0 && (s == base || !ok || old.Deleted()) {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

// frozenIDs returns the clusters that an error names; nil if it is no CodeFrozen.
func frozenIDs(err error) []string {
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeFrozen && e.Code != CodePinned {
		return nil
	}
	ids := map[string]bool{}
	for _, p := range e.Problems {
		ids[p.ID] = true
	}
	return sortedKeys(ids)
}

// randomFreeze draws a change of freezes.
func randomFreeze(t *rapid.T, now time.Time) (string, func(*Tx) error) {
	id := rapid.SampledFrom([]string{"f0", "f1", "f2"}).Draw(t, "freeze")
	body := rapid.SampledFrom([]string{`"all":true`, `"selector":"tier=prod"`, `"selector":"region=eu"`, `"selector":"id=c1"`, `"selector":"environment=dev"`, `"selector":"tier=none"`}).Draw(t, "frozen")
	for _, bound := range []string{"from", "until"} {
		if n := rapid.IntRange(-20, 20).Draw(t, bound); n > -10 {
			body += fmt.Sprintf(`,%q:%q`, bound, now.Add(time.Duration(n)*time.Minute).Format(time.RFC3339))
		}
	}
	return fmt.Sprint("freeze ", id, " ", body), func(tx *Tx) error {
		if _, err := tx.Get(KindFreeze, id); err == nil {
			_, err := tx.Delete(KindFreeze, id, DeleteOptions{})
			return err
		}
		return create(KindFreeze, fmt.Sprintf(`{"id":%q,"reason":"CHG-1",%s}`, id, body))(tx)
	}
}

// randomWrite draws a change of any kind.
func randomWrite(t *rapid.T, w *world) (string, func(*Tx) error) {
	cluster := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "of"))
	open := w.state.sorted(KindRollout, func(d *Document) bool { return d.rollout().open() })
	batch := func(ops ...api.Operation) (string, func(*Tx) error) { return asJSON(ops), operations(w, ops...) }
	switch n := rapid.IntRange(0, 19).Draw(t, "write"); {
	case n < 3:
		return randomFreeze(t, w.now)
	case n < 5 && len(open) > 0:
		d := rapid.SampledFrom(open).Draw(t, "rollout")
		action := rapid.SampledFrom([]string{RolloutStart, RolloutStart, RolloutStart, RolloutSkip, RolloutBack, RolloutPause, RolloutResume, RolloutAbort, RolloutComplete}).Draw(t, "action")
		return action + " " + d.ID, act(d.ID, action)
	case n == 5:
		id := fmt.Sprint("r", w.state.Revision())
		return "create " + id, rollOut(w, id, randomStages(t), stageableOperations(t)...)
	case n == 6:
		at := rapid.IntRange(1, int(w.state.Revision())).Draw(t, "restored")
		w.log.past = w.pastOf(Revision(at))
		return batch(api.Operation{Op: "restore", Revision: int64(at)})
	case n == 7:
		return batch(api.Operation{Op: "revert", Revision: int64(rapid.IntRange(1, int(w.state.Revision())).Draw(t, "reverted")), Prefer: "theirs"})
	case n == 8:
		return batch(stageableOperations(t)...)
	case n == 9:
		orphan := rapid.Bool().Draw(t, "orphan")
		return fmt.Sprint("delete ", cluster, orphan), remove(KindCluster, cluster, DeleteOptions{Orphan: orphan})
	case n == 10:
		return "rename " + cluster, patch(KindCluster, cluster, fmt.Sprintf(`{"cluster_dns":"new-%s.example.com"}`, cluster))
	case n == 11:
		body := fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","labels":{"tier":"dev"}}`, cluster, cluster)
		return "delete and create " + body, both(remove(KindCluster, cluster, DeleteOptions{Orphan: true}), create(KindCluster, body))
	case n == 12:
		body := rapid.SampledFrom([]string{`{"priority":5}`, `{"all":null,"selector":"tier=dev"}`, `{"deletion_protection":true}`, `{"namespaces":[]}`}).Draw(t, "layer")
		return "prod " + body, patch(KindLayer, "prod", body)
	case n == 13:
		return "delete quotas", remove(KindResourceType, "quotas", DeleteOptions{Cascade: true})
	default:
		return randomOther(t)
	}
}

// TestFrozenClustersAreServedTheSame: for random fleets, freezes and writes, while a freeze is active no answer to its
// clusters changes; a refused write names exactly the frozen clusters that it would change, and a plan names them too; an
// accepted one changes none. An override makes the write.
func TestFrozenClustersAreServedTheSame(t *testing.T) {
	t.Parallel()
	refused, accepted := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := tiers(t, prodLayer, baseLayer)
		w.state.rules.MaxRemovals = 1 << 20
		if _, freeze := randomFreeze(rt, w.now); true {
			if res, err := w.try(freeze); err == nil {
				w.keep(res)
			}
		}
		for range rapid.IntRange(3, 16).Draw(rt, "writes") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "minutes")) * time.Minute)
			base := w.state

			what, edit := randomWrite(rt, w)
			unguarded, failed := w.try(withoutGuard(edit))
			if failed != nil || len(unguarded.Commit.Changes) == 0 {
				continue
			}
			want := forbidden(rt, base, unguarded.State, w.now)
			want = append(want, losing(base, unguarded, w.now)...)
			slices.Sort(want)
			want = slices.Compact(want)
			plan, err := unguarded.Plan()
			require.NoError(rt, err, what)
			planned := map[string]bool{}
			for _, f := range plan.Frozen {
				for _, id := range f.ClusterIds {
					planned[id] = true
				}
			}
			require.Equal(rt, want, sortedKeys(planned), "the plan of: %s", what)
			tx := func(g Guard, reason string) (Result, error) {
				tx := base.Begin()
				if err := edit(tx); err != nil {
					return Result{}, err
				}
				tx.Guard(g)
				return tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test", Reason: reason})
			}
			if strings.HasPrefix(what, "create r") { // the hash is that of its operations
				plan.PlanHash = ""
			}
			res, err := tx(Guard{PlanHash: plan.PlanHash}, "")
			if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeConfirm {
				require.Empty(rt, want, what)
				continue
			}
			if len(want) > 0 {
				refused++
				require.Equal(rt, want, frozenIDs(err), "%s: %v", what, err)
				require.Same(rt, base, w.state)
				if rapid.IntRange(0, 3).Draw(rt, "override") > 0 {
					continue
				}
				names := slices.Sorted(maps.Keys(base.docs[KindFreeze]))
				_, err = tx(Guard{PlanHash: plan.PlanHash, OverrideFreezes: names}, "")
				require.ErrorContains(rt, err, "a reason is required", what)
				res, err = tx(Guard{PlanHash: plan.PlanHash, OverrideFreezes: names}, "CHG-2")
				require.NoError(rt, err, what)
				ops, _, _ := res.Commit.Requested()
				require.Equal(rt, "override", ops[0].Op, what)
			} else {
				accepted++
				require.NoError(rt, err, what)
			}
			require.Equal(rt, polls(rt, unguarded.State), polls(rt, res.State), what)
			followed, err := base.Apply(res.Commit)
			require.NoError(rt, err, what)
			require.Equal(rt, polls(rt, res.State), polls(rt, followed), what)
			w.keep(res)
		}
	})
	require.Positive(t, refused)
	require.Positive(t, accepted)
	t.Logf("%d writes refused, %d accepted", refused, accepted)
}

// TestEveryWriterObeysFreezes: each way to change the answers to a cluster is refused while it is frozen. Without the
// freeze each changes them, so the refusals prove something.
func TestEveryWriterObeysFreezes(t *testing.T) {
	t.Parallel()
	bump := patchOp(KindComponent, "grafana", `{"component_version":"18"}`)
	started := func(t *testing.T, w *world) {
		require.NoError(t, w.as("ann", rollOut(w, "r", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, patchOp(KindComponent, "loki", `{"component_version":"9"}`))))
		require.NoError(t, w.as("ann", act("r", RolloutStart)))
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, w *world)
		write  func(w *world) func(*Tx) error
	}{
		"component":    {write: func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"patches":{"a":"1"}}`) }},
		"namespace":    {write: func(*world) func(*Tx) error { return patch(KindNamespace, "team", `{"labels":{"a":"b"}}`) }},
		"role binding": {write: func(*world) func(*Tx) error { return patch(KindRoleBinding, "readers", `{"role":"edit"}`) }},
		"resource": {
			before: func(t *testing.T, w *world) {
				require.NoError(t, w.as("ann", operations(w, api.Operation{Op: "unassign_resource", Type: "quotas", Layers: []string{"prod"}, ResourceID: "small"})))
			},
			write: func(*world) func(*Tx) error { return patch(ResourceKind("quotas"), "small", `{"spec":{"cpu":7}}`) },
		},
		"resource type": {write: func(*world) func(*Tx) error {
			return patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"mem":{"type":"integer","default":7}}}}`)
		}},
		"deleted resource type": {write: func(*world) func(*Tx) error { return remove(KindResourceType, "quotas", DeleteOptions{Cascade: true}) }},
		"cascade":               {write: func(*world) func(*Tx) error { return remove(KindComponent, "loki", DeleteOptions{Cascade: true}) }},
		"layer": {write: func(*world) func(*Tx) error {
			return patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"4"}}}`)
		}},
		"priority": {write: func(*world) func(*Tx) error { return patch(KindLayer, "prod", `{"priority":5}`) }, before: func(t *testing.T, w *world) {
			require.NoError(t, w.as("ann", patch(KindLayer, "base", `{"patches":{"grafana":{"replicas":"2"}}}`)))
		}},
		"layer entry": {write: func(*world) func(*Tx) error {
			return func(tx *Tx) error { _, err := tx.AssignToLayer("prod", KindNamespace, "kept", nil); return err }
		}},
		"label":           {write: func(*world) func(*Tx) error { return patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`) }},
		"assignment":      {write: func(*world) func(*Tx) error { return assign("c3", KindNamespace, "kept", `{}`) }},
		"environment":     {write: func(*world) func(*Tx) error { return patch(KindCluster, "c3", `{"environment":"qa"}`) }},
		"rename":          {write: func(*world) func(*Tx) error { return patch(KindCluster, "c3", `{"cluster_dns":"other.example.com"}`) }},
		"decommissioning": {write: func(*world) func(*Tx) error { return remove(KindCluster, "c3", DeleteOptions{}) }},
		"decommissioning of nothing": {write: func(*world) func(*Tx) error { return remove(KindCluster, "c3", DeleteOptions{}) }, before: func(t *testing.T, w *world) {
			require.NoError(t, w.as("ann", both(remove(KindLayer, "base", DeleteOptions{}), remove(KindLayer, "prod", DeleteOptions{}))))
		}},
		"deletion": {write: func(*world) func(*Tx) error { return remove(KindCluster, "c3", DeleteOptions{Orphan: true}) }},
		"batch": {write: func(w *world) func(*Tx) error {
			return operations(w, bump, api.Operation{Op: "assign_namespace", ClusterIds: []string{"c3"}, NamespaceID: "kept"})
		}},
		"restore": {
			before: func(t *testing.T, w *world) {
				require.NoError(t, w.as("ann", patch(KindComponent, "loki", `{"component_version":"9"}`)))
			},
			write: func(w *world) func(*Tx) error {
				w.log.past = w.pastOf(1)
				return operations(w, api.Operation{Op: "restore", Revision: 1})
			},
		},
		"revert": {
			before: func(t *testing.T, w *world) {
				require.NoError(t, w.as("ann", patch(KindComponent, "loki", `{"component_version":"9"}`)))
			},
			write: func(w *world) func(*Tx) error {
				return operations(w, api.Operation{Op: "revert", Revision: int64(len(w.log.commits))})
			},
		},
		"start": {
			before: func(t *testing.T, w *world) {
				require.NoError(t, w.as("ann", rollOut(w, "r", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, bump2)))
			},
			write: func(*world) func(*Tx) error { return act("r", RolloutStart) },
		},
		"back":  {before: started, write: func(*world) func(*Tx) error { return act("r", RolloutBack) }},
		"abort": {before: started, write: func(*world) func(*Tx) error { return act("r", RolloutAbort) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, prodLayer, baseLayer)
			w.state.rules.MaxRemovals = 100
			if c.before != nil {
				c.before(t, w)
			}
			write := c.write(w)
			free, err := w.try(withoutGuard(write))
			require.NoError(t, err)
			require.NoError(t, w.as("ann", create(KindFreeze, `{"id":"stop","selector":"tier=prod","reason":"outage"}`)))
			base := w.state
			e := w.refused(CodeFrozen, write)
			require.Equal(t, forbidden(t, base, free.State, w.now), frozenIDs(e))
			require.Contains(t, e.Detail, `freeze "stop" (outage)`)
			require.NoError(t, w.as("ann", remove(KindFreeze, "stop", DeleteOptions{})))
			again, err := w.try(withoutGuard(write))
			require.NoError(t, err)
			require.Equal(t, polls(t, free.State), polls(t, again.State))

			// Outside the windows of a freeze, only changes that take back are made; within them, all.
			require.NoError(t, w.as("ann", create(KindFreeze, `{"id":"hours","selector":"tier=prod","reason":"hours","allow":[{"days":["mon"],"from":"10:00","to":"16:00"}]}`)))
			if takesBack := slices.Contains([]string{"revert", "back", "abort"}, name); takesBack {
				_, err := w.try(write)
				require.NoError(t, err)
			} else {
				e := w.refused(CodeFrozen, write)
				require.Equal(t, forbidden(t, base, free.State, w.now), frozenIDs(e))
				require.Contains(t, e.Detail, `freeze "hours" (hours) forbids at this time of the week until 2026-01-05T10:00:00Z`)
			}
			w.now = time.Date(2026, 1, 5, 15, 59, 0, 0, time.UTC)
			_, err = w.try(write)
			require.NoError(t, err)
			require.NoError(t, w.as("ann", patch(KindFreeze, "hours", `{"block":[{"from":"15:00","to":"15:30"},{"from":"15:59","to":"00:00"}]}`)))
			if !slices.Contains([]string{"revert", "back", "abort"}, name) {
				require.Contains(t, w.refused(CodeFrozen, write).Detail, "until 2026-01-12T10:00:00Z", "block wins")
			}
		})
	}
}

var bump2 = patchOp(KindComponent, "loki", `{"component_version":"9"}`)

// TestFreezeOfNoCluster: a selector with a typing error would freeze nothing, so a freeze without clusters is a warning.
func TestFreezeOfNoCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"a","cluster_dns":"a.example.com","environment":"prod"}`)
	const warning = `freeze "f" matches no cluster`
	freeze := func(selector string) func(*Tx) error {
		return create(KindFreeze, `{"id":"f","reason":"CHG-1","selector":"`+selector+`"}`)
	}
	require.Contains(t, w.plan(freeze("env=prod")).Warnings, warning)
	require.NotContains(t, w.plan(freeze("environment=prod")).Warnings, warning)
	require.NotContains(t, w.plan(create(KindFreeze, `{"id":"f","reason":"CHG-1","all":true}`)).Warnings, warning)
}
