package fleet

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Ownership survives every other kind of write.
func TestOwnershipSurvives(t *testing.T) {
	t.Parallel()
	const cluster = "demo-cluster-01"
	for name, edit := range map[string]func(*Tx) error{
		"labels":                     patch(KindCluster, cluster, `{"labels":{"a":"b"}}`),
		"another name":               put(KindCluster, cluster, `{"cluster_dns":"other.example.com","cluster_name":"other"}`),
		"other patches":              patch(KindCluster, cluster, `{"patches":{"podinfo":{"x":"1"}}}`),
		"the same patches":           patch(KindCluster, cluster, `{"patches":{"podinfo":{"replicaCount":"4"}},"labels":{"a":"b"}}`),
		"owners in the body":         put(KindCluster, cluster, `{"patch_owners":{"podinfo":{"mallory":["replicaCount"]}},"labels":{"a":"b"}}`),
		"an override":                assign(cluster, KindComponent, "podinfo", `{"oci_tag":"v2"}`),
		"another component":          func(tx *Tx) error { _, err := tx.Unassign(cluster, KindComponent, "traefik"); return err },
		"the list of components":     put(KindCluster, cluster, `{"platform_components":[{"id":"podinfo"},{"id":"cert-manager"}]}`),
		"a namespace":                func(tx *Tx) error { _, err := tx.Unassign(cluster, KindNamespace, "podinfo"); return err },
		"the catalog":                patch(KindComponent, "podinfo", `{"patches":{"replicaCount":"9","y":"1"},"component_version":"1.2.3"}`),
		"a cascade":                  remove(KindRoleBinding, "dev-readers", DeleteOptions{Cascade: true}),
		"another manager":            batch(`{"op":"patch_values","all":true,"component_id":"podinfo","values":{"x":"1"},"field_manager":"else"}`),
		"what else a batch can do":   batch(`{"op":"set_component","all":true,"component_id":"podinfo","enabled":false}`, `{"op":"set_labels","all":true,"labels":{"a":"b"}}`, `{"op":"assign_component","all":true,"component_id":"podinfo"}`),
		"it relinquishes another's":  batch(`{"op":"relinquish_values","all":true,"component_id":"podinfo","field_manager":"else"}`),
		"and the full set of nobody": batch(`{"op":"apply_values","all":true,"component_id":"podinfo","values":{}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := on{demo(t)}
			o.w.must(both(o.set("ci", `{"replicaCount":"4"}`, false), o.set("else", `{"z":"1"}`, false)))
			require.NotEmpty(t, o.w.must(edit).Commit.Changes, "it is a change")
			require.Equal(t, []string{"replicaCount"}, o.managers()["ci"])
			require.Equal(t, `"4"`, o.values()["replicaCount"])
			o.w.refused(CodeFieldConflict, o.set("scaler", `{"replicaCount":"5"}`, false))
		})
	}
	t.Run("a deletion that is taken back", func(t *testing.T) {
		t.Parallel()
		o := on{demo(t)}
		o.w.must(o.set("ci", `{"replicaCount":"4"}`, false))
		was, _ := o.w.state.Get(KindCluster, cluster)
		o.w.must(remove(KindCluster, cluster, DeleteOptions{}))
		o.w.must(func(tx *Tx) error { _, err := tx.restore(KindCluster, cluster, was.Body); return err })
		require.Equal(t, []string{"replicaCount"}, o.managers()["ci"])
	})
}

// Ownership is part of a plan, even if no poll changes.
func TestPlanShowsOwnership(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 4)
	owned := func(edits ...string) []api.OwnershipChange { return w.plan(batch(edits...)).Ownership }
	set := func(clusters, manager, value string) string {
		return `{"op":"patch_values","component_id":"grafana",` + clusters + `,"values":{"a.b":"` + value + `"},"field_manager":"` + manager + `"}`
	}
	require.Empty(t, owned(set(`"all":true`, "", "1")), "the anonymous manager defends nothing")
	w.must(batch(set(`"selector":"environment=dev"`, "ci", "1"), set(`"cluster_ids":["c001"]`, "", "1")))

	plan := w.plan(batch(set(`"all":true`, "ann", "1")))
	require.Equal(t, 1, plan.Totals.Clusters, "only c003 did not have the value")
	got, err := json.Marshal(plan.Ownership)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"clusters":["c000","c002"],"component_id":"grafana","path":"a.b","before":["ci"],"after":["ann","ci"]},
		{"clusters":["c001","c003"],"component_id":"grafana","path":"a.b","before":[],"after":["ann"]}]`, string(got))

	// The hash covers it: a reviewed plan with one owner does not confirm another owner.
	edit := batch(set(`"cluster_ids":["c000"]`, "ann", "1"))
	hash := w.plan(edit).PlanHash
	w.must(confirmed(hash, batch(set(`"cluster_ids":["c000"]`, "ann", "1"))))
	again := w.plan(batch(set(`"cluster_ids":["c000"]`, "bob", "1")))
	require.NotEqual(t, hash, again.PlanHash)

	gone := owned(`{"op":"relinquish_values","cluster_ids":["c000","c002"],"component_id":"grafana","field_manager":"ci"}`)
	require.Equal(t, []api.OwnershipChange{
		{Clusters: []string{"c000"}, ComponentID: "grafana", Path: "a.b", Before: []string{"ann", "ci"}, After: []string{"ann"}},
		{Clusters: []string{"c002"}, ComponentID: "grafana", Path: "a.b", Before: []string{"ci"}, After: []string{}},
	}, gone)
	require.Empty(t, owned(`{"op":"delete","kind":"cluster","id":"c000"}`), "a cluster that goes says enough")
	require.Len(t, owned(`{"op":"unassign_component","cluster_ids":["c000"],"component_id":"grafana"}`), 1)
}

func TestValuesOperations(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 3)
	w.must(batch(
		`{"op":"unassign_component","cluster_ids":["c002"],"component_id":"grafana"}`,
		`{"op":"apply_values","all":true,"component_id":"grafana","values":{"x":"1","y":"1"},"field_manager":"ci"}`,
		`{"op":"apply_values","selector":"environment=dev","component_id":"grafana","values":{"x":"1"},"field_manager":"ci"}`,
	))
	values := func(cluster string) api.PatchValues {
		doc, _ := w.state.Get(KindCluster, cluster)
		return doc.OwnedPatches("grafana").Values
	}
	require.Equal(t, api.PatchValues{"x": json.RawMessage(`"1"`)}, values("c000"))
	require.Len(t, values("c001"), 2)
	require.Empty(t, values("c002"), "passed over: it does not have the component")

	for _, op := range []string{
		`{"op":"relinquish_values","all":true,"component_id":"grafana"}`,
		`{"op":"relinquish_values","all":true,"field_manager":"ci"}`,
		`{"op":"apply_values","all":true,"component_id":"grafana","field_manager":"ci"}`,
		`{"op":"relinquish_values","cluster_ids":["c002"],"component_id":"grafana","field_manager":"ci"}`,
		`{"op":"relinquish_values","selector":"environment=moon","component_id":"grafana","field_manager":"ci"}`,
	} {
		w.refused(CodeInvalid, batch(op))
	}
	e := w.refused(CodeFieldConflict, batch(`{"op":"apply_values","all":true,"component_id":"grafana","values":{"x":"2"},"field_manager":"ann"}`))
	require.Contains(t, e.Problems[0].Detail, `cluster "c000": /x`)
	w.must(batch(`{"op":"relinquish_values","all":true,"component_id":"grafana","field_manager":"ci","retain":true}`))
	require.Len(t, values("c001"), 2)
	w.must(batch(`{"op":"apply_values","all":true,"component_id":"grafana","values":{"x":"2"},"field_manager":"ann"}`, `{"op":"relinquish_values","all":true,"component_id":"grafana","field_manager":"ann"}`))
	require.Empty(t, values("c000"))
}
