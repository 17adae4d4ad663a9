package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeavingClustersCount: management clusters provision from the list of all live clusters, so emptying it needs
// confirmation, although no object on the clusters themselves is uninstalled.
func TestLeavingClustersCount(t *testing.T) {
	t.Parallel()
	bare := func(w *world, n int) {
		for i := range n {
			w.must(create(KindCluster, fmt.Sprintf(`{"id":"b%d","cluster_dns":"b%d.example.com","environment":"dev"}`, i, i)))
		}
	}
	each := func(n int, format string) func(*Tx) error { return batch(entries(n, format)) }
	for name, c := range map[string]struct {
		edit     func(*Tx) error
		removals int
		reason   string
	}{
		"forgotten":             {each(6, `{"op":"delete","kind":"cluster","id":"c00%d","mode":"orphan"}`), 6, "6 clusters would leave the fleet, and more than 5 in an hour need to be confirmed"},
		"uninstalled and empty": {each(6, `{"op":"delete","kind":"cluster","id":"b%d"}`), 6, "6 clusters would leave the fleet"},
		"uninstalled": {
			both(remove(KindCluster, "c000", DeleteOptions{}), each(2, `{"op":"delete","kind":"cluster","id":"b%d"}`)), 6,
			"4 installed things would be removed from 1 cluster, and 2 clusters would leave the fleet",
		},
		"under another id":     {batch(`{"op":"delete","kind":"cluster","id":"b0","mode":"orphan"}`, `{"op":"create","kind":"cluster","document":{"id":"heir","cluster_dns":"b0.example.com","environment":"dev"}}`), 1, ""},
		"under another name":   {each(6, `{"op":"patch","kind":"cluster","id":"b%d","patch":{"cluster_dns":"other%[1]d.example.com"}}`), 0, ""},
		"what had left before": {nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 6)
			bare(w, 6)
			if c.edit == nil {
				gone := remove(KindCluster, "b0", DeleteOptions{})
				w.must(gone)
				c.edit = remove(KindCluster, "b0", DeleteOptions{Orphan: true})
			}
			plan := w.plan(c.edit)
			require.Equal(t, c.removals, plan.Totals.Removals)
			require.Equal(t, c.reason != "", plan.ConfirmationRequired)
			if c.reason == "" {
				w.must(c.edit)
				return
			}
			require.Contains(t, w.refused(CodeConfirm, c.edit).Detail, c.reason)
			w.must(confirmed(plan.PlanHash, c.edit))
		})
	}
	t.Run("one by one", func(t *testing.T) {
		t.Parallel()
		w := fleetOf(t, 6)
		for i := range 5 {
			w.must(remove(KindCluster, fmt.Sprintf("c%03d", i), DeleteOptions{Orphan: true}))
		}
		w.refused(CodeConfirm, remove(KindCluster, "c005", DeleteOptions{Orphan: true}))
	})
}

// TestModeIsForClusters: deleting or removing any other document uninstalls, so the mode orphan is refused there.
func TestModeIsForClusters(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	for _, op := range []string{
		`{"op":"delete","kind":"layer","id":"prod",%s}`,
		`{"op":"delete","kind":"platform_component","id":"grafana","cascade":true,%s}`,
		`{"op":"delete","kind":"namespace","id":"team","cascade":true,%s}`,
		`{"op":"delete","kind":"rolebinding","id":"readers","cascade":true,%s}`,
		`{"op":"delete","kind":"resource","type":"quotas","id":"small","cascade":true,%s}`,
		`{"op":"delete","kind":"resource_type","id":"quotas","cascade":true,%s}`,
		`{"op":"restore","revision":0,"kind":"cluster","id":"c0",%s}`,
		`{"op":"unassign_namespace","namespace_id":"team","layers":["base"],%s}`,
		`{"op":"patch","kind":"cluster","id":"c0","patch":{"labels":{}},%s}`,
	} {
		for _, mode := range []string{"orphan", "uninstall"} {
			refused := w.refused(CodeInvalid, batch(fmt.Sprintf(op, `"mode":"`+mode+`"`)))
			require.Equal(t, []Problem{{Pointer: "/operations/0", Detail: "mode: is for delete of kind cluster"}}, refused.Problems, op)
		}
	}
	w.must(batch(`{"op":"delete","kind":"cluster","id":"c0","mode":"orphan"}`, `{"op":"delete","kind":"cluster","id":"c1","mode":"uninstall"}`))
}
