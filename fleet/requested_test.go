package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// inWords returns the summary of a change.
func inWords(res Result) string { return res.Commit.Summary(res.Changes(), len(res.Commit.Changes)) }

// TestSummaries: history names the requested operations, for any effect and any route.
func TestSummaries(t *testing.T) {
	t.Parallel()
	run := func(ops ...string) func(*Tx) error {
		return func(tx *Tx) error {
			tx.Guard(Guard{Off: true})
			var parsed []api.Operation
			if err := json.Unmarshal([]byte("["+strings.Join(ops, ",")+"]"), &parsed); err != nil {
				return err
			}
			_, err := NewBatch(tx, &log{}).Run(parsed)
			return err
		}
	}
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf(`{"op":"create","kind":"namespace","document":{"id":"n%d"}}`, i)
	}
	for want, edit := range map[string]func(*Tx) error{
		"deleted component/app, off 2 clusters":                                         remove(KindComponent, "app", DeleteOptions{Cascade: true}),
		"deleted cluster/k0":                                                            remove(KindCluster, "k0", DeleteOptions{}),
		"forgot cluster/k0":                                                             remove(KindCluster, "k0", DeleteOptions{Orphan: true}),
		"created namespace/new":                                                         create(KindNamespace, `{"id":"new"}`),
		"changed component/app: component_version=6.9.0, patches":                       put(KindComponent, "app", `{"component_version":"6.9.0","patches":{"a":"secret"}}`),
		"changed cluster/k0: deletion_protection=true":                                  patch(KindCluster, "k0", `{"deletion_protection":true}`),
		"assigned namespace/ns to cluster/k0":                                           assign("k0", KindNamespace, "ns", ""),
		"assigned component/app to cluster/k0: enabled=false":                           assign("k0", KindComponent, "app", `{"enabled":false}`),
		"took component/app off cluster/k0":                                             func(tx *Tx) error { _, err := tx.Unassign("k0", KindComponent, "app"); return err },
		"set a, b of component/app on cluster/k0":                                       patchOwned("app", `{"a":"secret","b":"2"}`, "ci", false),
		"labelled cluster/k0: team":                                                     func(tx *Tx) error { _, err := tx.SetLabels("k0", []byte(`{"team":"x"}`)); return err },
		"set component_version=17.1.0 of component/app on 2 clusters (environment=dev)": run(`{"op":"set_component","component_id":"app","component_version":"17.1.0","selector":"environment=dev"}`),
		"set enabled=false of component/app on all 2 clusters":                          run(`{"op":"set_component","component_id":"app","enabled":false,"all":true}`),
		"took component/app off 2 clusters":                                             run(`{"op":"unassign_component","component_id":"app","cluster_ids":["k0","k1"]}`),
		"created namespace/n0, namespace/n1, namespace/n2 and 27 more":                  run(many...),
		"created namespace/n0; labelled cluster/k0: a; deleted namespace/ns; and 1 more operation": run(
			many[0], `{"op":"set_labels","cluster_ids":["k0"],"labels":{"a":"1"}}`, `{"op":"delete","kind":"namespace","id":"ns"}`, many[1]),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			res := revertWorld(t).must(edit)
			require.Equal(t, want, inWords(res))
			require.NotContains(t, string(res.Commit.Operations), "secret", "values are in the changes, and nowhere else")
			require.LessOrEqual(t, len(res.Commit.Operations), maxRequestedBytes)
		})
	}
	w := revertWorld(t)
	res := w.must(assign("k0", KindNamespace, "ns", ""))
	old := res.Commit
	old.Operations = nil
	require.Equal(t, "changed cluster/k0", old.Summary(res.Changes(), 1), "of a server that has not kept it")
	require.Equal(t, "changed cluster/k0 and 41 more", old.Summary(res.Changes(), 42))
	require.Equal(t, "reverted revision 2", inWords(w.must(revert(w, api.Operation{Revision: 2}))))
	require.Equal(t, "reverted revision 3 of cluster/k0", inWords(w.must(revert(w, api.Operation{Revision: 3, Kind: "cluster", ID: "k0"}))))
}

// TestRequestedOperationsAreBounded: the record in a commit has a maximum size.
func TestRequestedOperationsAreBounded(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	long := strings.Repeat("ü", 200)
	fields := make([]string, 200)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%s%d":"x"`, long, i)
	}
	var ops []api.Operation
	for range 500 {
		ops = append(ops, api.Operation{Op: "patch_values", ComponentID: "app", ClusterIds: []string{"k0", "k1"}, Values: []byte("{" + strings.Join(fields, ",") + "}")})
	}
	b := &Batch{tx: w.state.Begin()}
	for _, op := range ops {
		b.recordBatchOperation(op, nil, 2)
	}
	text, err := b.tx.requestedOperations(nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), maxRequestedBytes)
	stored, more, _ := Commit{Operations: text}.Requested()
	require.Equal(t, 500, len(stored)+more)
	require.NotEmpty(t, stored)
}

// TestOverrideLeavesTheChangeInTheSummary: the operations behind an override keep their effect, also a value that a cluster sets for a
// component of a layer.
func TestOverrideLeavesTheChangeInTheSummary(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{
		`{"op":"patch_values","cluster_ids":["c2"],"component_id":"grafana","values":{"replicas":9}}`:       "override freeze/we; set replicas of component/grafana on cluster/c2",
		`{"op":"set_component","cluster_ids":["c2"],"component_id":"grafana","component_version":"18.0.0"}`: "override freeze/we; set component_version=18.0.0 of component/grafana on cluster/c2",
	} {
		w := tiers(t, baseLayer, prodLayer)
		w.state.rules.MaxRemovals = 100
		w.must(create(KindFreeze, `{"id":"we","reason":"CHG-1","all":true}`))
		tx := w.state.Begin()
		tx.Guard(Guard{OverrideFreezes: []string{"we"}})
		require.NoError(t, batch(op)(tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test", Reason: "INC-1"})
		require.NoError(t, err)
		require.Equal(t, want, res.Commit.Summary(nil, 1))
	}
}
