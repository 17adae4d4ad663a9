package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Each of these lines could be changed without a failing test before.

// TestPlanHashCoversTheEffect: the same change of the same documents is another plan if its effect on a cluster differs.
// Here a component's entry is patched, and the resulting input depends on a catalog that changed.
func TestPlanHashCoversTheEffect(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 2)
	edit := patch(KindCluster, "c000", `{"platform_components":[{"id":"grafana","enabled":true}]}`)
	hash := w.plan(edit).PlanHash
	w.must(patch(KindRoleBinding, "readers", `{"role":"edit"}`))
	require.Equal(t, hash, w.plan(edit).PlanHash, "nothing of it changed")

	// A new component: the effect is its input, which depends on the catalog.
	w.must(create(KindComponent, `{"id":"new","component_path":"p","oci_url":"https://charts.example.com"}`))
	assigned := assign("c000", KindComponent, "new", "")
	one := w.plan(assigned)
	w.must(patch(KindComponent, "new", `{"component_version":"2"}`))
	other := w.plan(assigned)
	require.Equal(t, one.Changes, other.Changes)
	require.Len(t, other.Groups, len(one.Groups))
	require.NotEqual(t, one.PlanHash, other.PlanHash, "another version would be installed")
	w.refused(CodeStale, confirmed(one.PlanHash, assigned))
	w.must(confirmed(other.PlanHash, assigned))
}

func TestPlanShowsReorderedInputs(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	swap := put(KindCluster, "c000", `{"platform_components":[{"id":"loki"},{"id":"grafana"}]}`)
	plan := w.plan(swap)
	require.Equal(t, api.PlanTotals{Clusters: 1}, plan.Totals)
	require.Len(t, plan.Groups, 1)
	require.True(t, plan.Groups[0].Effect["platform-components"].Reordered)
	require.NotContains(t, plan.Groups[0].Effect, "namespaces")

	// Adding and removing entries around others is no reordering.
	for _, edit := range []func(*Tx) error{
		put(KindCluster, "c000", `{"platform_components":[{"id":"loki"}]}`),
		put(KindCluster, "c000", `{"namespaces":[{"id":"kept"}]}`),
		both(create(KindNamespace, `{"id":"first"}`), put(KindCluster, "c000", `{"namespaces":[{"id":"first"},{"id":"team"},{"id":"kept"}]}`)),
	} {
		for _, group := range w.plan(edit).Groups {
			for _, effect := range group.Effect {
				require.False(t, effect.Reordered)
			}
		}
	}
	for before, after := range map[string]string{"ab": "ba", "abc": "acb", "abcd": "dab", "axb": "bya"} {
		require.True(t, reordered(strings.Split(before, ""), strings.Split(after, "")), "%s to %s", before, after)
	}
	for before, after := range map[string]string{"ab": "ab", "abc": "ac", "ac": "abc", "a": "b", "": "a", "axb": "ayb"} {
		require.False(t, reordered(strings.Split(before, ""), strings.Split(after, "")), "%s to %s", before, after)
	}
}

// TestBoundCountsTheClusterBlock: every input repeats it, so without it a cluster with a long name and many small inputs
// would exceed the bound.
func TestBoundCountsTheClusterBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 300
	var refs []string
	w.must(func(tx *Tx) error {
		for i := range n {
			if _, err := tx.Create(KindNamespace, fmt.Appendf(nil, `{"id":"n%d"}`, i)); err != nil {
				return err
			}
			refs = append(refs, fmt.Sprintf(`{"id":"n%d"}`, i))
		}
		return nil
	})
	dns := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "example.com"[:6]
	w.must(create(KindCluster, fmt.Sprintf(`{"id":"c","cluster_name":%q,"cluster_dns":%q,"environment":"prod","namespaces":[%s]}`,
		strings.Repeat("ä", 60), dns, strings.Join(refs, ","))))
	doc, _ := w.state.Get(KindCluster, "c")
	answer, err := w.state.Answer(doc, KindNamespace)
	require.NoError(t, err)
	require.Greater(t, answer.Size, n*250, "the block is most of it")
	require.GreaterOrEqual(t, w.state.bound(w.state.Effective(doc), w.state.kinds.descriptor(KindNamespace)), answer.Size)
}

// TestByteOrderMarkIsRefused in any text: YAML treats it as the start of a stream, wherever it occurs.
func TestByteOrderMarkIsRefused(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	for _, body := range []string{
		`{"cluster_name":"a%sb"}`, `{"labels":{"a":"%s"}}`, `{"labels":{"%s":"a"}}`, `{"patches":{"grafana":{"a":"x%s"}}}`,
		`{"patches":{"grafana":{"a%s":"x"}}}`, `{"patches":{"grafana":{"a":{"deep":["%s"]}}}}`, `{"vm_image":"%s"}`,
	} {
		for _, mark := range []string{"\ufeff", `\ufeff`} {
			e := w.refused(CodeInvalid, patch(KindCluster, "c000", fmt.Sprintf(body, mark)))
			require.Contains(t, e.Problems[0].Detail, "U+FEFF", body)
		}
	}
	w.refused(CodeInvalid, assign("c000", KindComponent, "grafana", "{\"oci_tag\":\"v1\ufeff\"}"))
	_, err := ParseSeed([]byte("\ufeff{}"))
	require.Error(t, err)
	_, err = ParseJSON([]byte("{\"a\":\"\ufeff\"}"))
	require.Error(t, err)
	var text json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(`"\ufeff"`), &text), "JSON itself has nothing against it")
}
