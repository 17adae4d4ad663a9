package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/fleettest"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestExplainNamesAllSources, the winner first.
func TestExplainNamesAllSources(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer, `{"id":"eu","priority":30,"selector":"region=eu","patches":{"grafana":{"replicas":5,"x":null}},"overrides":{"grafana":{"component_version":"17.2.0"}}}`)
	w.Must(func(tx *fleet.Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"replicas":9}`), fleet.PatchOptions{})
		return err
	})
	doc, _ := w.State.Get(fleet.KindCluster, "c2")
	ex, err := history.Explain(t.Context(), w.State, doc, "platform-components", "grafana", "/values/replicas")
	require.NoError(t, err)
	require.Equal(t, []string{"base", "prod", "eu"}, ex.Layers)
	require.Len(t, ex.Inputs, 1)
	require.Len(t, ex.Inputs[0].Values, 1)
	v := ex.Inputs[0].Values[0]
	require.Equal(t, "9", textOfValue(v.Value))
	say := func(s api.ValueSource) string {
		return fmt.Sprintf("%s %s %s %s", s.Kind, s.ID, s.Pointer, textOfValue(s.Value))
	}
	require.Equal(t, "cluster c2 /patches/grafana/replicas 9", say(v.SetBy))
	var instead []string
	for _, s := range v.InsteadOf {
		instead = append(instead, say(s))
	}
	require.Equal(t, []string{"layer eu /patches/grafana/replicas 5", `layer prod /patches/grafana/replicas "3"`, `platform_component grafana /patches/replicas "1"`}, instead)

	ex, err = history.Explain(t.Context(), w.State, doc, "platform-components", "grafana", "/component_version")
	require.NoError(t, err)
	require.Equal(t, `layer eu /overrides/grafana/component_version "17.2.0"`, say(ex.Inputs[0].Values[0].SetBy))
	ex, err = history.Explain(t.Context(), w.State, doc, "quotas", "small", "/cpu")
	require.NoError(t, err)
	require.Equal(t, `layer prod /resources/quotas/0/overrides/cpu 4`, say(ex.Inputs[0].Values[0].SetBy))
	require.Equal(t, `resource/quotas small /spec/cpu 1`, say(ex.Inputs[0].Values[0].InsteadOf[0]))
	ex, err = history.Explain(t.Context(), w.State, doc, "", "", "/enabled")
	require.NoError(t, err)
	require.Equal(t, "layer base /platform_components/0 ", say(ex.Inputs[0].Values[0].SetBy), "true because nobody says it")
	for _, missing := range [][2]string{{"nothing", ""}, {"namespaces", "kept"}, {"platform-components", "nobody"}} {
		_, err := history.Explain(t.Context(), w.State, doc, missing[0], missing[1], "")
		var e *fleet.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fleet.CodeNotFound, e.Code)
	}
}

// TestExplainNamesTheRemovingLayer, and the documents that would otherwise set the value.
func TestExplainNamesTheRemovingLayer(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer, `{"id":"bare","priority":30,"selector":"region=eu","patches":{"grafana":{"replicas":null,"nobody":null}}}`)
	explain := func(component, pointer string) []api.ExplainedValue {
		doc, _ := w.State.Get(fleet.KindCluster, "c2")
		ex, err := history.Explain(t.Context(), w.State, doc, "platform-components", component, pointer)
		require.NoError(t, err)
		require.Len(t, ex.Inputs, 1)
		return ex.Inputs[0].Values
	}
	for _, pointer := range []string{"/values/replicas", "/patches/replicas"} {
		values := explain("grafana", pointer)
		require.Len(t, values, 1)
		require.Equal(t, "null", textOfValue(values[0].Value))
		require.Equal(t, []string{"bare", "/patches/grafana/replicas", "null"}, []string{values[0].SetBy.ID, values[0].SetBy.Pointer, textOfValue(values[0].SetBy.Value)})
		require.Equal(t, "prod", values[0].InsteadOf[0].ID)
		require.Equal(t, string(fleet.KindComponent), values[0].InsteadOf[1].Kind)
	}
	// A component without values has none in its definition; a null without effect is not listed.
	values := explain("grafana", "/values")
	require.Equal(t, []string{"/values", "/values/replicas"}, []string{values[0].Pointer, values[1].Pointer})
	require.Equal(t, "{}", textOfValue(values[0].Value))
	require.Equal(t, string(fleet.KindComponent), values[0].SetBy.Kind)
	require.Equal(t, "{}", textOfValue(explain("loki", "/patches")[0].Value))

	// A higher document sets it by paths of its own, or by the same path.
	w.Must(func(tx *fleet.Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"replicas.n":1}`), fleet.PatchOptions{})
		return err
	})
	values = explain("grafana", "/values")
	require.Len(t, values, 1)
	require.Equal(t, "/values/replicas/n", values[0].Pointer)
	require.Equal(t, "bare", explain("grafana", "/patches/replicas")[0].SetBy.ID)
}

// TestExplanationMatchesAnswers: in random fleets, the first document of each value sets the served value, no higher
// document does, and together the values are the whole input.
func TestExplanationMatchesAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := randomWorld(t, rt, false, func(*fleet.State) {})
		for _, doc := range w.State.All(fleet.KindCluster) {
			ex, err := history.Explain(t.Context(), w.State, doc, "", "", "")
			require.NoError(rt, err)
			n := 0
			for built, err := range w.State.BuiltInputs(doc, "", "") {
				require.NoError(rt, err)
				polled, err := w.State.Inputs(doc, built.List, map[string]bool{built.ID: true})
				require.NoError(rt, err)
				require.Len(rt, polled, 1)
				var in map[string]any
				require.NoError(rt, json.Unmarshal(polled[0], &in))
				delete(in, "receipt")
				explained := ex.Inputs[n]
				n++
				require.Equal(rt, []any{built.List, in["id"]}, []any{explained.List, explained.ID})
				requireExplained(rt, w.State, doc, in, explained)
			}
			require.Len(rt, ex.Inputs, n)
		}
	})
}

func requireExplained(rt *rapid.T, s *fleet.State, cluster *fleet.Document, in map[string]any, explained api.ExplainedInput) {
	seen := map[string]bool{}
	for _, v := range explained.Values {
		require.False(rt, seen[v.Pointer], v.Pointer)
		seen[v.Pointer] = true
		if v.Value.IsNull() && v.SetBy.Value.IsNull() {
			require.NotEmpty(rt, v.InsteadOf, "%s: nothing is taken away", v.Pointer)
			require.False(rt, leadsToValue(in, v.Pointer), "%s is served", v.Pointer)
			continue
		}
		value := lookUp(rt, in, v.Pointer)
		require.JSONEq(rt, jsonOf(rt, value), textOfValue(v.Value), v.Pointer)
		said := append([]api.ValueSource{v.SetBy}, v.InsteadOf...)
		for i, say := range said {
			doc, ok := s.Get(fleet.Kind(say.Kind), say.ID)
			require.True(rt, ok, "%+v", say)
			require.True(rt, doc.Kind != fleet.KindCluster || doc == cluster)
			if say.Value != nil {
				require.JSONEq(rt, textOfValue(say.Value), jsonOf(rt, lookUp(rt, objectOf(rt, doc), say.Pointer)))
			}
			if i > 0 {
				require.Greater(rt, rank(s, said[i-1]), rank(s, say), "%s: the highest first", v.Pointer)
			}
		}
		if v.Pointer == "/images" {
			requireImages(rt, value.([]any), said)
			continue
		}
		if v.SetBy.Value == nil || strings.HasPrefix(v.Pointer, "/values") || v.Pointer == "/dependencies" {
			continue
		}
		if served, said := jsonOf(rt, value), textOfValue(v.SetBy.Value); served != said && fmt.Sprintf("%q", said) != served { // a kustomize variable
			require.JSONEq(rt, said, served, "%s of %s is said by %+v", v.Pointer, explained.ID, v.SetBy)
		}
	}
	for path := range in {
		require.True(rt, seen["/"+path] || slices.ContainsFunc(explained.Values, func(v api.ExplainedValue) bool { return strings.HasPrefix(v.Pointer, "/"+path+"/") }), "nobody says /%s", path)
	}
}

// requireImages checks that each served image is that of the highest document which names it. Documents that only name an image
// leave it as it is.
func requireImages(rt *rapid.T, served []any, said []api.ValueSource) {
	wanted, named := []any{}, map[any]bool{}
	for _, say := range said {
		var images []map[string]any
		require.NoError(rt, json.Unmarshal([]byte(textOfValue(say.Value)), &images))
		for _, image := range images {
			if len(image) > 1 && !named[image["name"]] {
				wanted = append(wanted, image)
			}
			named[image["name"]] = true
		}
	}
	require.ElementsMatch(rt, wanted, served)
}

// rank orders the documents of a cluster by precedence.
func rank(s *fleet.State, say api.ValueSource) int {
	switch fleet.Kind(say.Kind) { //nolint:exhaustive // all others are definitions
	case fleet.KindCluster:
		return math.MaxInt
	case fleet.KindLayer:
		layer, _ := s.Get(fleet.KindLayer, say.ID)
		return layer.View().(*api.Layer).Priority + 1
	case fleet.KindResourceType:
		return -1
	}
	return 0
}

func jsonOf(t require.TestingT, v any) string {
	body, err := json.Marshal(v)
	require.NoError(t, err)
	return string(body)
}

func objectOf(t require.TestingT, d *fleet.Document) (obj map[string]any) {
	require.NoError(t, json.Unmarshal(d.Body, &obj))
	return obj
}

func textOfValue(value nullable.Nullable[json.RawMessage]) string {
	if value.IsNull() {
		return "null"
	}
	raw, _ := value.Get()
	return string(raw)
}

// leadsToValue reports whether a JSON pointer leads to a value.
func leadsToValue(v any, pointer string) bool {
	for part := range strings.SplitSeq(pointer[1:], "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch of := v.(type) {
		case map[string]any:
			v = of[key]
		case []any:
			at, err := strconv.Atoi(key)
			if err != nil || at >= len(of) {
				return false
			}
			v = of[at]
		default:
			return false
		}
	}
	return v != nil
}

// lookUp returns the value at a JSON pointer.
func lookUp(t require.TestingT, v any, pointer string) any {
	if pointer == "" {
		return v
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch of := v.(type) {
		case map[string]any:
			next, there := of[key]
			require.True(t, there, "%s in %v", pointer, v)
			v = next
		case []any:
			var at int
			_, err := fmt.Sscan(key, &at)
			require.NoError(t, err)
			v = of[at]
		default:
			require.Fail(t, "no such place", "%s", pointer)
		}
	}
	return v
}

// TestExplainEndsWithItsContext: a cluster may have thousands of inputs.
func TestExplainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	doc, _ := w.State.Get(fleet.KindCluster, "c2")
	all, err := history.Explain(t.Context(), w.State, doc, "", "", "")
	require.NoError(t, err)
	require.Greater(t, len(all.Inputs), 3)
	ctx := &endingContext{Context: t.Context(), after: 2}
	_, err = history.Explain(ctx, w.State, doc, "", "", "")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, ctx.asked)
}

// endingContext is canceled after a number of calls of Err.
type endingContext struct {
	context.Context
	asked, after int
}

func (c *endingContext) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// Value hides the parent context from context.Cause.
func (*endingContext) Value(any) any { return nil }

// TestExplainNamesTheRollout beside the values that it changes; all others have their place in the stored document.
func TestExplainNamesTheRollout(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.ProdLayer, fixtures.BaseLayer, `{"id":"two","priority":30,"selector":"tier=dev","platform_components":[{"id":"grafana"},{"id":"loki","component_path":"x"}]}`)
	w.Must(w.CreateRollout("r", []fleet.RolloutStage{{Name: "dev", Selector: "tier=dev"}},
		`{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"18.0.0"}}`,
		`{"op":"unassign_component","layers":["two"],"component_id":"grafana"}`,
		`{"op":"set_component","layers":["two"],"component_id":"loki","component_version":"9"}`))
	w.Must(fleettest.Unguarded, fleettest.ChangeRollout("r", fleet.RolloutStart))
	source := func(cluster, id, pointer string) api.ValueSource {
		ex, err := history.Explain(t.Context(), w.State, w.Document(fleet.KindCluster, cluster), "platform-components", id, pointer)
		require.NoError(t, err)
		require.NoError(t, history.Blame(t.Context(), w.State, &ex, &w.Log))
		return ex.Inputs[0].Values[0].SetBy
	}
	version := source("c0", "grafana", "/component_version")
	require.Equal(t, "r", version.Rollout)
	require.Equal(t, int64(3), version.Revision, "of the last change of the rollout")
	require.Equal(t, "platform_component", version.Kind)
	require.Empty(t, source("c3", "grafana", "/component_version").Rollout)
	require.Empty(t, source("c0", "grafana", "/source/oci_url").Rollout)
	require.Equal(t, int64(1), source("c0", "grafana", "/source/oci_url").Revision)
	path := source("c0", "loki", "/component_path")
	require.Empty(t, path.Rollout)
	require.Equal(t, "/platform_components/1/component_path", path.Pointer, "in the stored document")
	require.Equal(t, "r", source("c0", "loki", "/component_version").Rollout)
}

// TestExplainAValueOfFivePlaces: the highest document sets the value, and the others are overridden.
func TestExplainAValueOfFivePlaces(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer)
	for i, layer := range []string{"dev", "eu", "shop"} {
		w.Must(fleettest.Create(fleet.KindLayer, fmt.Sprintf(`{"id":%q,"priority":%d,"all":true}`, layer, 20+i)))
	}
	for i, layer := range []string{"base", "dev", "eu", "shop"} {
		w.Must(fleettest.Batch(fmt.Sprintf(`{"op":"patch_values","layers":[%q],"component_id":"grafana","values":{"replicas":%d}}`, layer, 10+i)))
	}
	w.Must(fleettest.Batch(`{"op":"patch_values","cluster_ids":["c0"],"component_id":"grafana","values":{"replicas":20}}`))
	ex, err := history.Explain(t.Context(), w.State, w.Document(fleet.KindCluster, "c0"), "platform-components", "grafana", "/values/replicas")
	require.NoError(t, err)
	require.Len(t, ex.Inputs[0].Values, 1)
	value := ex.Inputs[0].Values[0]
	require.Equal(t, "c0", value.SetBy.ID)
	var instead []string
	for _, say := range value.InsteadOf {
		instead = append(instead, say.Kind+"/"+say.ID+"="+textOfValue(say.Value))
	}
	require.Equal(t, []string{"layer/shop=13", "layer/eu=12", "layer/dev=11", "layer/base=10", `platform_component/grafana="1"`}, instead)
}

// TestExplainAPinnedCluster: its values come from the settings that its pin keeps, and have the revision of the pin.
func TestExplainAPinnedCluster(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	w.Must(fleettest.Patch(fleet.KindCluster, "c3", `{"pinned":{"reason":"INC-7"}}`))
	w.Must(fleettest.Patch(fleet.KindCluster, "c3", `{"labels":{"team":"x"}}`))
	doc := w.Document(fleet.KindCluster, "c3")
	ex, err := history.Explain(t.Context(), w.State, doc, "platform-components", "loki", "")
	require.NoError(t, err)
	require.True(t, ex.Pinned)
	require.Empty(t, ex.Layers)
	require.NoError(t, history.Blame(t.Context(), w.State, &ex, &w.Log))
	require.NotEmpty(t, ex.Inputs[0].Values)
	for _, v := range ex.Inputs[0].Values {
		require.EqualValues(t, 2, v.SetBy.Revision)
	}
	require.EqualValues(t, 3, doc.Revision)
}

// A value with references has their values, and the documents that set these, with their revisions.
func TestExplainReferences(t *testing.T) {
	t.Parallel()
	w := fleettest.New(t,
		"platform_component", `{"id":"h","component_path":"p","oci_url":"https://charts.example.com","patches":{"host":"g.${vars.domain}","id":"${cluster.id}"}}`,
		"layer", `{"id":"all","priority":1,"all":true,"variables":{"domain":"${cluster.labels.region}.x"},"platform_components":[{"id":"h"}]}`,
		"cluster", `{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"region":"eu"}}`,
	)
	ex, err := history.Explain(t.Context(), w.State, w.Document(fleet.KindCluster, "a"), "platform-components", "h", "/values/host")
	require.NoError(t, err)
	require.NoError(t, history.Blame(t.Context(), w.State, &ex, &w.Log))
	require.Len(t, ex.Inputs[0].Values, 1)
	v := ex.Inputs[0].Values[0]
	require.Equal(t, `"g.eu.x"`, textOfValue(v.Value))
	require.Equal(t, `"g.${vars.domain}"`, textOfValue(v.SetBy.Value))
	require.Len(t, v.References, 2)
	require.Equal(t, []string{"${vars.domain}", "eu.x", "layer", "all", "/variables/domain"}, []string{v.References[0].Reference, v.References[0].Value, v.References[0].SetBy.Kind, v.References[0].SetBy.ID, v.References[0].SetBy.Pointer})
	require.Equal(t, []string{"${cluster.labels.region}", "eu", "cluster", "a", "/labels/region"}, []string{v.References[1].Reference, v.References[1].Value, v.References[1].SetBy.Kind, v.References[1].SetBy.ID, v.References[1].SetBy.Pointer})
	for _, source := range history.Sources(&v) {
		require.NotZero(t, source.Revision, "%v", source)
	}
}
