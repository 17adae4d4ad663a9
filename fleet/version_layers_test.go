package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// newLayered returns the fleet of newVersioned with a policy of each of two layers: patches by themselves in base, minors proposed in prod.
func newLayered(t *testing.T) *versioned {
	t.Helper()
	w := newVersioned(t, `{}`)
	w.must(patch(KindLayer, "base", `{"overrides":{"grafana":{"component_version":"17.1.0"}}}`))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/base":{"range":"~17.1","action":"apply"},"layer/prod":{"range":"^17"}}}`))
	return w
}

// layerVersion returns the version of grafana in a layer.
func (w *versioned) layerVersion(layer string) string {
	return w.state.docs[KindLayer][layer].layer().Overrides["grafana"].ComponentVersion
}

// TestPoliciesOfLayers: each policy moves the version of its layer, in its range and with its action, from the lowest layer on.
func TestPoliciesOfLayers(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	require.Equal(t, []string{"grafana@base", "grafana@prod"}, VersionMoves(w.state))
	require.Equal(t, VersionMoves(w.state), VersionMovesOf(w.state.docs[KindComponent]["grafana"].Component()))
	w.sees("grafana", "17.1.5", "17.2.0", "18.0.0")
	require.True(t, w.moves("grafana@base"))
	require.Equal(t, "17.1.5", w.layerVersion("base"))
	require.Equal(t, "17.1.0", w.layerVersion("prod"))
	require.True(t, w.moves("grafana@prod"))
	require.Equal(t, "17.1.0", w.layerVersion("prod"))
	r := w.state.docs[KindRollout]["auto-grafana.prod"].rollout()
	require.Equal(t, []rolloutVersion{{Component: "grafana", Version: "17.2.0"}}, r.Versions)
	require.Equal(t, "grafana@prod", r.Automation)
	require.Equal(t, "17.0.0", w.version("grafana"), "the catalog has no policy")
	for _, move := range []string{"grafana@base", "grafana@prod", "grafana", "grafana@none", "none"} {
		require.False(t, w.moves(move), move)
	}
	// A rollout of one layer does not stop the other, and has the name of no other component.
	w.sees("grafana", "17.1.6")
	require.True(t, w.moves("grafana@base"))
	require.Equal(t, "auto-grafana.prod", EvaluateVersions(w.state, "grafana", "layer/prod", nil, w.now).Rollout)
	require.Empty(t, EvaluateVersions(w.state, "grafana", "layer/base", nil, w.now).Rollout)
	// A rollout of a person with the name of one of a policy is not that of the policy.
	w.must(roll(w.world, NewRollout{ID: "auto-grafana.base", Operations: []api.Operation{bumpGrafana}}))
	require.Empty(t, EvaluateVersions(w.state, "grafana", "layer/base", nil, w.now).Rollout)
	w.must(act("auto-grafana.base", RolloutAbort))
	// The precedence of layers decides, not their names.
	require.Equal(t, []string{"layer/base", "layer/prod"}, VersionTargets(w.state, w.state.docs[KindComponent]["grafana"].Component()))
	w.must(act("auto-grafana.prod", RolloutAbort))
	w.must(patch(KindLayer, "base", `{"priority":900}`))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~17"}}}`))
	require.Equal(t, []string{"grafana", "grafana@prod", "grafana@base"}, VersionMoves(w.state))
}

// TestHoldInOneLayer: a version that is taken back in one layer is held for the component, so in every layer.
func TestHoldInOneLayer(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/base":{"range":"^17"}}}`))
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana@base"))
	require.Equal(t, "17.2.0", w.layerVersion("base"))
	require.True(t, w.moves("grafana@prod"))
	w.must(patch(KindLayer, "base", `{"overrides":{"grafana":{"component_version":"17.1.0"}}}`))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	w.must(act("auto-grafana.prod", RolloutAbort))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	require.False(t, w.moves("grafana@base"))
	require.False(t, w.moves("grafana@prod"))

	// A move in one layer takes nothing back in another that has an older version.
	w.sees("grafana", "17.3.0", "17.4.0")
	require.True(t, w.moves("grafana@base"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.3.0"}}}`))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	require.Equal(t, "17.4.0", w.layerVersion("base"))
	// A layer whose setting is removed takes nothing back from the other.
	w.must(patch(KindLayer, "base", `{"overrides":{"grafana":null}}`))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.3.1"}}}`))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	w.must(patch(KindLayer, "base", `{"overrides":{"grafana":{"component_version":"17.3.1"}}}`))
	require.Equal(t, []string{"17.2.0", "17.4.0"}, w.held("grafana"))

	// A hold by a person aborts the proposals to the version in every layer.
	w.sees("grafana", "17.5.0")
	require.True(t, w.moves("grafana@prod"))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/base":{"action":"propose"}}}`))
	require.True(t, w.moves("grafana@base"))
	w.must(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.5.0"}) })
	for _, id := range []string{"auto-grafana.prod", "auto-grafana.base"} {
		require.Equal(t, "aborted", w.rolloutState(id))
	}
}

// TestDigestsInLayers: a digest that one layer has replaced is no step back in another that is behind.
func TestDigestsInLayers(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{}`)
	w.must(patch(KindComponent, "grafana", `{"image_policies":[{"name":"app","image":"app","track":{"tag":"latest"},"writes":{"tag":"{tag}@{digest}"}}],"version_policies":{"layer/base":{"action":"apply"},"layer/prod":{"action":"apply"}}}`))
	at := func(n int) {
		w.known["grafana"] = []KnownVersion{{Image: "app", Version: "latest", Digest: imageDigest(n)}}
	}
	at(1)
	require.True(t, w.moves("grafana@base"))
	at(2)
	require.True(t, w.moves("grafana@base"))
	at(1)
	require.False(t, w.moves("grafana@base"), "the tag has moved back")
	require.True(t, w.moves("grafana@prod"), "it had neither")
	at(2)
	require.True(t, w.moves("grafana@prod"))
	require.Empty(t, w.held("grafana"))
	require.False(t, w.moves("grafana@base"))

	// With a policy of the catalog, a layer that does not set the image leaves it to the catalog.
	w.must(patch(KindLayer, "prod", `{"patches":{"grafana":{"tag":null}}}`))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"apply"}}}`))
	require.True(t, w.moves("grafana"))
	require.False(t, w.moves("grafana@prod"))
	require.Contains(t, EvaluateVersions(w.state, "grafana", "layer/prod", w.known["grafana"], w.now).Images[0].Problem, "have that of the catalog")
}

// TestConflictsOfPolicies: a policy whose moves could have no effect is refused, or says so.
func TestConflictsOfPolicies(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	for target, want := range map[string]string{
		"base": "is neither catalog nor layer/", "layer/": "is neither catalog nor layer/", "cluster/c0": "is neither catalog nor layer/", "layer/none": `there is no layer "none"`, "": "is neither",
	} {
		err := w.refused(CodeInvalid, patch(KindComponent, "grafana", fmt.Sprintf(`{"version_policies":{%q:{"range":"1.x"}}}`, target)))
		require.Equal(t, "/version_policies/"+strings.ReplaceAll(target, "/", "~1"), err.Problems[0].Pointer)
		require.Contains(t, err.Problems[0].Detail, want)
	}
	var many []string
	for i := range maxVersionPolicies {
		many = append(many, fmt.Sprintf(`"layer/l%d":{}`, i))
	}
	require.Contains(t, w.refused(CodeInvalid, patch(KindComponent, "grafana", `{"version_policies":{`+strings.Join(many, ",")+`}}`)).Error(), "version policies")

	warning := func(target string) string {
		report := EvaluateVersions(w.state, "grafana", target, w.known["grafana"], w.now)
		_, warning := VersionPins(w.state, &report)
		return warning
	}
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":null}}`))
	require.Contains(t, EvaluateVersions(w.state, "grafana", "layer/prod", nil, w.now).Chart.Problem, "sets no version of the component")
	require.Empty(t, warning("layer/base"))
	require.Empty(t, warning("layer/prod"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.1.0"}},"selector":null,"all":true}`))
	require.Equal(t, "a move has no effect: every cluster with the component gets its version from layer/prod", warning("layer/base"))
	require.Empty(t, warning("layer/prod"))

	// A layer with a policy is no pin of another, and clusters outside a layer do not matter for it.
	pins := func(target string) []VersionPin {
		report := EvaluateVersions(w.state, "grafana", target, w.known["grafana"], w.now)
		pins, _ := VersionPins(w.state, &report)
		return pins
	}
	w.sees("grafana", "17.1.5")
	require.Empty(t, pins("layer/base"))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":null}}`))
	require.Equal(t, []VersionPin{{KindLayer, "prod", "17.1.0"}}, pins("layer/base"))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":{"range":"^17"}}}`))
	w.must(patch(KindLayer, "prod", `{"selector":"tier=prod","all":null}`))
	for _, id := range []string{"c2", "c3"} {
		require.Empty(t, warning("layer/prod"))
		w.must(patch(KindCluster, id, `{"platform_components":[{"id":"grafana","component_version":"17.0.1"}]}`))
	}
	require.Equal(t, "a move has no effect: every cluster with the component gets its version from the clusters themselves", warning("layer/prod"))
}

// TestDeletionsUnderPolicies: the deletion of a layer or a strategy warns of the version policies that name it, and their moves stop. A
// layer cannot be deleted while the rollout of a move is open.
func TestDeletionsUnderPolicies(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	const layer = `{"id":"spare","priority":30,"selector":"tier=none","overrides":{"grafana":{"component_version":"17.1.0"}}}`
	w.must(create(KindLayer, layer))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/spare":{"range":"^17","strategy":"waves"}}}`))
	w.sees("grafana", "17.1.5")
	require.True(t, w.moves("grafana@spare"))
	remove := func(kind Kind, id string) func(*Tx) error {
		return func(tx *Tx) error {
			_, err := tx.Delete(kind, id, DeleteOptions{})
			return err
		}
	}
	require.Contains(t, w.refused(CodeInRollout, remove(KindLayer, "spare")).Error(), "auto-grafana.spare")
	w.must(act("auto-grafana.spare", RolloutAbort))
	w.sees("grafana", "17.1.6")
	require.Contains(t, w.must(remove(KindStrategy, "waves")).Warnings, `the version policy layer/spare of component "grafana" names strategy "waves", which is deleted: change or delete the policy too`)
	require.Contains(t, w.must(remove(KindLayer, "spare")).Warnings, `the version policy layer/spare of component "grafana" names layer "spare", which is deleted: change or delete the policy too`)
	require.False(t, w.moves("grafana@spare"))
	require.Equal(t, `there is no layer "spare"`, EvaluateVersions(w.state, "grafana", "layer/spare", w.known["grafana"], w.now).Problem)
	w.must(create(KindLayer, layer))
	require.Empty(t, w.must(func(tx *Tx) error {
		return cmp.Or(remove(KindLayer, "spare")(tx), patch(KindComponent, "grafana", `{"version_policies":{"layer/spare":null}}`)(tx))
	}).Warnings)
}

// TestGroupsOfLayers: the components of a group move together in each target.
func TestGroupsOfLayers(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	w.must(patch(KindLayer, "prod", `{"overrides":{"loki":{"component_version":"17.1.0"}}}`))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~17","group":"g"},"layer/prod":{"group":"g"}}}`))
	w.must(patch(KindComponent, "loki", `{"component_version":"17.0.0","version_policies":{"catalog":{"range":"~17","group":"g"},"layer/prod":{"range":"^17","group":"g"}}}`))
	require.Equal(t, []string{"grafana@base", "group/g", "group/g@prod"}, VersionMoves(w.state))
	w.sees("grafana", "17.1.5")
	w.sees("loki", "17.1.5")
	require.True(t, w.moves("group/g"))
	require.True(t, w.moves("group/g@prod"))
	require.Len(t, w.state.docs[KindRollout]["auto-g"].rollout().Versions, 2)
	require.Len(t, w.state.docs[KindRollout]["auto-g.prod"].rollout().Versions, 2)
}

// TestPrincipalsOfLayers: a policy has the rights of who changed it last, whoever changes another policy of the component. Who changes the
// policies of images answers for all of them.
func TestPrincipalsOfLayers(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{}`)
	w.as("token:ci (1)", patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":{"range":"^17","action":"apply"}}}`))
	w.as("token:ann (2)", patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~17","action":"apply"}}}`))
	w.grantCI("ci", `["write"]`, `{"components":["grafana"],"kinds":["platform_component"]}`)
	w.limitTo()
	w.sees("grafana", "17.2.0")
	_, _, err := w.automate("grafana@prod")
	require.Equal(t, []string{"layer/prod"}, outside(err), "the change of ann gives the policy of ci no rights")
	require.True(t, w.moves("grafana"))
	require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"rollout"}}}`)))
	w.as("token:ann (2)", patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":{"action":"propose"}}}`))
	w.as("token:ci (1)", patch(KindComponent, "grafana", `{"image_policies":[{"name":"app","image":"evil","track":{"range":">=1.0.0"},"writes":{"image.tag":"{tag}"}}]}`))
	for _, target := range []string{"catalog", "layer/prod"} {
		require.Equal(t, "token:ci (1)", w.state.versionAutomation("grafana").principal(target).Actor)
	}
	_, after, err := Change{Kind: KindVersionAutomation, After: json.RawMessage(`{"id":"a","principals":{"catalog":{"actor":"ann","identity":{"issuer":"corp"}}}}`)}.Public()
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"a","principals":{"catalog":{"actor":"ann"}}}`, string(after))
}

// TestRevertsOfLayers: a revert and a restore bring all policies back, and suspend all of them where holds may be lost.
func TestRevertsOfLayers(t *testing.T) {
	t.Parallel()
	w := newLayered(t)
	before := w.state.docs[KindComponent]["grafana"]
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":null,"layer/base":{"action":"notify"}}}`))
	w.must(operations(w.world, api.Operation{Op: "revert", Revision: int64(w.state.Revision())}))
	require.JSONEq(t, string(before.Body), string(w.state.docs[KindComponent]["grafana"].Body))
	w.must(patch(KindComponent, "grafana", `{"version_policies":null}`))
	w.log.past = Documents{}
	w.log.past.Set(KindComponent, "grafana", before.Body)
	w.must(operations(w.world, api.Operation{Op: "restore", Revision: int64(before.Revision)}))
	for _, policy := range w.state.docs[KindComponent]["grafana"].Component().VersionPolicies {
		require.True(t, policy.Suspended)
	}
	w.sees("grafana", "17.1.5")
	require.False(t, w.moves("grafana@base"))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/base":{"suspended":null}}}`))
	require.True(t, w.moves("grafana@base"))
	changes, err := PauseAutomation(slices.Collect(w.state.Records()))
	require.NoError(t, err)
	require.Len(t, changes, 1)
}

// TestSuspensionsOfLayers: to suspend policies is exempt from rules, unless the change also resumes one.
func TestSuspensionsOfLayers(t *testing.T) {
	t.Parallel()
	const one, other = `{"id":"a","version_policies":{"catalog":{"range":"1.x"},"layer/prod":{"range":"2.x","suspended":true}}}`, `{"id":"a","version_policies":{"catalog":{"range":"1.x","suspended":true},"layer/prod":{"range":"2.x"}}}`
	const all = `{"id":"a","version_policies":{"catalog":{"range":"1.x","suspended":true},"layer/prod":{"range":"2.x","suspended":true}}}`
	// third adds a policy, so that more policies are suspended than before, and one resumes.
	third := func(doc, suspended string) string {
		return strings.Replace(doc, `"version_policies":{`, `"version_policies":{"layer/dev":{"range":"3.x",`+suspended+`},`, 1)
	}
	for _, test := range []struct {
		before, after string
		want          bool
	}{{one, all, true}, {other, all, true}, {one, other, false}, {third(one, `"suspended":false`), third(other, `"suspended":true`), false}, {all, one, false}, {one, one, false}, {one, strings.Replace(all, "1.x", "9.x", 1), false}, {`{"id":"a"}`, all, false}} {
		ch := Change{Kind: KindComponent, ID: "a", Before: json.RawMessage(test.before), After: json.RawMessage(test.after)}
		require.Equal(t, test.want, takesAway(ch), test)
	}
}

// TestPlacesOfRollouts: policies propose as many rollouts as the setting permits, and leave the others to people.
func TestPlacesOfRollouts(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{}`)
	w.state.rules.VersionRollouts = 2
	for i := range 3 {
		id := fmt.Sprintf("app%d", i)
		w.must(create(KindComponent, fmt.Sprintf(`{"id":%q,"component_path":"x","oci_url":"https://charts.example.com","component_version":"1.0.0","version_policies":{"catalog":{"range":"1.x"}}}`, id)))
		w.known[id] = []KnownVersion{{Version: "1.2.0", FirstSeen: w.now}, {Version: "1.1.0", FirstSeen: w.now.Add(-time.Hour)}}
	}
	at, found, err := VersionMoveSince(w.state, "app0", func(id string) []KnownVersion { return w.known[id] }, w.now)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, w.now, at, "of the candidate, not of another version")
	require.True(t, w.moves("app0"))
	require.True(t, w.moves("app1"))
	_, _, err = w.automate("app2")
	require.ErrorIs(t, err, ErrVersionWaits)
	w.known["app0"] = append(w.known["app0"], KnownVersion{Version: "1.3.0"})
	require.True(t, w.moves("app0"), "a proposal keeps its place")
	w.must(act("auto-app1", RolloutAbort))
	require.True(t, w.moves("app2"))
	// The rollouts of people take no place of policies.
	w.must(act("auto-app2", RolloutAbort))
	w.must(roll(w.world, NewRollout{ID: "person", Operations: []api.Operation{bumpGrafana}}))
	require.True(t, w.moves("app1"))
	// A setting below the number of the open ones lets no other be proposed, and the open ones keep their places.
	w.state.rules.VersionRollouts = 1
	w.known["app0"] = append(w.known["app0"], KnownVersion{Version: "1.4.0"})
	require.True(t, w.moves("app0"))
	require.Equal(t, "1.4.0", w.state.docs[KindRollout]["auto-app0"].rollout().Versions[0].Version)
	_, _, err = w.automate("app2")
	require.ErrorIs(t, err, ErrVersionWaits)
	w.must(act("auto-app0", RolloutAbort))
	_, _, err = w.automate("app2")
	require.ErrorIs(t, err, ErrVersionWaits)
}
