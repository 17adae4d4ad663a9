package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// policed returns a fleet of four clusters, of which c2 and c3 have the tier prod, with policies.
func policed(t *testing.T, policies ...string) *world {
	t.Helper()
	w := tiers(t, prodLayer, baseLayer)
	for _, p := range policies {
		w.must(create(KindPolicy, p))
	}
	return w
}

const (
	noProd     = `{"id":"no-prod","match":{"selector":"tier=prod"},"rule":"effect.clusters.size() == 0","message":"'changes ' + effect.clusters.map(c, c.id)[0]","action":"deny"}`
	never      = `{"id":"never","rule":"false","action":"deny"}`
	oneCluster = `{"id":"one","rule":"effect.clusters.size() <= 1","message":"'changes ' + string(effect.clusters.size())","action":"deny"}`
)

// TestPolicyOnEveryPath: each way to change the answers to clusters passes the policies.
func TestPolicyOnEveryPath(t *testing.T) {
	t.Parallel()
	bump := patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`)
	for name, c := range map[string]struct {
		prepare, change func(w *world) func(*Tx) error
	}{
		"one document": {nil, func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"6.0.0"}`) }},
		"a batch": {nil, func(w *world) func(*Tx) error {
			return operations(w, patchOp(KindComponent, "loki", `{"component_version":"6.0.0"}`), bump)
		}},
		"files": {nil, func(w *world) func(*Tx) error {
			return operations(w, api.Operation{Op: "put", Kind: string(KindComponent), ID: "loki", Document: json.RawMessage(`{"id":"loki","component_version":"6.0.0"}`)})
		}},
		"a layer": {nil, func(*world) func(*Tx) error {
			return patch(KindLayer, "prod", `{"priority":30,"platform_components":[]}`)
		}},
		"a label": {nil, func(*world) func(*Tx) error { return patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`) }},
		"a revert": {
			func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"6.0.0"}`) },
			func(w *world) func(*Tx) error {
				return operations(w, api.Operation{Op: "revert", Revision: w.last()})
			},
		},
		"a restore": {
			func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"6.0.0"}`) },
			func(w *world) func(*Tx) error {
				w.log.past = w.pastOf(w.state.Revision() - 1)
				return operations(w, api.Operation{Op: "restore", Revision: w.last() - 1})
			},
		},
		"a stage": {
			func(w *world) func(*Tx) error {
				return rollOut(w, "r", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, bump, patchOp(KindComponent, "loki", `{"component_version":"6.0.0"}`))
			},
			func(*world) func(*Tx) error { return act("r", RolloutStart) },
		},
		"a source": {
			func(*world) func(*Tx) error {
				return create(KindSource, `{"id":"s","url":"oci://registry.example.com/x","tag":"prod"}`)
			},
			func(*world) func(*Tx) error {
				return func(tx *Tx) error {
					doc := FileDocument{Kind: KindComponent, ID: "loki", File: "loki.yaml", Fields: json.RawMessage(`{"id":"loki","component_version":"6.0.0"}`)}
					tx.Guard(Guard{PlanHash: "x"})
					_, err := tx.ApplyArtifact("s", FollowedArtifact{SourceArtifact{Digest: "sha256:a"}, []FileDocument{doc}}, tx.base.At(), true, func(*Tx, []api.Operation) error {
						return patch(KindComponent, "loki", `{"component_version":"6.0.0"}`)(tx)
					})
					tx.Guard(Guard{})
					return err
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := policed(t, `{"id":"later","rule":"true","action":"deny"}`)
			if c.prepare != nil {
				w.must(c.prepare(w))
			}
			change := c.change(w)
			_, err := w.try(change)
			require.NoError(t, err, "without the policy")
			w.must(put(KindPolicy, "later", `{"match":{"selector":"tier=prod"},"rule":"effect.clusters.size() == 0","message":"'changes ' + effect.clusters.map(c, c.id)[0]"}`))
			e := w.refused(CodePolicy, change)
			require.Equal(t, []Problem{{Kind: KindPolicy, ID: "later", Detail: "changes c2"}}, e.Problems)
			require.Equal(t, `policy "later": changes c2`, e.Detail)
		})
	}
}

// TestPolicyOnAutomation: a version that policies refuse to move is proposed once, with their ids, and a person decides.
func TestPolicyOnAutomation(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{"by versions": "change.kind != 'version'", "all": "false", "clusters": "effect.clusters.size() == 0"} {
		for _, action := range []string{"deny", "approve"} {
			t.Run(name+" "+action, func(t *testing.T) {
				t.Parallel()
				w := newVersioned(t, `{"range":">=17","action":"apply"}`)
				w.sees("grafana", "17.5.0")
				w.must(create(KindPolicy, fmt.Sprintf(`{"id":"p","rule":%q,"message":"'not on ' + string(effect.clusters.size())","action":%q}`, rule, action)))
				require.True(t, w.moves("grafana"))
				require.Equal(t, "17.0.0", w.version("grafana"))
				require.Equal(t, "proposed", w.rolloutState("auto-grafana"))
				require.Equal(t, "refused by p; new versions: grafana 17.5.0", w.state.docs[KindRollout]["auto-grafana"].rollout().Description)
				require.False(t, w.moves("grafana"), "it is proposed already")
				w.sees("grafana", "17.6.0")
				require.True(t, w.moves("grafana"), "a newer version replaces it")
				if name != "by versions" {
					w.refused(CodePolicy, act("auto-grafana", RolloutStart))
				}
			})
		}
	}
}

// TestPolicyOnStartOfVersions: a rollout of versions stays proposed while a policy refuses its start, and starts when none does.
func TestPolicyOnStartOfVersions(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":">=17","action":"rollout","strategy":"waves"}`)
	w.sees("grafana", "17.5.0")
	w.must(create(KindPolicy, `{"id":"p","rule":"effect.clusters.size() == 0","action":"deny"}`))
	require.True(t, w.moves("grafana"), "it is proposed")
	require.True(t, w.moves("grafana"), "its description names the policy")
	require.Equal(t, "refused by p; new versions: grafana 17.5.0", w.state.docs[KindRollout]["auto-grafana"].rollout().Description)
	require.False(t, w.moves("grafana"))
	require.Equal(t, "proposed", w.rolloutState("auto-grafana"))
	w.must(create(KindPolicy, never))
	held, err := w.try(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.5.0"}) })
	require.NoError(t, err, "no policy refuses to hold a version")
	require.Equal(t, rolloutAborted, held.State.docs[KindRollout]["auto-grafana"].rollout().State)
	w.must(remove(KindPolicy, "never", DeleteOptions{}))
	w.must(patch(KindPolicy, "p", `{"suspended":true}`))
	require.True(t, w.moves("grafana"))
	require.Equal(t, "running", w.rolloutState("auto-grafana"))
}

// TestPoliciesOfTheBaseDecide: a change cannot lift the policy that refuses it, nor take a cluster out of its match.
func TestPoliciesOfTheBaseDecide(t *testing.T) {
	t.Parallel()
	w := policed(t, noProd)
	change := patch(KindComponent, "loki", `{"component_version":"6.0.0"}`)
	w.refused(CodePolicy, both(remove(KindPolicy, "no-prod", DeleteOptions{}), change))
	w.refused(CodePolicy, both(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`), patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`), change))
	w.refused(CodePolicy, create(KindCluster, `{"id":"c9","cluster_dns":"c9.example.com","environment":"prod","labels":{"tier":"prod"}}`))
	w.refused(CodePolicy, patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))
	w.must(patch(KindCluster, "c0", `{"labels":{"other":"x"}}`))
	w.must(both(patch(KindPolicy, "no-prod", `{"suspended":true}`)))
	w.must(change)
}

// TestExemptFromPolicies: a rule that is always false locks nobody out.
func TestExemptFromPolicies(t *testing.T) {
	t.Parallel()
	w := policed(t)
	bump := patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`)
	w.must(create(KindAccess, `{"id":"a","subjects":[{"issuer":"corp","groups":["g"]}],"may":["write"]}`))
	w.must(create(KindSource, `{"id":"s","url":"oci://registry.example.com/x","tag":"prod"}`))
	w.must(rollOut(w, "r", devFirst, bump))
	w.must(act("r", RolloutStart))
	w.must(rollOut(w, "other", devFirst, patchOp(KindComponent, "loki", `{"component_version":"6.0.0"}`)))
	w.must(create(KindPolicy, never))
	for name, change := range map[string]func(*Tx) error{
		"a freeze":           create(KindFreeze, `{"id":"f","all":true,"reason":"x"}`),
		"access deleted":     remove(KindAccess, "a", DeleteOptions{}),
		"a source suspended": patch(KindSource, "s", `{"suspended":true}`),
		"a rollout paused":   act("r", RolloutPause),
		"a stage taken back": act("r", RolloutBack),
		"a rollout aborted":  act("r", RolloutAbort),
		"the policy deleted": remove(KindPolicy, "never", DeleteOptions{}),
		"the policy changed": patch(KindPolicy, "never", `{"rule":"true"}`),
		"a policy made":      create(KindPolicy, `{"id":"p","rule":"true","action":"warn"}`),
		"several of these":   both(create(KindFreeze, `{"id":"f","all":true,"reason":"x"}`), patch(KindSource, "s", `{"suspended":true}`)),
	} {
		_, err := w.try(change)
		require.NoError(t, err, name)
	}
	for name, change := range map[string]func(*Tx) error{
		"a component":                   patch(KindComponent, "loki", `{"description":"x"}`),
		"a change beside an abort":      both(act("r", RolloutAbort), create(KindComponent, `{"id":"new","component_path":"p","oci_url":"oci://registry.example.com/x"}`)),
		"a source with another tag":     patch(KindSource, "s", `{"tag":"dev","suspended":true}`),
		"access given":                  patch(KindAccess, "a", `{"may":["write","revert"]}`),
		"a component without a cluster": create(KindComponent, `{"id":"new","component_path":"p","oci_url":"oci://registry.example.com/x"}`),
		"the start of a stage":          act("other", RolloutStart),
	} {
		if e := w.refused(CodePolicy, change); e != nil {
			require.Equal(t, `policy "never": its rule is false for this change`, e.Detail, name)
		}
	}
}

// TestPolicyDuringARollout: the later stages obey a policy that was added, each with its own effect.
func TestPolicyDuringARollout(t *testing.T) {
	t.Parallel()
	w := policed(t)
	stages := []RolloutStage{{Name: "a", ClusterIDs: []string{"c0"}}, {Name: "b", ClusterIDs: []string{"c1", "c2"}}}
	w.must(rollOut(w, "r", stages, patchOp(KindComponent, "grafana", `{"component_path":"other"}`)))
	w.must(create(KindPolicy, oneCluster))
	w.must(act("r", RolloutStart))
	require.Equal(t, "changes 2", w.refused(CodePolicy, act("r", RolloutStart)).Problems[0].Detail)
	w.must(act("r", RolloutAbort))
}

// TestPolicyResults: warnings, messages, several failures, and errors of rules.
func TestPolicyResults(t *testing.T) {
	t.Parallel()
	w := policed(t,
		`{"id":"w","description":"Think twice.","rule":"false","action":"warn"}`,
		`{"id":"text","rule":"change.documents.all(d, d.kind != 'platform_component' || d.after.component_version != '9.9.9')","message":"'no ' + change.documents[0].after.component_version","action":"deny"}`,
		`{"id":"broken","rule":"change.documents.all(d, d.kind != 'platform_component' || d.after.missing == 1)","action":"deny"}`,
		`{"id":"own-registry","rule":"effect.clusters.all(c, c.lists.platform_components.all(e, e.after == null || e.after.source.oci_url.startsWith('https://charts.example.com')))","action":"deny"}`)
	change := patch(KindComponent, "loki", `{"component_version":"9.9.9","oci_url":"oci://elsewhere.example.com/x"}`)
	e := w.refused(CodePolicy, change)
	details := map[string]string{}
	for _, p := range e.Problems {
		details[p.ID] = p.Detail
	}
	require.Equal(t, map[string]string{
		"broken": "its rule cannot be evaluated on this change: no such key: missing", "own-registry": "its rule is false for this change", "text": "no 9.9.9",
	}, details)
	require.Contains(t, w.must(patch(KindCluster, "c0", `{"labels":{"other":"x"}}`)).Warnings, `policy "w": Think twice.`)

	plan := w.plan(change)
	require.Len(t, plan.Policies, 4)
	for _, v := range plan.Policies {
		require.True(t, v.Failed)
		if v.ID == "own-registry" {
			require.Equal(t, api.PolicyVerdict{ID: "own-registry", Action: "deny", Failed: true, Message: "its rule is false for this change", Clusters: 2, ClusterIds: []string{"c2", "c3"}}, v)
		}
	}
	require.Contains(t, plan.Warnings, `the change would be refused: policy "text": no 9.9.9`)
	require.Contains(t, plan.Warnings, `policy "w": Think twice.`)
}

// TestPolicyReadsInputs: before and after are what polls give, for clusters with layers, settings of their own, and for those that come and
// go.
func TestPolicyReadsInputs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*Tx) error
		holds  string
	}{
		{patch(KindComponent, "grafana", `{"component_path":"x"}`), `effect.clusters.size() == 4 && effect.clusters.all(c, c.lists.platform_components.all(e, e.id == 'grafana' && e.before.component_path != 'x' && e.after.component_path == 'x'))`},
		{patch(KindCluster, "c0", `{"patches":{"grafana":{"replicas":"7"}}}`), `effect.count == 1 && effect.clusters[0].lists.platform_components[0].after.patches.replicas == '7'`},
		{remove(KindCluster, "c2", DeleteOptions{}), `effect.count == 1 && effect.clusters[0].after == null && effect.clusters[0].removals > 0 && effect.clusters[0].lists.platform_components.exists(e, e.id == 'loki' && e.after == null)`},
		{create(KindCluster, `{"id":"c9","cluster_dns":"c9.example.com","environment":"prod","labels":{"tier":"prod"}}`), `effect.count == 1 && effect.clusters[0].before == null && effect.clusters[0].lists.platform_components.exists(e, e.id == 'loki' && e.before == null)`},
		{patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`), `effect.clusters[0].before.labels.tier == 'prod' && effect.clusters[0].labels.tier == 'dev' && effect.removals > 0`},
	} {
		w := policed(t)
		w.must(create(KindPolicy, fmt.Sprintf(`{"id":"p","rule":%q,"action":"deny"}`, "!("+c.holds+")")))
		tx := w.state.Begin()
		require.NoError(t, c.change(tx))
		tx.Guard(Guard{Off: true})
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
		require.NoError(t, err)
		plan, err := res.Plan()
		require.NoError(t, err)
		require.Len(t, plan.Policies, 1)
		require.Equal(t, "its rule is false for this change", plan.Policies[0].Message, c.holds)
	}
}

// TestWarningsUseNoStepsOfRefusals: policies that warn, whatever steps they take, make none fail that refuses.
func TestWarningsUseNoStepsOfRefusals(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat("1,", 49) + "1]"
	long := fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a + b + c + d > 0 && change.actor != 'nobody'))))", list)
	w := policed(t)
	for i := range 4 {
		w.must(create(KindPolicy, fmt.Sprintf(`{"id":"a%d","rule":%q,"action":"warn"}`, i, long)))
	}
	w.must(create(KindPolicy, `{"id":"refuses","rule":"change.actor == 'test'","action":"deny"}`))
	res := w.must(patch(KindComponent, "loki", `{"component_version":"6.0.0"}`))
	require.Contains(t, fmt.Sprint(res.Warnings), "steps on this change")
}
