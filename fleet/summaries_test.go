package fleet

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// runBatch runs operations as a batch.
func runBatch(w *world, ops ...string) func(*Tx) error {
	return func(tx *Tx) error {
		tx.Guard(Guard{Off: true})
		var parsed []api.Operation
		if err := json.Unmarshal([]byte("["+strings.Join(ops, ",")+"]"), &parsed); err != nil {
			return err
		}
		_, err := NewBatch(tx, &w.log).Run(parsed)
		return err
	}
}

// TestSummariesNameChangedDocumentsOnly: `apply -f` of an export requests an update of every document, whether or not it was
// edited.
func TestSummariesNameChangedDocumentsOnly(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *world {
		w := revertWorld(t)
		w.must(func(tx *Tx) error {
			for i := range 40 {
				if err := create(KindNamespace, fmt.Sprintf(`{"id":"n%02d","labels":{"team":"x"}}`, i))(tx); err != nil {
					return err
				}
			}
			return create(KindLayer, `{"id":"l0","priority":1,"all":true}`)(tx)
		})
		w.must(create(KindLayer, `{"id":"l1","priority":2,"all":true,"platform_components":[{"id":"app"}]}`))
		return w
	}
	apply := func(edit map[string]string) []string {
		var ops []string
		for i := range 40 {
			id, labels := fmt.Sprintf("n%02d", i), `{"team":"x"}`
			if edited, ok := edit[id]; ok {
				labels = edited
			}
			ops = append(ops, fmt.Sprintf(`{"op":"update","kind":"namespace","id":%q,"document":{"labels":%s,"deletion_policy":"delete","annotations":{}}}`, id, labels))
		}
		return ops
	}
	for want, ops := range map[string][]string{
		"changed namespace/n37: labels":                                             apply(map[string]string{"n37": `{"team":"y"}`}),
		"changed namespace/n01, namespace/n37":                                      apply(map[string]string{"n37": `{"team":"y"}`, "n01": `{}`}),
		"changed namespace/n01, namespace/n02, namespace/n03 and 1 more":            apply(map[string]string{"n01": `{}`, "n02": `{}`, "n03": `{}`, "n39": `{}`}),
		"changed namespace/ns: labels":                                              {`{"op":"create","kind":"namespace","document":{"id":"gone"}}`, `{"op":"patch","kind":"namespace","id":"ns","patch":{"labels":{"a":"b"}}}`, `{"op":"delete","kind":"namespace","id":"gone"}`},
		"set oci_tag=v1 of component/app on 1 of 2 clusters (environment=dev)":      {`{"op":"set_component","component_id":"app","oci_tag":"v1","selector":"environment=dev"}`},
		"set oci_tag=v1 of component/app on 1 of 2 clusters":                        {`{"op":"set_component","component_id":"app","oci_tag":"v1","all":true}`},
		"set oci_tag=v1 of component/app on cluster/k1":                             {`{"op":"set_component","component_id":"app","oci_tag":"v1","cluster_ids":["k0","k1"]}`},
		"assigned component/app to layer/l0":                                        {`{"op":"assign_component","component_id":"app","layers":["l0","l1"]}`},
		"labelled cluster/k0: a":                                                    {`{"op":"assign_component","component_id":"app","cluster_ids":["k1"]}`, `{"op":"set_labels","cluster_ids":["k0"],"labels":{"a":"1"}}`},
		"set oci_tag=v2 of component/app on cluster/k0; labelled all 2 clusters: a": {`{"op":"set_component","component_id":"app","oci_tag":"v2","cluster_ids":["k0"]}`, `{"op":"set_labels","all":true,"labels":{"a":"1"}}`},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			require.Equal(t, want, inWords(w.must(runBatch(w, ops...))))
		})
	}
}

// TestRequestedOperationsAreKept: operations without changes are kept beside the summary, after the others, and counted.
func TestRequestedOperationsAreKept(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	var ops []string
	for i := range 30 {
		ops = append(ops, fmt.Sprintf(`{"op":"update","kind":"namespace","id":"ns","document":{"labels":{"a":"%d"}}}`, i/29))
	}
	ops = append(ops, `{"op":"set_component","component_id":"app","oci_tag":"v1","all":true}`)
	res := w.must(runBatch(w, ops...))
	made, more, unchanged := res.Commit.Requested()
	require.Equal(t, 31, len(made)+more)
	require.Equal(t, 28, unchanged, "the first and the last update change the labels")
	require.Equal(t, api.RevisionOperation{Op: "set_component", Kind: "platform_component", ID: "app", Clusters: 2, All: true, Fields: []string{"oci_tag=v1"}, Unchanged: 1}, made[2])
	require.Equal(t, api.RevisionOperation{Op: "update", Kind: "namespace", ID: "ns", Fields: []string{"labels"}, Unchanged: 1}, made[3])
}

// TestSummariesLeaveOutUndoneOperations: an operation that a later one of the same batch undid changed no document in the
// end.
func TestSummariesLeaveOutUndoneOperations(t *testing.T) {
	t.Parallel()
	const create, cascade = `{"op":"create","kind":"namespace","document":{"id":"new"}}`, `{"op":"delete","kind":"namespace","id":"extra","cascade":true}`
	for name, tc := range map[string]struct {
		ops  []string
		want string
	}{
		"assigned, deleted with cascade": {[]string{`{"op":"assign_namespace","namespace_id":"extra","all":true}`, cascade}, "deleted namespace/extra, off 1 cluster"},
		"assigned, unassigned":           {[]string{create, `{"op":"assign_namespace","namespace_id":"ns","cluster_ids":["k1"]}`, `{"op":"unassign_namespace","namespace_id":"ns","cluster_ids":["k1"]}`}, "created namespace/new"},
		"assigned, and something else of the cluster remains": {
			[]string{`{"op":"assign_namespace","namespace_id":"ns","cluster_ids":["k1"]}`, `{"op":"set_labels","cluster_ids":["k1"],"labels":{"a":"1"}}`, `{"op":"unassign_namespace","namespace_id":"ns","cluster_ids":["k1"]}`},
			"labelled cluster/k1: a",
		},
		"labelled, and back":  {[]string{`{"op":"set_labels","all":true,"labels":{"a":"1"}}`, `{"op":"set_labels","all":true,"labels":{"a":null}}`, create}, "created namespace/new"},
		"patched, and back":   {[]string{`{"op":"patch_values","component_id":"app","cluster_ids":["k0"],"values":{"x":1}}`, `{"op":"patch_values","component_id":"app","cluster_ids":["k0"],"values":{"x":null}}`, create}, "created namespace/new"},
		"assigned to a layer": {[]string{`{"op":"assign_namespace","namespace_id":"ns","layers":["base"]}`, `{"op":"patch","kind":"layer","id":"base","patch":{"description":"x"}}`, `{"op":"unassign_namespace","namespace_id":"ns","layers":["base"]}`}, "changed layer/base: description=x"},
		"one of two clusters": {[]string{`{"op":"assign_namespace","namespace_id":"ns","cluster_ids":["k0","k1"]}`, `{"op":"unassign_namespace","namespace_id":"ns","cluster_ids":["k0"]}`}, "assigned namespace/ns to cluster/k1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := revertWorld(t)
			w.must(func(tx *Tx) error {
				if _, err := tx.Create(KindNamespace, []byte(`{"id":"extra"}`)); err != nil {
					return err
				}
				if _, err := tx.Create(KindLayer, []byte(`{"id":"base","priority":1,"selector":"tier=none"}`)); err != nil {
					return err
				}
				_, err := tx.Assign("k1", KindNamespace, "extra", nil)
				return err
			})
			require.Equal(t, tc.want, inWords(w.must(runBatch(w, tc.ops...))))
		})
	}
}

// TestBatchReleasesIntermediateDocuments requires that a batch does not keep the versions of documents that later operations
// replaced: many operations on a large fleet would exhaust the memory.
func TestBatchReleasesIntermediateDocuments(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	tx := w.state.Begin()
	b := NewBatch(tx, &w.log)
	label := func(value string) {
		_, err := b.Run([]api.Operation{{Op: "set_labels", All: true, Labels: []byte(`{"a":"` + value + `"}`)}})
		require.NoError(t, err)
	}
	label("1")
	intermediate := weak.Make(tx.edits[docKey{KindCluster, "k0"}])
	require.NotNil(t, intermediate.Value())
	label("2")
	runtime.GC()
	require.Nil(t, intermediate.Value())
	runtime.KeepAlive(b)
}
