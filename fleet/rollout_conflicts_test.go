package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestVariantOfAChangedType: the variant is decoded with the newest resource type, whose defaults all inputs have.
func TestVariantOfAChangedType(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, api.Operation{Op: "patch", Kind: kindResource, Type: "quotas", ID: "small", Patch: json.RawMessage(`{"spec":{"cpu":2}}`)}))
	w.must(act("r", RolloutStart))
	w.must(patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"mem":{"type":"integer","default":7}}}}`))
	for dns, cpu := range map[string]float64{"c0.example.com": 2, "c2.example.com": 4} {
		in := inputsOf(t, w.state, dns, ResourceKind("quotas"))[0]
		require.Equal(t, cpu, in["cpu"])
		require.Equal(t, 7.0, in["mem"])
	}
	// A schema that the variant does not match is refused, although no stored resource has the value.
	e := w.refused(CodeInRollout, patch(KindResourceType, "quotas", `{"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1,"not":{"const":2}}}}}`))
	require.Contains(t, e.Detail, `quotas resource "small"`)
	w.refused(CodeInRollout, remove(ResourceKind("quotas"), "small", DeleteOptions{Cascade: true}))
}

// TestFieldsInARollout are protected, all others are not.
func TestFieldsInARollout(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18.0.0","patches":{"a":"1"}}`), patchOp(KindLayer, "prod", `{"selector":"region=eu"}`)))
	for _, started := range []bool{false, true} {
		if started {
			w.must(act("r", RolloutStart))
		}
		for _, body := range []string{`{"component_version":"17.0.1"}`, `{"component_version":"18.0.0"}`, `{"patches":{"a":"2"}}`, `{"patches":{"a":"1"}}`} {
			e := w.refused(CodeInRollout, patch(KindComponent, "grafana", body))
			require.Contains(t, e.Detail, `rollout "r"`, body)
			require.Equal(t, KindComponent, e.Problems[0].Kind)
		}
		w.refused(CodeInRollout, remove(KindComponent, "grafana", DeleteOptions{Cascade: true}))
		w.refused(CodeInRollout, rollOut(w, "other", nil, patchOp(KindComponent, "grafana", `{"component_version":"19.0.0"}`)))
	}
	w.must(patch(KindComponent, "grafana", `{"patches":{"b":"1"}}`))
	require.Equal(t, map[string]any{"replicas": 1.0, "a": 1.0, "b": 1.0}, component(t, w.state, "c0.example.com", "grafana")["values"])
	require.Equal(t, map[string]any{"replicas": 3.0, "b": 1.0}, component(t, w.state, "c3.example.com", "grafana")["values"])
	w.must(assign("c0", KindComponent, "grafana", `{"component_version":"17.0.1"}`))
	require.Equal(t, "17.0.1", component(t, w.state, "c0.example.com", "grafana")["component_version"], "a hotfix wins")

	res := w.must(patch(KindCluster, "c1", `{"labels":{"tier":"prod"}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `cluster "c1" moves from stage "dev" to stage "rest" of rollout "r" and loses the change`)
	require.Equal(t, "17.1.0", component(t, w.state, "c1.example.com", "grafana")["component_version"])

	// Once the rollout is aborted, nothing is protected.
	w.must(act("r", RolloutAbort))
	w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.1"}`))
}

// TestVariantsStayValid: a change that is valid now and invalid with the change of an open rollout is refused.
func TestVariantsStayValid(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, op api.Operation) *world {
		w := tiers(t, prodLayer, baseLayer)
		w.must(create(KindComponent, `{"id":"tempo","component_path":"tempo","oci_url":"https://charts.example.com"}`))
		w.must(rollOut(w, "r", devFirst, op))
		return w
	}
	onTempo := patchOp(KindComponent, "grafana", `{"depends_on":["tempo"]}`)
	w := setup(t, onTempo)
	require.Contains(t, w.refused(CodeInRollout, remove(KindComponent, "tempo", DeleteOptions{})).Detail, `there is no platform component "tempo"`)
	require.Contains(t, w.refused(CodeInRollout, patch(KindComponent, "tempo", `{"depends_on":["grafana"]}`)).Detail, "cycle")
	require.Contains(t, w.refused(CodeInRollout, rollOut(w, "s", nil, patchOp(KindComponent, "loki", `{"depends_on":[]}`))).Detail, "only one rollout at a time")

	w = setup(t, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "tempo"})
	w.refused(CodeInRollout, remove(KindComponent, "tempo", DeleteOptions{}))

	// Two entries at the same place of a list would be in the order of completion.
	w = setup(t, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "tempo"})
	require.Contains(t, w.refused(CodeInRollout, rollOut(w, "s", nil, api.Operation{Op: "assign_component", Layers: []string{"base"}, ComponentID: "loki"})).Detail, "order of a list")
}

// TestUnreadableVariant: a store whose rollout contradicts its documents must not be served. The error is
// logged, so it has no values.
func TestUnreadableVariant(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18","patches":{"password":"hunter2"}}`)))
	w.must(act("r", RolloutStart))
	doc := w.state.docs[KindComponent]["grafana"]
	edited := json.RawMessage(strings.NewReplacer("17.0.0", "17.0.1", `"replicas":"1"`, `"password":"hunter3"`).Replace(string(doc.Body)))
	const want = `the changes of the rollouts r cannot be merged with the stored documents: /component_version of platform component "grafana", /patches/password of platform component "grafana"`
	_, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{KindComponent, "grafana", doc.Body, edited}}})
	require.EqualError(t, err, want)
	records := slices.Collect(w.state.Records())
	for i := range records {
		if records[i].ID == "grafana" {
			records[i].Body = edited
		}
	}
	_, err = NewState(testRules, w.state.head, w.state.at, records)
	require.EqualError(t, err, want)
}

// TestObjectsOfVariants: on a cluster that a rollout reaches, the variant must not render the object of another definition.
func TestObjectsOfVariants(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	w.must(create(KindCluster, `{"id":"k2","cluster_dns":"k2.example.com","environment":"dev"}`))
	w.must(assign("k", kindPatch, "c", ""))
	w.must(assign("k2", kindPatch, "c", ""))
	w.must(rollOut(w, "r", []RolloutStage{{Name: "one", ClusterIDs: []string{"k"}}},
		api.Operation{Op: "patch", Kind: kindResource, Type: "object-patches", ID: "c", Patch: json.RawMessage(`{"spec":{"manifest":{"metadata":{"name":"settings"}}}}`)}))
	w.must(withoutGuard(act("r", RolloutStart)))
	require.Contains(t, w.refused(CodeObjectConflict, assign("k", kindPatch, "a", "")).Detail, "both make ConfigMap shared/settings")
	w.must(assign("k2", kindPatch, "a", ""))
	require.Contains(t, w.refused(CodeObjectConflict, withoutGuard(act("r", RolloutStart))).Detail, "both make ConfigMap shared/settings")
}

// TestSetsOfRolloutsShareVariants: clusters that different sets of rollouts reach share the variants of each rollout, since
// there can be as many sets as clusters.
func TestSetsOfRolloutsShareVariants(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", nil, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
	w.must(rollOut(w, "s", []RolloutStage{{Name: "prod", Selector: "tier=prod"}}, patchOp(KindComponent, "loki", `{"component_version":"9"}`)))
	w.must(act("s", RolloutStart))
	w.must(act("r", RolloutStart))
	of := func(cluster string) *Document {
		doc, ok := w.state.definition(w.state.Effective(w.state.docs[KindCluster][cluster]), KindComponent, "grafana")
		require.True(t, ok)
		return doc
	}
	require.False(t, w.state.docs[KindComponent]["grafana"] == of("c0"), "the stored document")
	require.True(t, of("c0") == of("c2"), "merged once")
}

// TestChangedLists: only rollouts that change the same list can depend on their order.
func TestChangedLists(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before, after string
		lists         []string
	}{
		{`{"a":1,"b":{"c":"x"}}`, `{"a":2,"b":{"c":"y"}}`, nil},
		{`{"a":[1],"b":[2]}`, `{"a":[1],"b":[2,3]}`, []string{"/b"}},
		{`{"a":{"b":[{"c":[1]}]}}`, `{"a":{"b":[{"c":[2]}]}}`, []string{"/a/b"}},
		{`{}`, `{"a":{"b":[]},"c":{"d":1}}`, []string{"/a/b"}},
		{`{"a/b":[1],"c":{"d":[2]},"e":[3]}`, `{"c":"x","e":null}`, []string{"/a~1b", "/c/d", "/e"}},
	} {
		lists := map[string]bool{}
		addChangedLists(lists, "", json.RawMessage(tc.before), json.RawMessage(tc.after))
		require.Equal(t, tc.lists, slices.Sorted(maps.Keys(lists)), "%s to %s", tc.before, tc.after)
	}
}
