package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// requireSharedEffects requires that a plan shows each cluster the effect of comparing all of its inputs.
func requireSharedEffects(t require.TestingT, res Result, what string) {
	clusters, err := res.affected(true)
	require.NoError(t, err)
	slices.SortFunc(clusters, func(a, b affected) int { return compareNames(a.before, b.before) })
	shared, keys := res.effects(), map[string]string{}
	for _, a := range clusters {
		want := map[string]api.EndpointEffect{}
		if a.after != nil {
			for _, list := range res.lists() {
				alone := res.effects()
				one, err := alone.computedEffect(a, list, nil)
				require.NoError(t, err)
				one.removed = append(alone.removed.hiddenRemovals(a, list.kind, res.base), one.removed...)
				if len(one.key()) > 0 {
					want[list.endpoint] = one.view()
				}
			}
		}
		got, err := shared.on(a)
		require.NoError(t, err)
		require.Equal(t, want, got.Effect, "%s: %s", what, a.id)
		require.Equal(t, len(want) > 0 || got.Forgotten, got.key != "", "%s: %s", what, a.id)
		text, err := json.Marshal(got.EffectGroup)
		require.NoError(t, err)
		if other, present := keys[got.key]; present {
			require.Equal(t, other, string(text), "%s: the key of %s", what, a.id)
		}
		keys[got.key] = string(text)
	}
}

// TestEffectsAreSharedByEqualClustersOnly changes everything that an input is built of, on clusters that differ in it.
func TestEffectsAreSharedByEqualClustersOnly(t *testing.T) {
	t.Parallel()
	cluster := func(id, environment, rest string) string {
		return fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":%q,%s}`, id, id, environment, rest)
	}
	docs := []string{
		string(KindComponent), `{"id":"a","component_path":"p","oci_url":"oci://registry.example.com/a","cluster_env_enabled":true}`,
		string(KindComponent), `{"id":"b","component_path":"p","oci_url":"https://charts.example.com","depends_on":["a"],"patches":{"x":"1"}}`,
		string(KindComponent), `{"id":"c","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindComponent), `{"id":"d","component_path":"p/dev","oci_url":"oci://registry.example.com/d"}`,
	}
	for i, rest := range []string{
		`"platform_components":[{"id":"a"},{"id":"b"}]`,
		`"platform_components":[{"id":"b"},{"id":"a"}]`,
		`"platform_components":[{"id":"a"},{"id":"b"}],"patches":{"b":{"y":"2"}}`,
		`"platform_components":[{"id":"a"},{"id":"b"}],"patches":{"b":{"x":"2"}}`,
		`"platform_components":[{"id":"b"}]`,
		`"platform_components":[{"id":"a","enabled":false},{"id":"b"}]`,
		`"platform_components":[{"id":"a"},{"id":"b","component_version":"7.0.0"}]`,
		`"platform_components":[{"id":"a"},{"id":"b","enabled":false},{"id":"c"}]`,
		`"platform_components":[{"id":"c"},{"id":"b"},{"id":"a","component_path":"q"},{"id":"d"}]`,
	} {
		for _, environment := range []string{"dev", "prod"} {
			for n := range 2 {
				docs = append(docs, string(KindCluster), cluster(fmt.Sprintf("k%d-%s-%d", i, environment, n), environment, rest))
			}
		}
	}
	w := newWorld(t, docs...)
	for what, edit := range map[string]func(*Tx) error{
		"version":     patch(KindComponent, "b", `{"component_version":"2.0.0"}`),
		"patches":     patch(KindComponent, "b", `{"patches":{"x":"2"}}`),
		"environment": patch(KindComponent, "a", `{"cluster_env_enabled":false}`),
		"path":        patch(KindComponent, "d", `{"component_path":"p","cluster_env_enabled":true}`),
		"order": both(patch(KindCluster, "k0-dev-0", `{"platform_components":[{"id":"b"},{"id":"a"}]}`),
			patch(KindCluster, "k0-dev-1", `{"platform_components":[{"id":"b"},{"id":"a"}]}`)),
		"type":                     patch(KindComponent, "a", `{"oci_url":"https://charts.example.com","type":"helm"}`),
		"dependency":               patch(KindComponent, "b", `{"depends_on":["c"]}`),
		"release":                  patch(KindComponent, "b", `{"release_name":"other"}`),
		"deletion":                 remove(KindComponent, "a", DeleteOptions{Cascade: true}),
		"tags":                     batch(`{"op":"set_component","all":true,"component_id":"a","oci_tag":"v2"}`),
		"tags, and patches of one": batch(`{"op":"set_component","all":true,"component_id":"b","component_version":"3.0.0"},{"op":"patch_values","cluster_ids":["k0-dev-0"],"component_id":"b","values":{"z":"3"}}`),
		"both":                     batch(`{"op":"assign_component","all":true,"component_id":"c"},{"op":"patch","kind":"platform_component","id":"c","patch":{"oci_tag":"v3"}}`),
	} {
		tx := w.state.Begin()
		tx.Guard(Guard{Off: true})
		require.NoError(t, edit(tx), what)
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
		require.NoError(t, err, what)
		require.NotEmpty(t, res.Commit.Changes, what)
		requireSharedEffects(t, res, what)
	}
}

// TestEffectsOfNewInputsAreNotShared: clusters keep their patches of a component that they lost with a layer. When they get it again, each
// plan shows the patches of its own clusters.
func TestEffectsOfNewInputsAreNotShared(t *testing.T) {
	t.Parallel()
	docs := []string{
		string(KindComponent), `{"id":"a","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindLayer), `{"id":"l","priority":1,"selector":"team=a","platform_components":[{"id":"a"}]}`,
	}
	for i := range 3 {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","labels":{"team":"a"},"patches":{"a":{"x":"%d"}}}`, i, i, i))
	}
	w := newWorld(t, docs...)
	w.must(remove(KindLayer, "l", DeleteOptions{}))
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	require.NoError(t, batch(`{"op":"assign_component","all":true,"component_id":"a"}`)(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
	require.NoError(t, err)
	requireSharedEffects(t, res, "assign")
}

// TestEffectsOfUnresolvedClusters: a stored cluster refers to a missing definition, so that its answer is an error. It gets
// all inputs anew when the definition returns; clusters with the same settings get the changed one.
func TestEffectsOfUnresolvedClusters(t *testing.T) {
	t.Parallel()
	var docs []string
	for _, id := range []string{"a", "b", "c"} {
		docs = append(docs, string(KindComponent), fmt.Sprintf(`{"id":%q,"component_path":"p","oci_url":"https://charts.example.com"}`, id))
	}
	for i, entries := range []string{`{"id":"a"},{"id":"b"}`, `{"id":"a"},{"id":"b"},{"id":"c"}`, `{"id":"a"},{"id":"b"}`, `{"id":"a"},{"id":"b"},{"id":"c"}`} {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","platform_components":[%s]}`, i, i, entries))
	}
	w := newWorld(t, docs...)
	records := slices.DeleteFunc(slices.Collect(w.state.Records()), func(r Record) bool { return r.Kind == KindComponent && r.ID == "c" })
	var err error
	w.state, err = NewState(testRules, w.state.Head(), time.Time{}, records)
	require.NoError(t, err)
	res, err := w.try(both(create(KindComponent, docs[5]), patch(KindComponent, "a", `{"oci_tag":"v2"}`)))
	require.NoError(t, err)
	requireSharedEffects(t, res, "returns")
	plan, err := res.Plan()
	require.NoError(t, err)
	require.Equal(t, 2*3, plan.Totals.Added)
	require.Equal(t, 2, plan.Totals.Changed)

	res, err = w.try(patch(KindComponent, "b", `{"oci_tag":"v2"}`))
	require.NoError(t, err)
	_, err = res.Plan()
	require.ErrorContains(t, err, `cluster "k1" refers to the platform component "c", which is not in the store`)
}

// TestRandomEffectsAreShared runs random edits of a few clusters that share their definitions.
func TestRandomEffectsAreShared(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		docs := []string{
			string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com"}`,
			string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"oci://registry.example.com/x","depends_on":["c0"],"patches":{"A":"1"}}`,
			string(KindNamespace), `{"id":"n0"}`,
			string(KindRoleBinding), `{"id":"b0","role":"view","subjects":[{"kind":"User","name":"jo"}]}`,
		}
		for i := range 6 {
			docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":%q,"platform_components":[{"id":"c0"},{"id":"c1"}],"namespaces":[{"id":"n0"}],"rolebindings":[{"id":"b0"}]}`, i, i, []string{"dev", "prod"}[i%2]))
		}
		w := newWorld(t, docs...)
		for range rapid.IntRange(1, 10).Draw(rt, "commits") {
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			what, err := "", error(nil)
			for range rapid.IntRange(1, 6).Draw(rt, "edits") {
				edit, name := randomEdit(rt)
				if err = edit(tx); err != nil {
					break
				}
				what += name + "; "
			}
			var res Result
			if err == nil {
				res, err = tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			}
			if err != nil {
				var e *Error
				require.True(rt, errors.As(err, &e), "%s: %v", what, err)
				continue
			}
			requireSharedEffects(rt, res, what)
			w.state = res.State
		}
	})
}
