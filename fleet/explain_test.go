package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestExplainNamesAllSources, the winner first.
func TestExplainNamesAllSources(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"eu","priority":30,"selector":"region=eu","patches":{"grafana":{"replicas":5,"x":null}},"overrides":{"grafana":{"component_version":"17.2.0"}}}`)
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"replicas":9}`), PatchOptions{})
		return err
	})
	doc, _ := w.state.Get(KindCluster, "c2")
	ex, err := w.state.Explain(t.Context(), doc, "platform-components", "grafana", "/values/replicas")
	require.NoError(t, err)
	require.Equal(t, []string{"base", "prod", "eu"}, ex.Layers)
	require.Len(t, ex.Inputs, 1)
	require.Len(t, ex.Inputs[0].Values, 1)
	v := ex.Inputs[0].Values[0]
	require.Equal(t, "9", textOfValue(v.Value))
	say := func(s api.ValueSource) string {
		return fmt.Sprintf("%s %s %s %s", s.Kind, s.ID, s.Pointer, textOfValue(s.Value))
	}
	require.Equal(t, "cluster c2 /patches/grafana/replicas 9", say(v.SaidBy))
	var instead []string
	for _, s := range v.InsteadOf {
		instead = append(instead, say(s))
	}
	require.Equal(t, []string{"layer eu /patches/grafana/replicas 5", `layer prod /patches/grafana/replicas "3"`, `platform_component grafana /patches/replicas "1"`}, instead)

	ex, err = w.state.Explain(t.Context(), doc, "platform-components", "grafana", "/component_version")
	require.NoError(t, err)
	require.Equal(t, `layer eu /overrides/grafana/component_version "17.2.0"`, say(ex.Inputs[0].Values[0].SaidBy))
	ex, err = w.state.Explain(t.Context(), doc, "quotas", "small", "/cpu")
	require.NoError(t, err)
	require.Equal(t, `layer prod /resources/quotas/0/overrides/cpu 4`, say(ex.Inputs[0].Values[0].SaidBy))
	require.Equal(t, `resource/quotas small /spec/cpu 1`, say(ex.Inputs[0].Values[0].InsteadOf[0]))
	ex, err = w.state.Explain(t.Context(), doc, "", "", "/enabled")
	require.NoError(t, err)
	require.Equal(t, "layer base /platform_components/0 ", say(ex.Inputs[0].Values[0].SaidBy), "true because nobody says it")
	for _, missing := range [][2]string{{"nothing", ""}, {"namespaces", "kept"}, {"platform-components", "nobody"}} {
		_, err := w.state.Explain(t.Context(), doc, missing[0], missing[1], "")
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, CodeNotFound, e.Code)
	}
}

// TestExplainNamesTheRemovingLayer, and the documents that would otherwise set the value.
func TestExplainNamesTheRemovingLayer(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"bare","priority":30,"selector":"region=eu","patches":{"grafana":{"replicas":null,"nobody":null}}}`)
	explain := func(component, pointer string) []api.ExplainedValue {
		doc, _ := w.state.Get(KindCluster, "c2")
		ex, err := w.state.Explain(t.Context(), doc, "platform-components", component, pointer)
		require.NoError(t, err)
		require.Len(t, ex.Inputs, 1)
		return ex.Inputs[0].Values
	}
	for _, pointer := range []string{"/values/replicas", "/patches/replicas"} {
		values := explain("grafana", pointer)
		require.Len(t, values, 1)
		require.Equal(t, "null", textOfValue(values[0].Value))
		require.Equal(t, []string{"bare", "/patches/grafana/replicas", "null"}, []string{values[0].SaidBy.ID, values[0].SaidBy.Pointer, textOfValue(values[0].SaidBy.Value)})
		require.Equal(t, "prod", values[0].InsteadOf[0].ID)
		require.Equal(t, string(KindComponent), values[0].InsteadOf[1].Kind)
	}
	// A component without values has none in its definition; a null without effect is not listed.
	values := explain("grafana", "/values")
	require.Equal(t, []string{"/values", "/values/replicas"}, []string{values[0].Pointer, values[1].Pointer})
	require.Equal(t, "{}", textOfValue(values[0].Value))
	require.Equal(t, string(KindComponent), values[0].SaidBy.Kind)
	require.Equal(t, "{}", textOfValue(explain("loki", "/patches")[0].Value))

	// A higher document sets it by paths of its own, or by the same path.
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"replicas.n":1}`), PatchOptions{})
		return err
	})
	values = explain("grafana", "/values")
	require.Len(t, values, 1)
	require.Equal(t, "/values/replicas/n", values[0].Pointer)
	require.Equal(t, "bare", explain("grafana", "/patches/replicas")[0].SaidBy.ID)
}

// TestExplanationMatchesAnswers: in random fleets, the first document of each value sets the served value, no higher
// document does, and together the values are the whole input.
func TestExplanationMatchesAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			edit, _ := randomLayerEdit(rt)
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if edit(tx) != nil {
				continue
			}
			if res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"}); err == nil {
				w.state = res.State
			}
		}
		for _, doc := range w.state.All(KindCluster) {
			ex, err := w.state.Explain(t.Context(), doc, "", "", "")
			require.NoError(rt, err)
			n := 0
			for _, a := range w.state.kinds.lists {
				for _, in := range inputsOf(rt, w.state, doc.Cluster().ClusterDNS, a.kind) {
					explained := ex.Inputs[n]
					n++
					require.Equal(rt, []any{a.endpoint, in["id"]}, []any{explained.List, explained.ID})
					requireExplained(rt, w.state, doc, in, explained)
				}
			}
			require.Len(rt, ex.Inputs, n)
		}
	})
}

func requireExplained(rt *rapid.T, s *State, cluster *Document, in map[string]any, explained api.ExplainedInput) {
	seen := map[string]bool{}
	for _, v := range explained.Values {
		require.False(rt, seen[v.Pointer], v.Pointer)
		seen[v.Pointer] = true
		if v.Value.IsNull() && v.SaidBy.Value.IsNull() {
			require.NotEmpty(rt, v.InsteadOf, "%s: nothing is taken away", v.Pointer)
			require.False(rt, served(in, v.Pointer), "%s is served", v.Pointer)
			continue
		}
		value := lookUp(rt, in, v.Pointer)
		require.JSONEq(rt, jsonOf(rt, value), textOfValue(v.Value), v.Pointer)
		said := append([]api.ValueSource{v.SaidBy}, v.InsteadOf...)
		for i, say := range said {
			doc := s.docs[Kind(say.Kind)][say.ID]
			require.NotNil(rt, doc, "%+v", say)
			require.True(rt, doc.Kind != KindCluster || doc == cluster)
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
		if v.SaidBy.Value == nil || strings.HasPrefix(v.Pointer, "/values") || v.Pointer == "/dependencies" {
			continue
		}
		if served, said := jsonOf(rt, value), textOfValue(v.SaidBy.Value); served != said && fmt.Sprintf("%q", said) != served { // a kustomize variable
			require.JSONEq(rt, said, served, "%s of %s is said by %+v", v.Pointer, explained.ID, v.SaidBy)
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
func rank(s *State, say api.ValueSource) int {
	switch Kind(say.Kind) { //nolint:exhaustive // all others are definitions
	case KindCluster:
		return maxPriority + 2
	case KindLayer:
		return s.docs[KindLayer][say.ID].layer().Priority + 1
	case KindResourceType:
		return -1
	}
	return 0
}

func jsonOf(t require.TestingT, v any) string {
	body, err := json.Marshal(v)
	require.NoError(t, err)
	return string(body)
}

func objectOf(t require.TestingT, d *Document) (obj map[string]any) {
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

// served reports whether a JSON pointer leads to a value.
func served(v any, pointer string) bool {
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

func TestLayersAreEditedEntryByEntry(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	layer := func(id string) *api.Layer { return &w.state.docs[KindLayer][id].layer().Layer }
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "grafana", []byte(`{"enabled":false}`))
		return err
	})
	require.False(t, *layer("prod").PlatformComponents[1].Enabled)
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "grafana", []byte(`{"enabled":null,"oci_tag":"x"}`))
		return err
	})
	require.Nil(t, layer("prod").PlatformComponents[1].Enabled)
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", ResourceKind("quotas"), "small", []byte(`{"overrides":null}`))
		return err
	})
	require.Empty(t, layer("prod").Resources["quotas"][0].Overrides)
	w.must(func(tx *Tx) error { _, err := tx.UnassignFromLayer("prod", KindComponent, "grafana"); return err })
	require.Len(t, layer("prod").PlatformComponents, 1)
	require.Equal(t, "17.1.0", layer("prod").Overrides["grafana"].ComponentVersion, "what it says apart stays")
	w.refused(CodeNotFound, func(tx *Tx) error { _, err := tx.AssignToLayer("nobody", KindNamespace, "team", nil); return err })
	w.refused(CodeNotFound, func(tx *Tx) error { _, err := tx.AssignToLayer("prod", KindNamespace, "nobody", nil); return err })

	w.must(batch(
		`{"op":"assign_namespace","layers":["prod","base"],"namespace_id":"kept"}`,
		`{"op":"set_component","layers":["prod"],"component_id":"grafana","component_version":"18.0.0"}`,
		`{"op":"set_component","layers":["base"],"component_id":"grafana","oci_tag":"y"}`,
		`{"op":"patch_values","layers":["prod"],"component_id":"grafana","values":{"replicas":null,"a":1}}`))
	require.Len(t, layer("base").Namespaces, 2)
	require.Equal(t, "18.0.0", layer("prod").Overrides["grafana"].ComponentVersion)
	require.Equal(t, "y", layer("base").PlatformComponents[0].OCITag)
	require.Equal(t, api.PatchValues{"a": json.RawMessage("1")}, layer("prod").Patches["grafana"])
	for op, want := range map[string]string{
		`{"op":"set_labels","layers":["prod"],"labels":{"a":"b"}}`:                                          "is for clusters",
		`{"op":"apply_values","layers":["prod"],"component_id":"grafana","values":{}}`:                      "is for clusters",
		`{"op":"patch_values","layers":["prod"],"component_id":"grafana","values":{},"field_manager":"ci"}`: "is for clusters",
		`{"op":"set_component","layers":["prod"],"component_id":"grafana","enabled":false}`:                 "so it cannot enable or disable it",
		`{"op":"assign_namespace","layers":["prod"],"all":true,"namespace_id":"kept"}`:                      "exactly one of",
		`{"op":"assign_namespace","layers":["prod"]}`:                                                       "namespace_id: is required",
		`{"op":"delete","kind":"layer","id":"prod","layers":["prod"]}`:                                      "not cluster_ids, selector, all or layers",
		`{"op":"restore","revision":1,"layers":["prod"]}`:                                                   "not cluster_ids, selector, all or layers",
	} {
		require.Contains(t, w.refused(CodeInvalid, batch(op)).Error(), want, op)
	}
	require.Contains(t, w.refused(CodeNotFound, batch(`{"op":"assign_namespace","layers":["nobody"],"namespace_id":"kept"}`)).Error(), `there is no layer "nobody"`)
}

func TestViewsOfLayersAndClusters(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"none","priority":3,"selector":"x","patches":{"grafana":{"a":null}}}`)
	c2, _ := w.state.Get(KindCluster, "c2")
	view := w.state.EffectiveView(c2).(*api.Cluster)
	require.Equal(t, []string{"base", "prod"}, view.Layers)
	require.Len(t, view.PlatformComponents, 2)
	require.EqualValues(t, 1, view.Revision)
	require.Equal(t, `"3"`, string(view.Patches["grafana"]["replicas"]))
	prod, _ := w.state.Get(KindLayer, "prod")
	require.Equal(t, []string{"c2", "c3"}, w.state.LayerView(prod).(*api.Layer).Clusters)
	none, _ := w.state.Get(KindLayer, "none")
	require.Empty(t, w.state.LayerView(none).(*api.Layer).Clusters)

	// A view can be sent back: read-only fields are ignored.
	body, err := json.Marshal(w.state.LayerView(prod))
	require.NoError(t, err)
	require.Empty(t, w.must(put(KindLayer, "prod", string(body))).Commit.Changes)
}

// TestExplainEndsWithItsContext: a cluster may have thousands of inputs.
func TestExplainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	doc, _ := w.state.Get(KindCluster, "c2")
	all, err := w.state.Explain(t.Context(), doc, "", "", "")
	require.NoError(t, err)
	require.Greater(t, len(all.Inputs), 3)
	ctx := &endingContext{Context: t.Context(), after: 2}
	_, err = w.state.Explain(ctx, doc, "", "", "")
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
