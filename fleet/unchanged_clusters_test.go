package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestLabelsArePlannedAlike: set_labels shares the other fields of each document in memory, and a patch of the document
// decodes all of it again. Both have the same plan, for any clusters.
func TestLabelsArePlannedAlike(t *testing.T) {
	t.Parallel()
	layer := create(KindLayer, `{"id":"l","priority":1,"selector":"wave=1","namespaces":[{"id":"other"}]}`)
	for name, before := range map[string]func(*Tx) error{
		"nothing else":         func(*Tx) error { return nil },
		"patches":              batch(`{"op":"patch_values","all":true,"component_id":"grafana","values":{"password":"x"}}`),
		"deletion protection":  batch(`{"op":"patch","kind":"cluster","id":"c000","patch":{"deletion_protection":true}}`),
		"a layer joined":       layer,
		"a layer for all":      create(KindLayer, `{"id":"l","priority":1,"all":true,"namespaces":[{"id":"other"}]}`),
		"a layer left":         both(layer, batch(`{"op":"set_labels","all":true,"labels":{"wave":"1"}}`)),
		"an excluded one":      both(layer, patch(KindCluster, "c000", `{"excludes":{"namespaces":["other"]}}`)),
		"a large definition":   patch(KindNamespace, "team", fmt.Sprintf(`{"annotations":{"blob":%q}}`, strings.Repeat("x", 200<<10))),
		"several large ones":   batch(`{"op":"patch_values","all":true,"component_id":"grafana","values":{"a":"` + strings.Repeat("x", 60<<10) + `"}}`),
		"a decommissioned one": remove(KindCluster, "c003", DeleteOptions{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 4)
			w.must(create(KindNamespace, `{"id":"other"}`))
			w.must(confirmedBy(w, before))
			for _, labels := range []string{`{"wave":"1"}`, `{"wave":"2"}`} {
				document := func(id string) string {
					return fmt.Sprintf(`{"op":"patch","kind":"cluster","id":%q,"patch":{"labels":%s}}`, id, labels)
				}
				edit := batch(`{"op":"set_labels","selector":"id in (c000,c001)","labels":` + labels + `}`)
				anew := batch(document("c000"), document("c001"))
				want, got := w.plan(anew), w.plan(edit)
				require.Equal(t, want, got)
				require.Equal(t, want, w.plan(anew), "what the last plan has found out is used")
				require.Equal(t, want, w.plan(edit))
				w.must(confirmed(got.PlanHash, edit))
			}
		})
	}
}

// TestCheckedClustersAreCheckedAgain after a change of a definition.
func TestCheckedClustersAreCheckedAgain(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 4)
	label := batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`)
	require.Empty(t, w.plan(label).Warnings)
	large := func(size int) func(*Tx) error {
		return patch(KindNamespace, "team", fmt.Sprintf(`{"annotations":{"blob":%q}}`, strings.Repeat("x", size)))
	}
	for i := range 3 {
		id := fmt.Sprintf("n%d", i)
		w.must(create(KindNamespace, fmt.Sprintf(`{"id":%q,"annotations":{"blob":%q}}`, id, strings.Repeat("x", 160<<10))))
		w.must(batch(`{"op":"assign_namespace","all":true,"namespace_id":"` + id + `"}`))
	}
	require.Empty(t, w.plan(label).Warnings)
	w.must(large(200 << 10))
	require.Contains(t, strings.Join(w.plan(label).Warnings, "\n"), "above 70 %")
	w.must(large(1))
	require.Empty(t, w.plan(label).Warnings)
}

// TestPlansWithoutEffectSkipInputs: the plan of a change of labels allocates the same for clusters with any number of
// components.
func TestPlansWithoutEffectSkipInputs(t *testing.T) { //nolint:paralleltest // allocations of other tests would count
	allocations := func(components int) float64 {
		docs := []string{}
		var entries []string
		for i := range components {
			docs = append(docs, string(KindComponent), fmt.Sprintf(`{"id":"c%d","component_path":"c%d","oci_url":"https://charts.example.com"}`, i, i))
			entries = append(entries, fmt.Sprintf(`{"id":"c%d"}`, i))
		}
		for i := range 50 {
			docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","platform_components":[%s]}`, i, i, strings.Join(entries, ",")))
		}
		w := newWorld(t, docs...)
		label := batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`)
		w.plan(label) // it caches that the clusters are valid
		res, err := w.try(label)
		require.NoError(t, err)
		return testing.AllocsPerRun(10, func() {
			_, err := res.Plan()
			require.NoError(t, err)
		})
	}
	require.InDelta(t, allocations(1), allocations(60), 5)
}

// TestSameAnswersComparesEverything: the answers are the same only if all values that they depend on are the same.
func TestSameAnswersComparesEverything(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(patch(KindCluster, "c0", `{"platform_components":[{"id":"grafana"}],"namespaces":[{"id":"team"}],"rolebindings":[{"id":"readers"}],`+
		`"resources":{"quotas":[{"id":"small"}]},"patches":{"grafana":{"replicas":"2"}},"excludes":{"namespaces":["kept"]}}`))
	e := w.state.Effective(w.state.docs[KindCluster]["c0"])
	same := func(edit func(e *Effective, c *api.Cluster)) bool {
		own, cluster := *e.withoutLayers().cluster, *e.cluster
		has := &Effective{id: e.id, cluster: &cluster, value: &cluster, chain: e.chain, own: &Effective{id: e.id, cluster: &own, value: &own}}
		if edit != nil {
			edit(has, &own)
		}
		return w.state.sameAnswers(w.state, e, has) && w.state.sameAnswers(w.state, has, e)
	}
	require.True(t, same(nil))
	require.True(t, same(func(_ *Effective, own *api.Cluster) { own.Labels = map[string]string{"a": "b"} }))
	for name, edit := range map[string]func(e *Effective, own *api.Cluster){
		"name":         func(e *Effective, _ *api.Cluster) { e.cluster.ClusterName = "other" },
		"DNS name":     func(e *Effective, _ *api.Cluster) { e.cluster.ClusterDNS = "other.example.com" },
		"environment":  func(e *Effective, _ *api.Cluster) { e.cluster.Environment = "prod" },
		"layers":       func(e *Effective, _ *api.Cluster) { e.chain = nil },
		"components":   func(_ *Effective, own *api.Cluster) { own.PlatformComponents = slices.Clone(own.PlatformComponents) },
		"namespaces":   func(_ *Effective, own *api.Cluster) { own.Namespaces = slices.Clone(own.Namespaces) },
		"role binding": func(_ *Effective, own *api.Cluster) { own.Rolebindings = nil },
		"resources":    func(_ *Effective, own *api.Cluster) { own.Resources = maps.Clone(own.Resources) },
		"no resources": func(_ *Effective, own *api.Cluster) { own.Resources = nil },
		"patches":      func(_ *Effective, own *api.Cluster) { own.Patches = maps.Clone(own.Patches) },
		"excludes":     func(_ *Effective, own *api.Cluster) { own.Excludes = new(*own.Excludes) },
	} {
		require.False(t, same(edit), name)
	}
	before := w.state
	w.must(patch(KindCluster, "c1", `{"labels":{"a":"b"}}`))
	require.True(t, w.state.sameAnswers(before, e, e), "another cluster changed")
	for _, edit := range []func(*Tx) error{
		patch(KindNamespace, "team", `{"labels":{"a":"b"}}`), patch(ResourceKind("quotas"), "small", `{"cpu":2}`), patch(KindResourceType, "quotas", `{"overridable":[]}`),
	} {
		before = w.state
		w.must(edit)
		require.False(t, w.state.sameAnswers(before, e, e), "a definition changed")
	}
}
