package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecreatedType: while the type was deleted, its list was 404 and Flux kept everything. An empty list would uninstall
// it.
func TestRecreatedType(t *testing.T) {
	t.Parallel()
	type edits []func(*Tx) error
	const typed = `{"id":"volumes","overridable":["namespace","note"],"template":"` + volumeTemplate + `","schema":{"type":"object","additionalProperties":false,
		"required":["namespace"],"properties":{"namespace":{"type":"string"},"note":{"type":"string","default":""}}}}`
	again := create(KindResourceType, typed)
	seed := func(tx *Tx) error {
		seed, err := ParseSeed([]byte(`{"resource_types":[` + typed + `]}`))
		if err != nil {
			return err
		}
		return seed.Create(tx)
	}
	whole := func(namespace string) func(*Tx) error {
		return both(again, create(kindVolume, `{"id":"v","spec":{"namespace":"`+namespace+`"}}`), patch(KindLayer, "all", `{"resources":{"volumes":[{"id":"v"}]}}`))
	}
	for name, c := range map[string]struct {
		meanwhile edits
		edit      func(*Tx) error
		lose      int
	}{
		"POST":                      {nil, again, 3},
		"batch":                     {nil, batch(`{"op":"create","kind":"resource_type","document":` + typed + `}`), 3},
		"seed":                      {nil, seed, 3},
		"restore":                   {nil, nil, 3},
		"with everything":           {nil, whole("data"), 0},
		"with things named anew":    {nil, whole("store"), 3},
		"after a rename":            {edits{patch(KindCluster, "c0", `{"cluster_dns":"other.example.com"}`)}, again, 3},
		"one was orphaned":          {edits{remove(KindCluster, "c0", DeleteOptions{Orphan: true})}, again, 2},
		"one was decommissioned":    {edits{remove(KindCluster, "c0", DeleteOptions{})}, again, 3},
		"the cluster is edited too": {nil, both(again, patch(KindCluster, "c0", `{"labels":{"a":"b"}}`)), 3},
		"deleted with the cluster":  {nil, both(again, remove(KindCluster, "c0", DeleteOptions{})), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := volumes(t, 3, "")
			doc, _ := w.state.Get(KindResourceType, "volumes")
			if name == "restore" {
				c.edit = func(tx *Tx) error { _, err := tx.restore(KindResourceType, "volumes", doc.Body); return err }
			}
			w.must(confirmedBy(w, remove(KindResourceType, "volumes", DeleteOptions{Cascade: true})))
			for _, edit := range c.meanwhile {
				w.must(confirmedBy(w, edit))
			}
			w.state.rules.MaxRemovals = 50
			plan := w.plan(c.edit)
			require.Equal(t, c.lose, plan.Totals.Removals)
			require.Equal(t, c.lose > 0, plan.ConfirmationRequired)
			if c.lose == 0 {
				w.must(c.edit)
				return
			}
			require.Contains(t, plan.ConfirmationReason, `resource type "volumes" is there again`)
			require.Equal(t, []string{"v"}, groupWith(t, plan, "c1").Effect["volumes"].Removed)
			w.refused(CodeConfirm, c.edit)
			w.must(confirmed(plan.PlanHash, c.edit))
			require.Nil(t, w.state.docs[KindOrphan][keptID(kindVolume)])
			if name == "with things named anew" {
				return
			}
			w.must(confirmedBy(w, remove(KindResourceType, "volumes", DeleteOptions{Cascade: true})))
			require.False(t, w.plan(again).ConfirmationRequired, "nobody had any of it")
		})
	}
}

// TestRecreatedTypeAndOrphans: a cluster that was orphaned in the meantime is recorded by name, with its entries of the
// type.
func TestRecreatedTypeAndOrphans(t *testing.T) {
	t.Parallel()
	w := volumes(t, 2, "")
	w.must(confirmedBy(w, remove(KindResourceType, "volumes", DeleteOptions{Cascade: true})))
	w.must(confirmedBy(w, remove(KindCluster, "c0", DeleteOptions{Orphan: true})))
	w.must(confirmedBy(w, create(KindResourceType, `{"id":"volumes","schema":{"type":"object","additionalProperties":false,"properties":{}}}`)))
	heir := create(KindCluster, `{"id":"heir","cluster_dns":"c0.example.com","environment":"dev"}`)
	require.Equal(t, 1, w.plan(heir).Totals.Removals)
	w.refused(CodeConfirm, heir)
}
