package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
)

// tiers has four clusters without settings except labels, and the given layers.
func tiers(t *testing.T, layers ...string) *world {
	t.Helper()
	w := newWorld(t, fixtures.Tiers(layers...)...)
	w.state.rules.MaxRemovals = 5
	return w
}

const (
	baseLayer = fixtures.BaseLayer
	prodLayer = fixtures.ProdLayer
)

func component(t *testing.T, s *State, dns, id string) map[string]any {
	t.Helper()
	for _, in := range inputsOf(t, s, dns, KindComponent) {
		if in["id"] == id {
			return in
		}
	}
	return nil
}

func TestClustersGetSettingsOfTheirLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	require.Equal(t, []string{"grafana"}, ids(inputsOf(t, w.state, "c0.example.com", KindComponent)))
	require.Equal(t, []string{"grafana", "loki"}, ids(inputsOf(t, w.state, "c2.example.com", KindComponent)), "the lowest layer's first")
	grafana := component(t, w.state, "c2.example.com", "grafana")
	require.Equal(t, "17.1.0", grafana["component_version"])
	require.Equal(t, map[string]any{"replicas": 3.0}, grafana["values"])
	require.Equal(t, true, grafana["enabled"])
	require.Equal(t, 4.0, inputsOf(t, w.state, "c2.example.com", ResourceKind("quotas"))[0]["cpu"])
	require.Equal(t, "17.0.0", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	require.Len(t, component(t, w.state, "c2.example.com", "loki")["dependencies"], 1)

	// The cluster's own document is above all layers, and overrides only the fields that it sets.
	w.must(assign("c2", KindComponent, "grafana", `{"component_version":"16.0.0"}`))
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"ingress":true}`), PatchOptions{})
		return err
	})
	grafana = component(t, w.state, "c2.example.com", "grafana")
	require.Equal(t, "16.0.0", grafana["component_version"])
	require.Equal(t, map[string]any{"replicas": 3.0, "ingress": true}, grafana["values"])
	require.Equal(t, []string{"grafana", "loki"}, ids(inputsOf(t, w.state, "c2.example.com", KindComponent)))
	doc, _ := w.state.Get(KindCluster, "c2")
	require.Len(t, doc.Cluster().PlatformComponents, 1, "the document is what was written")
	require.Equal(t, 5, w.state.InstallCount(doc))
}

// TestNullInALayerRemovesLowerValues: the values of the catalog and lower layers for the path are removed, and higher ones
// may set it.
func TestNullInALayerRemovesLowerValues(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"bare","priority":30,"selector":"region=eu","patches":{"grafana":{"replicas":null,"a":"1"}}}`)
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c2.example.com", "grafana")["values"])
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c1.example.com", "grafana")["values"], "not the catalog's either")
	require.Equal(t, map[string]any{"replicas": 3.0}, component(t, w.state, "c3.example.com", "grafana")["values"])
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"replicas":9}`), PatchOptions{})
		return err
	})
	require.Equal(t, map[string]any{"a": 1.0, "replicas": 9.0}, component(t, w.state, "c2.example.com", "grafana")["values"])
}

// TestLabelChangesAreGuarded: a label that moves a cluster out of a layer removes the definitions that only this layer
// assigns.
func TestLabelChangesAreGuarded(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	toDev := func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"dev"}`)); return err }
	plan := w.plan(toDev)
	require.Equal(t, 1, plan.Totals.Removals)
	require.Equal(t, []string{"loki"}, plan.Groups[0].Effect["platform-components"].Removed)
	require.Contains(t, strings.Join(plan.Warnings, "\n"), `cluster "c2" leaves prod`)
	w.state.rules.MaxRemovals = 0
	require.Contains(t, w.refused(CodeConfirm, toDev).Detail, "1 installed thing would be removed from 1 cluster")
	w.must(confirmed(plan.PlanHash, toDev))
	require.Equal(t, []string{"grafana"}, ids(inputsOf(t, w.state, "c2.example.com", KindComponent)))

	// Joining a layer needs no confirmation.
	res := w.must(func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"prod"}`)); return err })
	require.Contains(t, strings.Join(res.Warnings, "\n"), `cluster "c2" joins prod`)
}

func TestRemovalsByALayerAreGuarded(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.state.rules.MaxRemovals = 3
	gone := remove(KindLayer, "base", DeleteOptions{})
	require.Contains(t, w.refused(CodeConfirm, gone).Detail, `namespace "team" and everything in it would be deleted on 4 clusters`)
	plan := w.plan(gone)
	require.Equal(t, 14, plan.Totals.Removals, "what prod gives too stays")
	w.refused(CodeConfirm, patch(KindLayer, "base", `{"selector":"tier=prod","all":null}`))
	w.refused(CodeConfirm, patch(KindLayer, "base", `{"platform_components":[{"id":"grafana","enabled":false}]}`))
	w.must(confirmed(plan.PlanHash, gone))
	require.Empty(t, inputsOf(t, w.state, "c0.example.com", KindNamespace))

	// A namespace must be kept on the clusters where it is before it is removed, also through a layer.
	w = tiers(t, baseLayer)
	require.Contains(t, w.refused(CodeInvalid, both(patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`), gone)).Detail, "set deletion_policy to orphan first")
}

func TestClustersOptOut(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(patch(KindCluster, "c2", `{"excludes":{"namespaces":["team"],"rolebindings":["readers"],"resources":{"quotas":["small"]}},"platform_components":[{"id":"loki","enabled":false}]}`))
	for _, kind := range []Kind{KindNamespace, KindRoleBinding, ResourceKind("quotas")} {
		require.Empty(t, inputsOf(t, w.state, "c2.example.com", kind))
	}
	require.Equal(t, false, component(t, w.state, "c2.example.com", "loki")["enabled"])
	require.Len(t, inputsOf(t, w.state, "c3.example.com", KindNamespace), 1)

	// An exclusion may name a missing definition; a duplicate, or one beside an assignment, is an error.
	res := w.must(patch(KindCluster, "c3", `{"excludes":{"namespaces":["nowhere"]}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `cluster "c3" excludes the namespace "nowhere", which no layer assigns to it`)
	require.Equal(t, "/excludes/namespaces/1", w.refused(CodeInvalid, patch(KindCluster, "c3", `{"excludes":{"namespaces":["team","team"]}}`)).Problems[0].Pointer)
	require.Equal(t, "/excludes/namespaces/0", w.refused(CodeInvalid, patch(KindCluster, "c3", `{"namespaces":[{"id":"team"}],"excludes":{"namespaces":["team"]}}`)).Problems[0].Pointer)

	// Assigning it ends the exclusion; removing it from the cluster's list does not remove a layer's assignment.
	w.must(assign("c2", KindNamespace, "team", ""))
	doc, _ := w.state.Get(KindCluster, "c2")
	require.Equal(t, []string{"readers"}, doc.Cluster().Excludes.Rolebindings)
	require.Empty(t, doc.Cluster().Excludes.Namespaces)
	res = w.must(func(tx *Tx) error { _, err := tx.Unassign("c2", KindNamespace, "team"); return err })
	require.Equal(t, []string{`namespace "team" stays where it comes from layer "base"; to take it off a cluster of that layer, list it in the cluster's excludes (namespaces)`}, res.Warnings)
	require.Len(t, inputsOf(t, w.state, "c2.example.com", KindNamespace), 1)
	w.must(patch(KindCluster, "c2", `{"excludes":null}`))
	require.Len(t, inputsOf(t, w.state, "c2.example.com", KindRoleBinding), 1)
}

// TestSettingAComponentOfALayer adds an entry to the cluster, which stays enabled or disabled as before.
func TestSettingAComponentOfALayer(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"grafana","enabled":false}]}`)
	w.must(assign("c0", KindComponent, "grafana", `{"oci_tag":"x"}`))
	require.Equal(t, false, component(t, w.state, "c0.example.com", "grafana")["enabled"])
	w.must(batch(`{"op":"set_component","selector":"tier=prod","component_id":"grafana","component_version":"1"}`))
	require.Equal(t, false, component(t, w.state, "c2.example.com", "grafana")["enabled"])
	require.Equal(t, "1", component(t, w.state, "c2.example.com", "grafana")["component_version"])
	w.must(assign("c0", KindComponent, "grafana", `{"enabled":true}`))
	require.Equal(t, true, component(t, w.state, "c0.example.com", "grafana")["enabled"])
	require.Contains(t, w.refused(CodeInvalid, batch(`{"op":"set_component","cluster_ids":["c1"],"component_id":"loki","enabled":true}`)).Detail, "not assigned")
}

// Clients that send null for absent fields can use the operations that take no overrides.
func TestOperationsWithNullOverrides(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true}`, `{"id":"prod","priority":20,"selector":"tier=prod","platform_components":[{"id":"grafana"}]}`)
	for _, op := range []string{
		`{"op":"assign_component","cluster_ids":["c0"],"component_id":"grafana","component_version":"1","overrides":null}`,
		`{"op":"set_component","cluster_ids":["c0"],"component_id":"grafana","component_version":"2","overrides":null}`,
		`{"op":"set_component","layers":["prod"],"component_id":"grafana","component_version":"3","overrides":null}`,
		`{"op":"patch_values","cluster_ids":["c0"],"component_id":"grafana","values":{"a":"1"},"overrides":null}`,
		`{"op":"set_labels","cluster_ids":["c0"],"labels":{"a":"b"},"overrides":null}`,
	} {
		w.must(batch(op))
	}
	require.Equal(t, "2", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	require.Equal(t, "3", component(t, w.state, "c2.example.com", "grafana")["component_version"])
}

func TestOneOfTwoLayersWithoutPriority(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	require.Equal(t, `layer "more" cannot have the priority 20: layer "prod" has it, and the higher one wins`,
		w.refused(CodeConflict, create(KindLayer, `{"id":"more","priority":20,"all":true}`)).Detail)
	require.Contains(t, w.refused(CodeConflict, patch(KindLayer, "base", `{"priority":20}`)).Detail, `layer "base" cannot`)
	w.must(both(patch(KindLayer, "base", `{"priority":20}`), patch(KindLayer, "prod", `{"priority":10}`)))
	require.Equal(t, []string{"loki", "grafana"}, ids(inputsOf(t, w.state, "c2.example.com", KindComponent)))
}

// TestALayerWithoutPriority is refused, not treated as the lowest: whoever clears the priority has not chosen another.
func TestALayerWithoutPriority(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	missing := []Problem{{Pointer: "/priority", Detail: "is required", Kind: KindLayer, ID: "base"}}
	require.Equal(t, missing, w.refused(CodeInvalid, patch(KindLayer, "base", `{"priority":null}`)).Problems)
	missing[0].ID = "new"
	require.Equal(t, missing, w.refused(CodeInvalid, create(KindLayer, `{"id":"new","all":true}`)).Problems)
	require.Equal(t, missing, w.refused(CodeInvalid, create(KindLayer, `{"id":"new","all":true,"priority":null}`)).Problems)
	w.must(put(KindLayer, "base", `{"priority":null,"description":"as it was"}`))
	doc, _ := w.state.Get(KindLayer, "base")
	require.Equal(t, 10, doc.layer().Priority)
	w.must(patch(KindLayer, "base", `{"priority":0}`))
	w.must(create(KindLayer, `{"id":"new","all":true,"priority":1}`))
	require.Equal(t, missing, w.refused(CodeInvalid, patch(KindLayer, "new", `{"priority":null}`)).Problems, "nor is it in anybody's way")
}

func TestInvalidLayersAreRefused(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	for body, at := range map[string]string{
		`{"id":"x","priority":1}`:                                                                                                     "/selector",
		`{"id":"x","priority":1,"selector":""}`:                                                                                       "/selector",
		`{"id":"x","priority":1,"selector":"  "}`:                                                                                     "/selector",
		`{"id":"x","priority":1,"selector":"a=b","all":true}`:                                                                         "/selector",
		`{"id":"x","priority":1,"selector":"a in b"}`:                                                                                 "/selector",
		`{"id":"x","priority":-1,"all":true}`:                                                                                         "/priority",
		`{"id":"x","priority":1000001,"all":true}`:                                                                                    "/priority",
		`{"id":"x","priority":"high","all":true}`:                                                                                     "/priority",
		`{"id":"X","priority":1,"all":true}`:                                                                                          "/id",
		`{"id":"x","priority":1,"all":true,"platform_components":[{"id":"nobody"}]}`:                                                  "/platform_components/0/id",
		`{"id":"x","priority":1,"all":true,"platform_components":[{"id":"loki"},{"id":"loki"}]}`:                                      "/platform_components/1/id",
		`{"id":"x","priority":1,"all":true,"namespaces":[{"id":"nobody"}]}`:                                                           "/namespaces/0/id",
		`{"id":"x","priority":1,"all":true,"resources":{"nothing":[{"id":"a"}]}}`:                                                     "/resources/nothing",
		`{"id":"x","priority":1,"all":true,"resources":{"quotas":[{"id":"nobody"}]}}`:                                                 "/resources/quotas/0/id",
		`{"id":"x","priority":1,"all":true,"resources":{"quotas":[{"id":"small","overrides":{"cpu":"much"}}]}}`:                       "/resources/quotas/0/overrides/cpu",
		`{"id":"x","priority":1,"all":true,"overrides":{"nobody":{"oci_tag":"a"}}}`:                                                   "/overrides/nobody",
		`{"id":"x","priority":1,"all":true,"overrides":{"loki":{"oci_tag":" a"}}}`:                                                    "/overrides/loki/oci_tag",
		`{"id":"x","priority":1,"all":true,"patches":{"nobody":{"a":"1"}}}`:                                                           "/patches/nobody",
		`{"id":"x","priority":1,"all":true,"patches":{"loki":{"a":"1","a.b":null}}}`:                                                  "/patches/loki/a.b",
		`{"id":"x","priority":1,"all":true,"patches":{"loki":{"a..b":null}}}`:                                                         "/patches/loki/a..b",
		`{"id":"x","priority":1,"all":true,"platform_components":3}`:                                                                  "/platform_components",
		`{"id":"x","priority":1,"all":true,"platform_components":[{"id":"loki","enabled":"yes"}]}`:                                    "/platform_components/enabled",
		`{"id":"x","priority":1,"all":true,"platform_components":[{"id":"loki","oci_tag":"a"}],"overrides":{"loki":{"oci_tag":"b"}}}`: "/platform_components/0/oci_tag",
	} {
		require.Equal(t, at, w.refused(CodeInvalid, create(KindLayer, body)).Problems[0].Pointer, body)
	}
	res := w.must(create(KindLayer, `{"id":"x","priority":1,"selector":"tier=nowhere"}`))
	require.Contains(t, res.Warnings, `layer "x" matches no cluster`)
	w.must(put(KindLayer, "x", `{"all":true}`))
	require.Empty(t, w.state.docs[KindLayer]["x"].layer().Selector, "one way to say which clusters replaces the other")
	w.must(put(KindLayer, "x", `{"selector":"tier=dev"}`))
	require.False(t, w.state.docs[KindLayer]["x"].layer().All)
}

func TestNumberOfLayersIsLimited(t *testing.T) {
	t.Parallel()
	w := tiers(t)
	many := func(n int) func(*Tx) error {
		return func(tx *Tx) error {
			for i := range n {
				if _, err := tx.Create(KindLayer, fmt.Appendf(nil, `{"id":"l%d","priority":%d,"selector":"x=y%d"}`, i, i, i)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	require.Contains(t, w.refused(CodeLimitExceeded, many(maxLayers+1)).Error(), "at most 200 are possible")
	w.must(many(maxLayers))
	w.refused(CodeLimitExceeded, create(KindLayer, `{"id":"last","priority":1,"all":true}`)) // it cannot have a priority of another layer
	w.must(patch(KindLayer, "l7", `{"description":"still changes"}`))
}

// TestPathsThatContradictAcrossPlaces are refused, in either order, and both documents are named.
func TestPathsThatContradictAcrossPlaces(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, `{"id":"whole","priority":20,"selector":"tier=prod","patches":{"grafana":{"resources":{"limits":{}}}}}`)
	own := func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "grafana", []byte(`{"resources.limits.cpu":"1"}`), PatchOptions{})
		return err
	}
	refused := w.refused(CodeInvalid, own)
	require.Equal(t, "/patches/grafana/resources.limits.cpu", refused.Problems[0].Pointer)
	require.Contains(t, refused.Detail, `("resources.limits.cpu" is set by cluster "c2", "resources" by layer "whole")`)

	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c0", "grafana", []byte(`{"resources.limits.cpu":"1"}`), PatchOptions{})
		return err
	})
	refused = w.refused(CodeInvalid, func(tx *Tx) error { _, err := tx.SetLabels("c0", []byte(`{"tier":"prod"}`)); return err })
	require.Contains(t, refused.Detail, `"resources" by layer "whole"`)
	refused = w.refused(CodeInvalid, patch(KindLayer, "whole", `{"selector":"tier"}`))
	require.Contains(t, refused.Detail, `cluster "c0": patches/grafana/resources.limits.cpu: contradicts the path "resources"`)
	require.Contains(t, refused.Detail, `("resources.limits.cpu" is set by cluster "c0", "resources" by layer "whole")`)
	refused = w.refused(CodeInvalid, create(KindLayer, `{"id":"cpu","priority":30,"selector":"tier=prod","patches":{"grafana":{"resources.limits.cpu":"2"}}}`))
	require.Contains(t, refused.Detail, `("resources.limits.cpu" is set by layer "cpu", "resources" by layer "whole") (and on 1 cluster like it)`)
	require.Contains(t, w.refused(CodeInvalid, patch(KindComponent, "grafana", `{"patches":{"resources.limits.cpu":"2"}}`)).Detail, `"resources.limits.cpu" is set by platform component "grafana"`)
	w.must(put(KindLayer, "whole", `{"patches":{"grafana":{"resources":null}}}`))
}

// TestPatchesOfAbsentComponentsAreKept: a layer that removes a component from clusters with patches of their own is not
// refused because of them, and neither is a label, nor a later change of the cluster.
func TestPatchesOfAbsentComponentsAreKept(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(func(tx *Tx) error {
		_, err := tx.PatchValues("c2", "loki", []byte(`{"a":"1"}`), PatchOptions{})
		return err
	})
	res := w.must(func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"dev"}`)); return err })
	require.Contains(t, strings.Join(res.Warnings, "\n"), `the patches of component "loki" on cluster "c2" have no effect any more`)
	require.Nil(t, component(t, w.state, "c2.example.com", "loki"))
	w.must(func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"x":"y"}`)); return err })
	w.must(func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"prod"}`)); return err })
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c2.example.com", "loki")["values"])
	res = w.must(patch(KindLayer, "prod", `{"platform_components":[]}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `the patches of component "loki" on cluster "c2" have no effect any more`)
	w.refused(CodeInvalid, patch(KindCluster, "c3", `{"patches":{"loki":{"a":"1"}}}`))
	// An edit of another field does not drop them either, in any form.
	for _, away := range []func(*Tx) error{
		patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`),
		func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"dev"}`)); return err },
	} {
		w.must(patch(KindLayer, "prod", `{"platform_components":[{"id":"loki"}]}`))
		w.must(away)
		w.must(patch(KindCluster, "c2", `{"namespaces":[{"id":"team"}]}`))
		w.must(put(KindCluster, "c2", `{"namespaces":[]}`))
		w.must(patch(KindCluster, "c2", `{"labels":{"tier":"prod"}}`))
		require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c2.example.com", "loki")["values"])
	}
	// A whole document that still contains them keeps them with the component.
	w.must(patch(KindLayer, "prod", `{"platform_components":[{"id":"loki"}]}`))
	w.must(put(KindCluster, "c2", `{"namespaces":[]}`))
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c2.example.com", "loki")["values"])
}

// TestLargeAnswersThroughLayers are refused, through a layer, a definition or a label.
func TestLargeAnswersThroughLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t)
	text := strings.Repeat("x", 220<<10)
	big := func(id string) func(*Tx) error {
		return create(KindNamespace, fmt.Sprintf(`{"id":%q,"annotations":{"a":%q}}`, id, text))
	}
	w.must(both(big("n1"), big("n2"), big("n3"), big("n4"), big("n5")))
	w.must(create(KindLayer, `{"id":"two","priority":1,"all":true,"namespaces":[{"id":"n1"},{"id":"n2"}]}`))
	three := `{"id":"three","priority":2,"selector":"tier=%s","namespaces":[{"id":"n3"},{"id":"n4"},{"id":"n5"}]}`
	refused := w.refused(CodeLimitExceeded, create(KindLayer, fmt.Sprintf(three, "prod")))
	require.Contains(t, refused.Detail, `the namespaces of cluster "c2" would be`)
	require.Len(t, refused.Problems, 2, "each cluster is named")
	w.must(create(KindLayer, fmt.Sprintf(three, "none")))
	refused = w.refused(CodeLimitExceeded, func(tx *Tx) error { _, err := tx.SetLabels("c0", []byte(`{"tier":"none"}`)); return err })
	require.Contains(t, refused.Detail, `the namespaces of cluster "c0" would be`)
	w.must(patch(KindLayer, "three", `{"selector":"tier=prod","namespaces":[{"id":"n3"},{"id":"team"}]}`))
	require.Contains(t, w.refused(CodeLimitExceeded, patch(KindNamespace, "team", fmt.Sprintf(`{"annotations":{"a":%q,"b":%q}}`, text[:1000], strings.Repeat("y", 255<<10)))).Detail, `cluster "c2"`)

	many := func(tx *Tx) error {
		var refs []string
		for i := range MaxInputs + 1 {
			id := fmt.Sprint("m", i)
			if _, err := tx.Create(KindRoleBinding, fmt.Appendf(nil, `{"id":%q,"role":"view","subjects":[{"kind":"User","name":"jo"}]}`, id)); err != nil {
				return err
			}
			refs = append(refs, fmt.Sprintf(`{"id":%q}`, id))
		}
		for i, half := range [][]string{refs[:MaxInputs/2], refs[MaxInputs/2:]} {
			if _, err := tx.Create(KindLayer, fmt.Appendf(nil, `{"id":"many%d","priority":%d,"all":true,"rolebindings":[%s]}`, i, 100+i, strings.Join(half, ","))); err != nil {
				return err
			}
		}
		return nil
	}
	require.Contains(t, w.refused(CodeLimitExceeded, many).Error(), "at most 10000 are served")
}

// TestDefinitionsOfLayersAreInUse, and cascade removes all settings of them from layers.
func TestDefinitionsOfLayersAreInUse(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(assign("c0", KindComponent, "grafana", ""))
	require.Contains(t, w.refused(CodeInUse, remove(KindComponent, "grafana", DeleteOptions{})).Detail, `is used by 1 cluster: c0, and 2 layers: base, prod, and 1 platform component: loki`)
	require.Contains(t, w.refused(CodeInUse, remove(KindNamespace, "team", DeleteOptions{})).Detail, `is used by 1 layer: base`)
	require.Contains(t, w.refused(CodeInUse, remove(ResourceKind("quotas"), "small", DeleteOptions{})).Detail, `is used by 2 layers: base, prod`)
	off := both(remove(KindComponent, "grafana", DeleteOptions{Cascade: true}), remove(KindResourceType, "quotas", DeleteOptions{Cascade: true}))
	plan := w.plan(off)
	require.Equal(t, 8, plan.Totals.Removals)
	require.Equal(t, "deleted component/grafana, off 4 clusters; deleted resource_type/quotas, off 4 clusters", inWords(w.must(confirmed(plan.PlanHash, off))))
	prod := w.state.docs[KindLayer]["prod"].layer()
	require.Empty(t, prod.Overrides)
	require.Empty(t, prod.Patches)
	require.Empty(t, prod.Resources)
	require.Len(t, prod.PlatformComponents, 1)
}

// TestLayersProtect their clusters against every operation.
func TestLayersProtect(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer, `{"id":"guard","priority":5,"selector":"tier=prod","deletion_protection":true}`)
	off := func(tx *Tx) error { _, err := tx.SetLabels("c2", []byte(`{"tier":"dev"}`)); return err }
	require.Contains(t, w.refused(CodeProtected, off).Detail, `would remove from it: loki; clear it first, in a change of its own: PATCH /layers/guard {"deletion_protection": null}`)
	w.refused(CodeProtected, remove(KindLayer, "prod", DeleteOptions{}))
	w.refused(CodeProtected, both(patch(KindLayer, "guard", `{"deletion_protection":false}`), remove(KindLayer, "prod", DeleteOptions{})))
	require.Contains(t, w.refused(CodeProtected, remove(KindCluster, "c2", DeleteOptions{})).Detail, "PATCH /layers/guard")
	w.refused(CodeProtected, both(remove(KindLayer, "guard", DeleteOptions{}), remove(KindCluster, "c2", DeleteOptions{})))
	w.refused(CodeInvalid, patch(KindCluster, "c2", `{"cluster_dns":"new.example.com"}`))
	w.must(patch(KindCluster, "c3", `{"deletion_protection":true}`))
	w.must(create(KindLayer, `{"id":"free","priority":6,"selector":"tier=prod","deletion_protection":false}`))
	w.must(remove(KindCluster, "c2", DeleteOptions{}))
	require.Contains(t, w.refused(CodeProtected, remove(KindCluster, "c3", DeleteOptions{})).Detail, "PATCH /clusters/c3", "what the document says is its own")
	require.Empty(t, inputsOf(t, w.state, "c2.example.com", KindComponent), "decommissioned clusters have no layers")
	plan := w.plan(create(KindCluster, `{"id":"heir","cluster_dns":"c2.example.com","environment":"dev"}`))
	require.Zero(t, plan.Totals.Removals)
}

// TestProtectionCountsBeforeTheChange: a layer's protection takes effect for the next change.
func TestProtectionCountsBeforeTheChange(t *testing.T) {
	t.Parallel()
	guard := create(KindLayer, `{"id":"guard","priority":5,"all":true,"deletion_protection":true}`)
	gone, moved := remove(KindCluster, "c0", DeleteOptions{}), patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`)
	for _, edits := range []func(*Tx) error{both(guard, gone), both(gone, guard), both(guard, moved, gone)} {
		w := tiers(t, baseLayer)
		w.must(edits)
		require.True(t, w.state.docs[KindCluster]["c0"].Deleted())
		require.Contains(t, w.refused(CodeProtected, remove(KindCluster, "c1", DeleteOptions{})).Detail, "PATCH /layers/guard")
	}

	// A protection that existed before holds, with any other edits in any order.
	w := tiers(t, baseLayer, `{"id":"guard","priority":5,"selector":"tier=prod","deletion_protection":true}`)
	for _, lift := range []func(*Tx) error{
		patch(KindLayer, "guard", `{"deletion_protection":null}`), remove(KindLayer, "guard", DeleteOptions{}), patch(KindLayer, "guard", `{"selector":"tier=none"}`),
		create(KindLayer, `{"id":"free","priority":6,"all":true,"deletion_protection":false}`), patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`),
	} {
		for _, orphan := range []bool{false, true} {
			gone := remove(KindCluster, "c2", DeleteOptions{Orphan: orphan})
			require.Contains(t, w.refused(CodeProtected, both(lift, gone)).Detail, "PATCH /layers/guard")
		}
	}
	// So does one in the document itself, even if the same change sets it.
	w.refused(CodeProtected, both(patch(KindCluster, "c0", `{"deletion_protection":true}`), gone))
}

// TestOrphansRecordDefinitionsOfLayers, until their name is registered again.
func TestOrphansRecordDefinitionsOfLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(remove(KindCluster, "c0", DeleteOptions{Orphan: true}))
	require.Zero(t, w.plan(create(KindCluster, `{"id":"same","cluster_dns":"c0.example.com","environment":"dev"}`)).Totals.Removals, "the layer gives it all again")
	w.must(patch(KindLayer, "base", `{"rolebindings":[]}`))
	require.Equal(t, 1, w.plan(create(KindCluster, `{"id":"same","cluster_dns":"c0.example.com","environment":"dev"}`)).Totals.Removals)
}

// TestClustersWithoutSettingsShareLists, and a commit about other clusters leaves them and their answers unchanged.
func TestClustersWithoutSettingsShareLists(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	c2, c3 := w.state.Effective(w.state.docs[KindCluster]["c2"]), w.state.Effective(w.state.docs[KindCluster]["c3"])
	require.NotSame(t, c2, c3)
	require.Same(t, c2.chain, c3.chain)
	require.Same(t, &c2.cluster.PlatformComponents[0], &c3.cluster.PlatformComponents[0])
	before := w.state
	w.must(patch(KindCluster, "c3", `{"labels":{"tier":"prod","x":"y"}}`))
	require.Same(t, c2, w.state.Effective(w.state.docs[KindCluster]["c2"]))
	require.NotSame(t, c3, w.state.Effective(w.state.docs[KindCluster]["c3"]))
	require.Same(t, c2.chain, w.state.Effective(w.state.docs[KindCluster]["c3"]).chain)
	w.must(patch(KindComponent, "loki", `{"component_version":"2"}`))
	require.Same(t, c2, w.state.Effective(w.state.docs[KindCluster]["c2"]))
	w.must(create(KindLayer, `{"id":"other","priority":3,"selector":"tier=dev"}`))
	require.Same(t, c2, w.state.Effective(w.state.docs[KindCluster]["c2"]))
	require.Same(t, c2, before.Effective(before.docs[KindCluster]["c2"]))
	w.must(patch(KindLayer, "prod", `{"description":"new"}`))
	require.NotSame(t, c2, w.state.Effective(w.state.docs[KindCluster]["c2"]))
	require.Empty(t, w.plan(patch(KindLayer, "prod", `{"description":"newer"}`)).Groups)
}

// TestLayersInABatchSeeEachOther: each operation sees the effects of earlier ones on layers and labels.
func TestLayersInABatchSeeEachOther(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(batch(
		`{"op":"create","kind":"layer","document":{"id":"logs","priority":7,"selector":"logs=yes","platform_components":[{"id":"loki"}]}}`,
		`{"op":"set_labels","cluster_ids":["c1"],"labels":{"logs":"yes"}}`,
		`{"op":"patch_values","cluster_ids":["c1"],"component_id":"loki","values":{"a":1}}`))
	require.Equal(t, map[string]any{"a": 1.0}, component(t, w.state, "c1.example.com", "loki")["values"])
	w.refused(CodeInvalid, batch(
		`{"op":"delete","kind":"layer","id":"logs"}`,
		`{"op":"patch_values","cluster_ids":["c1"],"component_id":"loki","values":{"a":2}}`))
	past := &log{past: Documents{KindLayer: {"logs": nil}}}
	restore := func(tx *Tx) error {
		_, err := NewBatch(tx, past).Run(parsedOperations(t, `[{"op":"restore","revision":1}]`))
		return err
	}
	plan := w.plan(restore)
	require.Equal(t, 1, plan.Totals.Removals)
	w.must(confirmed(plan.PlanHash, restore))
	require.Nil(t, component(t, w.state, "c1.example.com", "loki"))
}

// TestSeedsHaveLayers, in any order with the documents that they refer to.
func TestSeedsHaveLayers(t *testing.T) {
	t.Parallel()
	seed, err := ParseSeed([]byte(`{"layers":[{"id":"base","priority":1,"all":true,"namespaces":[{"id":"web"}],"patches":{"c":{"a":null}}}],
		"clusters":[{"_id":"a","cluster_dns":"a.example.com","environment":"dev"}],"namespaces":[{"id":"web"}],
		"components":[{"id":"c","component_path":"p","oci_url":"https://charts.example.com"}]}`))
	require.NoError(t, err)
	require.NoError(t, seed.Check(testRules, nil))
	w := newWorld(t)
	w.must(seed.Create)
	require.Equal(t, []string{"web"}, ids(inputsOf(t, w.state, "a.example.com", KindNamespace)))
	require.Equal(t, "null", string(w.state.docs[KindLayer]["base"].layer().Patches["c"]["a"]))
}

// TestOlderProcessRefusesNewKinds: the answers of a process that does not know a kind would lack its effect. It loads no store that
// has such a document, and applies no commit with one.
func TestOlderProcessRefusesNewKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindLayer), `{"id":"base","priority":1,"all":true}`, string(KindNamespace), `{"id":"web"}`)
	w.must(rollOut(w, "r", devFirst, patchOp(KindNamespace, "web", `{"labels":{"a":"b"}}`)))
	w.must(act("r", RolloutStart))
	for _, kind := range []Kind{KindLayer, KindRollout} {
		old := newKindSet(modelWithQuotas, componentKind.describe(), namespaceKind.describe(), roleBindingKind.describe(), quotaKind.describe())
		delete(old.byName, kind)
		_, err := old.state(testRules, w.state.head, w.state.at, slices.Collect(w.state.Records()))
		require.ErrorContains(t, err, fmt.Sprintf("a document of kind %q, which this version does not know", kind))
		empty, err := old.state(testRules, Head{}, time.Time{}, nil)
		require.NoError(t, err)
		delete(empty.docs, kind)
		_, err = empty.Apply(Commit{Revision: 1, Changes: []Change{{Kind: kind, ID: "base", After: json.RawMessage(`{"id":"base"}`)}}})
		require.ErrorContains(t, err, `which this version does not know`)
	}
}

// TestUnreadableLayerIsRefused: a layer that another version wrote in an unreadable form must not count as one that matches
// no cluster.
func TestUnreadableLayerIsRefused(t *testing.T) {
	t.Parallel()
	for selects, says := range map[string]string{
		`"selector":"tier in ("`: `layer "prod" cannot be read: `, `"selector":" "`: `has neither all nor a selector`, `"description":""`: `has neither all nor a selector`,
	} {
		w := tiers(t, baseLayer, prodLayer)
		stored, err := w.state.Find(KindLayer, "prod")
		require.NoError(t, err)
		wrong := strings.Replace(string(stored.Body), `"selector":"tier=prod"`, selects, 1)
		require.NotEqual(t, string(stored.Body), wrong)
		var records []Record
		for r := range w.state.Records() {
			if r.Kind == KindLayer && r.ID == "prod" {
				r.Body = json.RawMessage(wrong)
			}
			records = append(records, r)
		}
		_, err = NewState(testRules, w.state.head, w.state.at, records)
		require.ErrorContains(t, err, says)
		_, err = w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{Kind: KindLayer, ID: "prod", After: json.RawMessage(wrong)}}})
		require.ErrorContains(t, err, says)
		w.refused(CodeInvalid, create(KindLayer, `{"id":"other","priority":30,`+selects+`}`))
	}
}

// TestOverriddenLayerSettingIsAWarning: a higher layer overrides it on each of its clusters.
func TestOverriddenLayerSettingIsAWarning(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	vain := `the patch "replicas" of component "grafana" has no effect in layer "eu": a higher layer overrides it on all its clusters`
	res := w.must(create(KindLayer, `{"id":"eu","priority":15,"selector":"region=eu","patches":{"grafana":{"replicas":"2"}}}`))
	require.NotContains(t, res.Warnings, vain, "c1 is in no higher one")
	res = w.must(patch(KindLayer, "eu", `{"selector":"region=eu,tier=prod","overrides":{"grafana":{"component_version":"1"}}}`))
	require.Contains(t, res.Warnings, vain)
	require.Contains(t, res.Warnings, `component_version of platform component "grafana" has no effect in layer "eu": a higher layer overrides it on all its clusters`)
	require.Equal(t, "17.1.0", component(t, w.state, "c2.example.com", "grafana")["component_version"])

	// Clusters override all layers.
	own := `oci_tag of platform component "grafana" has no effect in layer "prod": all its clusters override it themselves, or a higher layer does`
	tagged := put(KindLayer, "prod", `{"overrides":{"grafana":{"oci_tag":"l","component_version":"17.1.0"}}}`)
	w.must(assign("c2", KindComponent, "grafana", `{"oci_tag":"c"}`))
	require.NotContains(t, w.plan(tagged).Warnings, own, "c3 says nothing")
	for _, cluster := range []string{"c2", "c3"} {
		w.must(assign(cluster, KindComponent, "grafana", `{"oci_tag":"c"}`))
		w.must(assign(cluster, ResourceKind("quotas"), "small", `{"overrides":{"cpu":1}}`))
	}
	warnings := w.plan(tagged).Warnings
	require.Contains(t, warnings, own)
	require.NotContains(t, strings.Join(warnings, "\n"), "component_version of")
	quota := create(KindLayer, `{"id":"top","priority":99,"selector":"tier=prod","resources":{"quotas":[{"id":"small","overrides":{"cpu":5}}]}}`)
	require.Contains(t, strings.Join(w.plan(quota).Warnings, "\n"), `"small" has no effect in layer "top": all its clusters override it themselves`)
}

// TestLayersAreCheckedAgainstDefinitions, even if no cluster is affected now: the layer matches none, or a higher one hides
// the setting.
func TestLayersAreCheckedAgainstDefinitions(t *testing.T) {
	t.Parallel()
	const say = `"resources":{"quotas":[{"id":"small","overrides":{"cpu":4}}]},"patches":{"grafana":{"replicas.n":"3","gone":null}}`
	for name, others := range map[string][]string{
		"matches nobody": {`{"id":"low","priority":5,"selector":"tier=none",` + say + `}`},
		"is hidden": {
			`{"id":"low","priority":5,"all":true,` + say + `}`,
			`{"id":"high","priority":6,"all":true,"resources":{"quotas":[{"id":"small","overrides":{"cpu":1}}]},"patches":{"grafana":{"replicas.n":null}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, append(others, baseLayer)...)
			narrow := patch(KindResourceType, "quotas", `{"schema":{"properties":{"cpu":{"maximum":2}}}}`)
			require.Contains(t, fmt.Sprint(w.refused(CodeInvalid, narrow).Problems), `layer "low": resources/quotas/0/overrides/cpu: maximum: got 4, want 2`)
			require.Contains(t, fmt.Sprint(w.refused(CodeInvalid, patch(KindResourceType, "quotas", `{"overridable":[]}`)).Problems), `layer "low": resources/quotas/0/overrides/cpu: may not be set otherwise`)
			require.Contains(t, fmt.Sprint(w.refused(CodeInvalid, patch(KindComponent, "grafana", `{"type":"kustomize","oci_url":"oci://x.example.com/g"}`)).Problems), `layer "low": patches/grafana/replicas.n: `)
			w.must(patch(KindComponent, "grafana", `{"patches":{"replicas":"2"}}`))

			// Both in one change are accepted, and a problem that was stored before does not refuse other changes.
			w.must(both(narrow, patch(KindLayer, "low", `{"resources":{"quotas":[{"id":"small","overrides":{"cpu":2}}]}}`)))
			bad, _ := w.state.Get(KindLayer, "low")
			body := strings.Replace(string(bad.Body), `"cpu":2`, `"cpu":9`, 1)
			doc, err := w.state.kinds.document(Record{Kind: KindLayer, ID: "low", Body: []byte(body), Revision: bad.Revision, CreatedAt: bad.CreatedAt, UpdatedAt: bad.UpdatedAt})
			require.NoError(t, err)
			w.state.docs[KindLayer]["low"] = doc
			require.Contains(t, strings.Join(w.must(patch(ResourceKind("quotas"), "small", `{"spec":{"cpu":2}}`)).Warnings, "\n"), "stored before and still wrong: ")
		})
	}
}

// TestProblemsNameTheLayer, if settings of several documents contradict each other: a pointer into the cluster's document
// would lead nowhere.
func TestProblemsNameTheLayer(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(create(KindResourceType, `{"id":"ranges","overridable":["low","high"],"schema":{"type":"object","additionalProperties":false,"not":{"properties":{"low":{"const":1},"high":{"const":1}}},"properties":{"low":{"type":"integer","default":0},"high":{"type":"integer","default":0}}}}`))
	w.must(create(ResourceKind("ranges"), `{"id":"r","spec":{}}`))
	w.must(create(KindLayer, `{"id":"low","priority":20,"selector":"tier=prod","resources":{"ranges":[{"id":"r","overrides":{"low":1}}]}}`))
	w.must(create(KindLayer, `{"id":"high","priority":21,"selector":"wide","resources":{"ranges":[{"id":"r","overrides":{"high":1}}]}}`))
	label := `{"labels":{"tier":"prod","wide":"1"}}`
	refused := w.refused(CodeInvalid, patch(KindCluster, "c2", label))
	require.Empty(t, refused.Problems[0].Pointer)
	require.Contains(t, refused.Detail, `ranges "r": overrides: `)
	require.Contains(t, refused.Detail, `(set by layer "high", layer "low")`)
	refused = w.refused(CodeInvalid, patch(KindLayer, "high", `{"selector":"tier"}`))
	require.Contains(t, refused.Detail, `cluster "c2": ranges "r": overrides: `)

	// The cluster's own setting has a pointer; for others, the layer is named.
	w.must(assign("c0", ResourceKind("ranges"), "r", `{"overrides":{"high":1}}`))
	refused = w.refused(CodeInvalid, patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))
	require.Equal(t, "/resources/ranges/0/overrides", refused.Problems[0].Pointer)
	require.Contains(t, refused.Detail, `(set by layer "low")`)

	// A stored layer that is invalid by itself: the pointer to the value, and the layer.
	docs := `{"id":"bad","priority":22,"selector":"stray","resources":{"quotas":[{"id":"small","overrides":{"cpu":"many"}}]}}`
	w.must(create(KindLayer, strings.Replace(docs, `"many"`, "1", 1)))
	body := w.state.docs[KindLayer]["bad"]
	doc, err := w.state.kinds.document(Record{Kind: KindLayer, ID: "bad", Revision: body.Revision, Body: []byte(strings.Replace(string(body.Body), `"cpu":1`, `"cpu":"many"`, 1))})
	require.NoError(t, err)
	w.state.docs[KindLayer]["bad"] = doc
	require.NoError(t, w.state.recomputeLayers(nil, nil, false, true))
	refused = w.refused(CodeInvalid, patch(KindCluster, "c1", `{"labels":{"stray":"1"}}`))
	require.Empty(t, refused.Problems[0].Pointer)
	require.Contains(t, refused.Detail, `quotas "small": overrides/cpu: `)
	require.Contains(t, refused.Detail, `(set by layer "bad")`)
	require.Contains(t, w.refused(CodeInvalid, func(tx *Tx) error { _, err := tx.SetLabels("c1", []byte(`{"stray":"1"}`)); return err }).Detail, `(set by layer "bad")`)
}

// TestTenThousandLayers are refused before they have been merged ten thousand times.
func TestTenThousandLayers(t *testing.T) {
	t.Parallel()
	w, made := tiers(t), 0
	w.refused(CodeLimitExceeded, func(tx *Tx) error {
		for ; made < 10_000; made++ {
			if _, err := tx.Create(KindLayer, fmt.Appendf(nil, `{"id":"l%d","priority":%d,"all":true}`, made, made)); err != nil {
				return err
			}
		}
		return nil
	})
	require.LessOrEqual(t, made, 2*maxLayers)
}

// TestStaysWarningIsOfTheEnd: whether a layer keeps a definition on a cluster is decided on the fleet after the whole change.
func TestStaysWarningIsOfTheEnd(t *testing.T) {
	t.Parallel()
	unassign := `{"op":"unassign_rolebinding","cluster_ids":["c2"],"rolebinding_id":"readers"}`
	offLayer := `{"op":"unassign_rolebinding","layers":["base"],"rolebinding_id":"readers"}`
	for name, tc := range map[string]struct {
		change func(*Tx) error
		stays  bool
	}{
		"unassigned":             {batch(unassign), true},
		"deleted with cascade":   {remove(KindRoleBinding, "readers", DeleteOptions{Cascade: true}), false},
		"off its layer, too":     {batch(unassign, offLayer), false},
		"off its layer before":   {batch(offLayer, unassign), false},
		"excluded, too":          {both(batch(unassign), patch(KindCluster, "c2", `{"excludes":{"rolebindings":["readers"]}}`)), false},
		"assigned again":         {both(batch(unassign), assign("c2", KindRoleBinding, "readers", "")), false},
		"component with cascade": {remove(KindComponent, "grafana", DeleteOptions{Cascade: true}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, baseLayer, prodLayer)
			w.state.rules.MaxRemovals = 100
			w.must(both(assign("c2", KindRoleBinding, "readers", ""), assign("c2", KindComponent, "grafana", `{"oci_tag":"x"}`)))
			require.Equal(t, tc.stays, strings.Contains(strings.Join(w.must(tc.change).Warnings, "\n"), "stays where it comes from layer"))
		})
	}
}
