package fleet

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanHashCoversRemovals: a plan that was reviewed without removals, or with others, does not confirm the removals that
// the same change causes now, even if the answers to polls are as planned.
func TestPlanHashCoversRemovals(t *testing.T) {
	t.Parallel()
	off := batch(`{"op":"unassign_namespace","all":true,"namespace_id":"kept"}`)
	gone := func(lists string) func(*Tx) error {
		return create(KindCluster, `{"id":"gone","cluster_dns":"gone.example.com","environment":"dev",`+lists+`}`)
	}
	orphan := remove(KindCluster, "gone", DeleteOptions{Orphan: true})
	heir := create(KindCluster, `{"id":"heir","cluster_dns":"gone.example.com","environment":"dev"}`)
	const readers, grafana = `"rolebindings":[{"id":"readers"}]`, `"platform_components":[{"id":"grafana"}]`
	type edits []func(*Tx) error
	for name, c := range map[string]struct {
		before    edits
		edit      func(*Tx) error
		planned   int
		meanwhile edits
		now       int
		stands    bool
	}{
		"a namespace is no longer kept":     {nil, off, 0, edits{patch(KindNamespace, "kept", `{"deletion_policy":"delete"}`)}, 4, false},
		"another namespace is kept":         {nil, off, 0, edits{patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`)}, 0, true},
		"a name has a former cluster":       {nil, heir, 0, edits{gone(readers), orphan}, 1, false},
		"a former cluster had nothing":      {nil, heir, 0, edits{gone(`"labels":{}`), orphan}, 0, true},
		"a former cluster had other things": {edits{gone(readers), orphan}, heir, 1, edits{gone(readers + "," + grafana), orphan}, 2, false},
		"another one of its former things":  {edits{gone(readers), orphan}, heir, 1, edits{gone(grafana), orphan}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 4)
			for _, edit := range c.before {
				w.must(edit)
			}
			plan := w.plan(c.edit)
			require.Equal(t, c.planned, plan.Totals.Removals)
			for _, edit := range c.meanwhile {
				w.must(confirmedBy(w, edit))
			}
			now := w.plan(c.edit)
			require.Equal(t, c.now, now.Totals.Removals)
			if c.stands {
				w.must(confirmed(plan.PlanHash, c.edit))
				return
			}
			w.refused(CodeStale, confirmed(plan.PlanHash, c.edit))
			w.must(confirmed(now.PlanHash, c.edit))
		})
	}
}

// TestPlanHashStays: pipelines keep the hash of a plan while the server is upgraded, so the same change has the same hash in every
// version.
func TestPlanHashStays(t *testing.T) {
	t.Parallel()
	const markup = `"<a href=\"x\">&\u2028\u2029é"`
	for name, c := range map[string]struct {
		edit func(*Tx) error
		want string
	}{
		"labels":       {batch(`{"op":"set_labels","all":true,"labels":{"wave":"1"}}`), "8ebb6eb7ff9be5d6843ce686def2b578"},
		"version":      {batch(`{"op":"set_component","all":true,"component_id":"grafana","component_version":"9.9.9"}`), "0da6102b00284453a2d499b1dd66adac"},
		"markup":       {batch(`{"op":"patch_values","all":true,"component_id":"grafana","values":{"text":` + markup + `}}`), "42acaaef7911b0a11e64c0917b647be4"},
		"removal":      {batch(`{"op":"unassign_namespace","all":true,"namespace_id":"team"}`), "facc13bef8be69b3d228c53dddbef512"},
		"decommission": {remove(KindCluster, "c000", DeleteOptions{}), "353532c8f04df09879d6c298b12c3278"},
		"definition":   {patch(KindNamespace, "team", `{"annotations":{"text":`+markup+`}}`), "9056b9a7c49e95a3b209a1f011734f56"},
		"creation":     {create(KindNamespace, `{"id":"new","annotations":{"text":`+markup+`}}`), "aac9e6629d986c68f6494dd4a87c188a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 4)
			require.Equal(t, c.want, w.plan(c.edit).PlanHash)
		})
	}
}

// TestEncodeChange compares with the bytes of encoding/json.
func TestEncodeChange(t *testing.T) {
	t.Parallel()
	for _, ch := range []Change{
		{Kind: KindCluster, ID: "a"},
		{Kind: ResourceKind("types"), ID: "<&>\u2028\"\\\x01", After: json.RawMessage(`{"a":"<b>&\u2028` + "\u2028\u2029é" + `","n":1e2}`)},
		{Kind: KindNamespace, ID: "b", Before: json.RawMessage(`{}`), After: json.RawMessage(`"decommissioned"`)},
	} {
		want, err := json.Marshal(struct {
			Kind   Kind            `json:"kind"`
			ID     string          `json:"id"`
			Before json.RawMessage `json:"before"`
			After  json.RawMessage `json:"after"`
		}(ch))
		require.NoError(t, err)
		var got bytes.Buffer
		require.NoError(t, encodeChange(&got, ch))
		require.Equal(t, string(want)+"\n", got.String())
	}
}
