package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/policy"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// propertyRules are the rules from which the policies of TestPoliciesAreObeyed are drawn.
var propertyRules = []string{
	"effect.count <= 1",
	"effect.clusters.all(c, c.id != 'k0')",
	"effect.clusters.all(c, c.before != null && c.after != null)",
	"effect.clusters.all(c, c.before == null || c.after == null || c.before.labels == c.after.labels)",
	"effect.clusters.all(c, matchesLabels(c.labels, 'tier notin (prod)'))",
	"effect.removals + recent.removals <= 1",
	"effect.count + recent.count <= 3",
	"effect.clusters.all(c, c.environment != 'prod' || c.removals == 0)",
	"effect.clusters.all(c, c.lists.namespaces.all(e, e.after != null))",
	"effect.clusters.all(c, c.lists.platform_components.all(e, !semver(e.after.component_version, '>=2')))",
	"effect.clusters.all(c, c.lists.platform_components.all(e, e.after.source.oci_tag != 'v2'))",
	"effect.clusters.all(c, c.lists.platform_components.all(e, e.before == null || e.after == null || e.before.patches == e.after.patches))",
	"effect.clusters.all(c, c.lists.platform_components.size() + c.lists.namespaces.size() + c.lists.rolebindings.size() <= 2)",
	"effect.clusters.all(c, c.lists.rolebindings.all(e, e.after.role == '' || e.after.subjects.all(s, s in e.before.subjects)))",
	"!change.documents.exists(d, d.kind == 'platform_component')",
	"change.documents.all(d, d.action != 'delete')",
	"change.documents.all(d, d.kind != 'cluster' || d.before == null || d.after == null || d.before.environment == d.after.environment)",
	"change.kind != 'rollout' || effect.count <= 1",
	"change.kind in ['change', 'rollout']",
	"change.source == '' && change.rollout != 'r'",
}

// propertyMatches are the matches of these policies, with a function that reports whether they hold.
var propertyMatches = map[string]func(*policy.Version) bool{
	"":                                   nil,
	`"match":{"environments":["prod"]},`: func(v *policy.Version) bool { return v.Environment == "prod" },
	`"match":{"selector":"tier=dev"},`:   func(v *policy.Version) bool { return v.Labels["tier"] == "dev" },
}

// propertyAction is a random change, whatever makes it.
type propertyAction struct {
	name, kind, rollout, source string
	exempt                      bool
	edit                        func(*Tx) error
}

// policyFleet is a fleet with random policies.
type policyFleet struct {
	*world
	matches  map[string]func(*policy.Version) bool // by the id of the policy
	removals int                                   // of all commits, which are at the same time
	changed  map[string]int                        // the changed clusters that each policy has seen
	seen     map[string]int                        // by the last change
	known    []KnownVersion
}

func newPolicyFleet(rt *rapid.T, t *testing.T) *policyFleet {
	f := &policyFleet{world: drifted(rt, t, 0), matches: map[string]func(*policy.Version) bool{}, changed: map[string]int{}, known: seenVersions("1.0.0")}
	f.must(both(
		patch(KindComponent, "c0", `{"component_version":"1.0.0","version_policies":{"catalog":{"range":">=1","action":"apply"}}}`),
		patch(KindCluster, "k0", `{"labels":{"tier":"dev"}}`), patch(KindCluster, "k1", `{"labels":{"tier":"prod"},"environment":"prod"}`),
		create(KindLayer, `{"id":"l","priority":10,"selector":"tier=dev","namespaces":[{"id":"n0"}]}`),
		create(KindSource, `{"id":"s","url":"oci://registry.example.com/x","tag":"prod"}`)))
	if rapid.Bool().Draw(rt, "never") {
		f.prepareExempt(rt)
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(propertyRules)-1), 1, 3, rapid.ID).Draw(rt, "policies") {
		id, match := fmt.Sprint("p", i), rapid.SampledFrom(slices.Sorted(maps.Keys(propertyMatches))).Draw(rt, "match")
		f.must(create(KindPolicy, fmt.Sprintf(`{"id":%q,%s"rule":%q,"action":%q}`, id, match, propertyRules[i], rapid.SampledFrom([]string{"deny", "approve"}).Draw(rt, "action"))))
		f.matches[id] = propertyMatches[match]
	}
	return f
}

// prepareExempt adds what exempt changes take away, and then a policy that refuses everything else.
func (f *policyFleet) prepareExempt(rt *rapid.T) {
	f.must(both(create(KindAccess, `{"id":"a","subjects":[{"token":"t0"}],"may":["read"]}`), create(KindFreeze, `{"id":"old","selector":"tier=none","reason":"x"}`)))
	f.must(create(KindComponent, `{"id":"c9","component_path":"p","oci_url":"https://charts.example.com"}`))
	f.must(assign("k0", KindComponent, "c9", ""))
	for i := range 2 {
		f.must(func(tx *Tx) error {
			_, err := tx.CreateToken(NewToken{ID: fmt.Sprint(i), Name: fmt.Sprint("t", i), Role: RoleRead}, f.now)
			return err
		})
	}
	f.must(rollOut(f.world, "running", []RolloutStage{{Name: "one", ClusterIDs: []string{"k0"}}}, patchOp(KindComponent, "c9", `{"oci_tag":"v9"}`)))
	f.must(act("running", RolloutStart))
	f.must(create(KindPolicy, fmt.Sprintf(`{"id":"never","rule":"false","action":%q}`, rapid.SampledFrom([]string{"deny", "approve"}).Draw(rt, "action"))))
	f.matches["never"] = nil
}

// exemptAction draws a change that no policy may refuse, or one that is similar and that policies may refuse.
func (f *policyFleet) exemptAction(rt *rapid.T) propertyAction {
	freeze := create(KindFreeze, fmt.Sprintf(`{"id":"f%d","selector":"tier=none","reason":"x"}`, f.last()))
	suspend := patch(KindComponent, "c0", `{"version_policies":{"catalog":{"suspended":true}}}`)
	bump := patch(KindComponent, "c1", fmt.Sprintf(`{"oci_tag":"v%d"}`, f.last()))
	policy := f.state.All(KindPolicy)[0].ID
	exempt := map[string]func(*Tx) error{
		"freeze":         freeze,
		"token revoked":  remove(KindToken, rapid.SampledFrom([]string{"0", "1"}).Draw(rt, "token"), DeleteOptions{}),
		"access removed": remove(KindAccess, "a", DeleteOptions{}),
		"sessions ended": func(tx *Tx) error { return tx.EndSessions("corp", fmt.Sprint("u", f.last()), f.now) },
		"source":         patch(KindSource, "s", `{"suspended":true}`),
		"versions":       suspend,
		"policy":         patch(KindPolicy, policy, fmt.Sprintf(`{"description":"%d"}`, f.last())),
		"several":        both(freeze, suspend, patch(KindSource, "s", `{"suspended":true}`)),
	}
	others := map[string]func(*Tx) error{
		"freeze and more":   both(freeze, bump),
		"freeze ended":      remove(KindFreeze, "old", DeleteOptions{}),
		"freeze changed":    patch(KindFreeze, "old", fmt.Sprintf(`{"reason":"%d"}`, f.last())),
		"access created":    create(KindAccess, fmt.Sprintf(`{"id":"a%d","subjects":[{"token":"t0"}],"may":["read"]}`, f.last())),
		"source and more":   patch(KindSource, "s", fmt.Sprintf(`{"suspended":true,"tag":"v%d"}`, f.last())),
		"source resumed":    patch(KindSource, "s", `{"suspended":false}`),
		"versions and more": both(suspend, bump),
		"policy and more":   both(patch(KindPolicy, policy, fmt.Sprintf(`{"description":"%d"}`, f.last())), bump),
		"token created": func(tx *Tx) error {
			_, err := tx.CreateToken(NewToken{ID: fmt.Sprint(f.last()), Name: fmt.Sprint("n", f.last()), Role: RoleRead}, f.now)
			return err
		},
	}
	all := others
	isExempt := rapid.Bool().Draw(rt, "exempt")
	if isExempt {
		all = exempt
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(rt, "exempt change")
	return propertyAction{name: name, kind: "change", exempt: isExempt, edit: all[name]}
}

// action draws a change: of one document, of a batch, of files, of layers and labels, one that takes changes back, a step of a rollout, a
// pin, a source, or a new version.
func (f *policyFleet) action(rt *rapid.T) propertyAction {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(rt, "pick") }
	cluster := pick("k0", "k1", "k2")
	switch n := rapid.IntRange(0, 25).Draw(rt, "action"); n {
	case 0:
		ops := []api.Operation{
			patchOp(KindComponent, "c1", fmt.Sprintf(`{"oci_tag":%q}`, pick("v1", "v2"))),
			{Op: "put", Kind: string(KindNamespace), ID: "n0", Document: json.RawMessage(fmt.Sprintf(`{"id":"n0","labels":{"x":%q}}`, pick("1", "2")))},
			patchOp(KindCluster, cluster, fmt.Sprintf(`{"namespaces":%s}`, pick(`[]`, `[{"id":"n0"}]`))),
		}
		return propertyAction{name: "batch", kind: "change", edit: operations(f.world, ops[:rapid.IntRange(1, 3).Draw(rt, "operations")]...)}
	case 1:
		return propertyAction{name: "layer", kind: "change", edit: patch(KindLayer, "l", pick(`{"namespaces":[]}`, `{"namespaces":[{"id":"n0"}]}`, `{"platform_components":[{"id":"c1","component_version":"2.1.0"}]}`, `{"selector":"tier in (dev,prod)"}`))}
	case 2:
		return propertyAction{name: "relabel", kind: "change", edit: patch(KindCluster, cluster, pick(`{"labels":{"tier":"dev"}}`, `{"labels":{"tier":"prod"}}`, `{"environment":"dev"}`, `{"environment":"prod"}`))}
	case 3:
		return propertyAction{name: "subjects", kind: "change", edit: patch(KindRoleBinding, "b0", pick(`{"subjects":[{"kind":"User","name":"jo"}]}`, `{"subjects":[{"kind":"User","name":"jo"},{"kind":"User","name":"al"}]}`))}
	case 4, 24, 25:
		return propertyAction{name: "revert", kind: "revert", edit: operations(f.world, api.Operation{Op: "revert", Revision: f.last() - int64(rapid.IntRange(0, 1).Draw(rt, "back"))})}
	case 5:
		at := f.state.Revision() - Revision(rapid.IntRange(1, 3).Draw(rt, "back"))
		f.log.past = f.pastOf(at)
		return propertyAction{name: "restore", kind: "restore", edit: operations(f.world, api.Operation{Op: "restore", Revision: int64(at)})}
	case 6, 7:
		stages := []RolloutStage{{Name: "one", ClusterIDs: []string{"k0"}}, {Name: "rest", All: true}}
		op := patchOp(KindComponent, pick("c0", "c1"), fmt.Sprintf(`{"oci_tag":%q}`, pick("v1", "v2", "v3")))
		return propertyAction{name: "rollout", kind: "change", edit: rollOut(f.world, fmt.Sprint("r", f.last()), stages, op)}
	case 8, 9, 10, 11:
		do, id := pick(RolloutStart, RolloutStart, RolloutBack, RolloutAbort, RolloutPause, RolloutResume, RolloutComplete), ""
		for _, d := range f.state.All(KindRollout) {
			if d.rollout().open() {
				id = d.ID
			}
		}
		exempt := slices.Contains([]string{RolloutBack, RolloutAbort, RolloutPause}, do)
		return propertyAction{name: do, kind: "rollout", rollout: id, exempt: exempt, edit: act(id, do)}
	case 12:
		return propertyAction{name: "pin", kind: "change", edit: patch(KindCluster, cluster, pick(`{"pinned":{"reason":"x"}}`, `{"pinned":null}`))}
	case 13:
		fields := json.RawMessage(fmt.Sprintf(`{"id":"c1","component_version":%q}`, pick("1.1.0", "2.0.0")))
		return propertyAction{name: "source", kind: "source", source: "s", edit: func(tx *Tx) error {
			tx.Guard(Guard{PlanHash: "x"})
			_, err := tx.ApplyArtifact("s", FollowedArtifact{SourceArtifact{Digest: fmt.Sprint("sha256:", f.last())}, []FileDocument{{Kind: KindComponent, ID: "c1", File: "c1.yaml", Fields: fields}}}, tx.base.At(), true, func(*Tx, []api.Operation) error {
				return patch(KindComponent, "c1", string(fields))(tx)
			})
			return err
		}}
	case 14:
		f.known = append(f.known, seenVersions(pick("1.1.0", "1.2.0", "2.0.0"))...)
		known := f.known
		return propertyAction{name: "version", kind: "version", edit: func(tx *Tx) error {
			changed, err := tx.MoveVersions("c0", func(string) []KnownVersion { return known }, f.now, func(*Tx, string, *Subject) {})
			if err == nil && !changed {
				err = errors.New("no new version")
			}
			return err
		}}
	case 15: // the policies of the base decide
		id := slices.Sorted(maps.Keys(f.matches))[0]
		return propertyAction{name: "lifted", kind: "change", edit: both(patch(KindPolicy, id, `{"suspended":true}`), patch(KindComponent, "c1", fmt.Sprintf(`{"oci_tag":%q}`, pick("v1", "v2"))))}
	case 16, 17, 18, 19, 20, 21:
		return f.exemptAction(rt)
	default:
		edit, what := randomEdit(rt)
		return propertyAction{name: what, kind: "change", edit: edit}
	}
}

// finish makes the change of an action.
func (f *policyFleet) finish(a propertyAction, guard Guard) (Result, error) {
	tx := f.state.Begin()
	if err := a.edit(tx); err != nil {
		return Result{}, err
	}
	tx.Guard(guard)
	actor := "test"
	if a.kind == "version" {
		actor = VersionAutomation
	}
	return tx.Finish(Commit{ID: uuid.New(), At: f.now, Actor: actor})
}

// servedList is what a cluster is served by one list, without receipts.
type servedList struct {
	ids    []string // in order
	inputs map[string]map[string]any
}

// servedTo returns the lists that a cluster is served; nil: no cluster has the name.
func servedTo(t require.TestingT, s *State, dns string) (*Document, map[Kind]servedList) {
	cluster, ok := s.ByDNS(dns)
	if !ok || cluster.Deleted() {
		return nil, nil
	}
	out := map[Kind]servedList{}
	for _, list := range s.kinds.lists {
		one := servedList{inputs: map[string]map[string]any{}}
		for _, in := range inputsOf(t, s, dns, list.kind) {
			id, _ := in["id"].(string)
			delete(in, "receipt")
			delete(in, "values_json")
			one.ids = append(one.ids, id)
			one.inputs[id] = in
		}
		out[list.kind] = one
	}
	return cluster, out
}

// bruteEffect is the effect of a change, found by comparing what all clusters are served before and after it. The removals are those
// of the guard.
func bruteEffect(t require.TestingT, base *State, res Result) *policy.Effect {
	names := map[string]bool{}
	for _, s := range []*State{base, res.State} {
		for name := range s.byDNS {
			names[name] = true
		}
	}
	out := &policy.Effect{}
	for _, name := range sortedKeys(names) {
		was, before := servedTo(t, base, name)
		is, after := servedTo(t, res.State, name)
		c := &policy.Cluster{Before: bruteVersion(base, was), After: bruteVersion(res.State, is), Removals: len(res.removals.byName[name])}
		if is != nil {
			c.ID = is.ID
		} else if was != nil {
			c.ID = was.ID
		}
		if was == nil && is == nil || reflect.DeepEqual(before, after) && c.Removals == 0 && reflect.DeepEqual(c.Before, c.After) {
			continue
		}
		c.Lists = &policy.Lists{
			Components:   bruteEntries[api.FluxPlatformComponent](t, before[KindComponent], after[KindComponent]),
			Namespaces:   bruteEntries[api.FluxNamespace](t, before[KindNamespace], after[KindNamespace]),
			RoleBindings: bruteEntries[api.FluxRoleBinding](t, before[KindRoleBinding], after[KindRoleBinding]),
		}
		out.Clusters = append(out.Clusters, c)
		out.Removals += c.Removals
	}
	return out
}

// bruteVersion returns a cluster as policies see it: a pinned one has the labels and the environment of its pin.
func bruteVersion(s *State, d *Document) *policy.Version {
	if d == nil {
		return nil
	}
	c := s.Effective(d).cluster
	return &policy.Version{Environment: c.Environment, Labels: maps.Clone(c.Labels)}
}

// bruteEntries returns the inputs of a list that differ, without the part that is the cluster's.
func bruteEntries[T any](t require.TestingT, before, after servedList) (out []*policy.Entry[T]) {
	ids := map[string]bool{}
	for _, id := range slices.Concat(before.ids, after.ids) {
		ids[id] = true
	}
	own := func(in map[string]any) (map[string]any, *T) {
		if in == nil {
			return nil, nil
		}
		in = maps.Clone(in)
		delete(in, "cluster")
		body, err := json.Marshal(in)
		require.NoError(t, err)
		var typed T
		require.NoError(t, json.Unmarshal(body, &typed))
		return in, &typed
	}
	for _, id := range sortedKeys(ids) {
		was, typedBefore := own(before.inputs[id])
		is, typedAfter := own(after.inputs[id])
		if !reflect.DeepEqual(was, is) {
			out = append(out, &policy.Entry[T]{ID: id, Before: typedBefore, After: typedAfter})
		}
	}
	return out
}

// denied returns the policies of the base that a change breaks, by the effect on what clusters are served.
func (f *policyFleet) denied(t require.TestingT, a propertyAction, res Result) (ids []string) {
	if len(res.Commit.Changes) == 0 {
		return nil
	}
	effect := bruteEffect(t, f.state, res)
	change := &policy.Change{Kind: a.kind, Actor: res.Commit.Actor, Rollout: a.rollout, Source: a.source}
	for _, ch := range res.Commit.Changes {
		if !slices.Contains([]Kind{KindBudget, KindOrphan, KindPin, KindVersionAutomation, KindSourceState, KindSourceDocuments}, ch.Kind) {
			change.Documents = append(change.Documents, &policy.Document{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action(), Before: ch.Before, After: ch.After})
		}
	}
	f.seen = map[string]int{}
	for _, d := range f.state.All(KindPolicy) {
		if d.Policy().Suspended {
			continue
		}
		seen := &policy.Effect{}
		for _, c := range effect.Clusters {
			if match := f.matches[d.ID]; match == nil || c.Before != nil && match(c.Before) || c.After != nil && match(c.After) {
				seen.Clusters = append(seen.Clusters, c)
				seen.Removals += c.Removals
			}
		}
		if f.seen[d.ID] = len(seen.Clusters); f.matches[d.ID] != nil && len(seen.Clusters) == 0 {
			continue
		}
		program, err := policy.Compile(d.Policy().Rule, "")
		require.NoError(t, err)
		verdict, err := program.Eval(f.t.Context(), &policy.Input{
			Change: change, Effect: func() (*policy.Effect, error) { return seen, nil }, Recent: policy.Recent{Removals: f.removals, Count: f.changed[d.ID]}, Now: f.now,
		}, policy.NewBudget())
		if err != nil || verdict.Failed {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// TestPoliciesAreObeyed: no accepted change, but the exempt ones, has an effect that a policy of its base denies, whatever makes it; and no
// other change is refused. The effect is found by comparing what clusters are served.
func TestPoliciesAreObeyed(t *testing.T) {
	t.Parallel()
	refused, accepted, exempt := map[string]int{}, map[string]int{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		f := newPolicyFleet(rt, t)
		for range 8 {
			a := f.action(rt)
			var want []string
			f.seen = nil
			if a.kind != "version" {
				unguarded, err := f.finish(a, Guard{Off: true})
				if err != nil {
					continue
				}
				want = f.denied(rt, a, unguarded)
				changes := unguarded.Commit.Changes // a restore may only suspend the source
				a.exempt = a.exempt || len(changes) == 1 && changes[0].Kind == KindSource && string(changes[0].After) == `{"id":"s","suspended":true,"tag":"prod","url":"oci://registry.example.com/x"}`
			}
			if a.exempt && len(want) > 0 {
				want = nil
				exempt[a.name]++
			}
			res, err := f.finish(a, Guard{})
			if e, ok := errors.AsType[*Error](err); ok && e.Code == CodePolicy {
				var got []string
				for _, p := range e.Problems {
					got = append(got, p.ID)
				}
				require.Equal(rt, want, got, a.name)
				refused[a.kind]++
				continue
			}
			if err != nil {
				continue
			}
			proposed := slices.ContainsFunc(res.Commit.Changes, func(ch Change) bool { return ch.Kind == KindRollout && ch.ID == "auto-c0" })
			if a.kind == "version" && proposed { // nothing changes
				require.Empty(rt, bruteEffect(rt, f.state, res).Clusters)
			} else if a.kind == "version" {
				want = f.denied(rt, a, res)
			}
			require.Empty(rt, want, a.name)
			if len(res.Commit.Changes) > 0 {
				accepted[a.kind]++
			}
			f.removals += res.removals.count
			if !a.exempt && len(res.Commit.Changes) > 0 {
				for id, n := range f.seen {
					f.changed[id] += n
				}
			}
			f.keep(res)
		}
	})
	t.Logf("accepted %v, refused %v, exempt from a refusal %v", accepted, refused, exempt)
	for _, kind := range []string{"change", "rollout", "revert", "version"} {
		require.Positive(t, accepted[kind], kind)
	}
	require.Positive(t, refused["change"])
	require.Greater(t, len(exempt), 4, "of the changes of exemptAction and of rollouts")
}
