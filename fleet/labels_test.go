package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// labelsOf returns a body with n labels.
func labelsOf(id string, n int) string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprintf("l%d", i)] = "x"
	}
	body, err := json.Marshal(map[string]any{"id": id, "labels": labels})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// A document has a maximum number of labels, however they are set; a stored one with more may keep or reduce them.
func TestNumberOfLabels(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	w.must(create(KindNamespace, labelsOf("full", 64)))
	w.must(patch(KindCluster, "c000", labelsOf("c000", 64)))
	for _, edit := range []func(*Tx) error{
		create(KindNamespace, labelsOf("more", 65)),
		patch(KindNamespace, "full", `{"labels":{"one":"more"}}`),
		patch(KindCluster, "c000", `{"labels":{"one":"more"}}`),
		batch(`{"op":"set_labels","cluster_ids":["c000"],"labels":{"one":"more"}}`),
	} {
		refused := w.refused(CodeInvalid, edit)
		require.Equal(t, "/labels", refused.Problems[0].Pointer[len(refused.Problems[0].Pointer)-len("/labels"):])
		require.Contains(t, refused.Error(), "at most 64")
	}
	w.must(patch(KindNamespace, "full", `{"labels":{"l0":null,"one":"more"}}`))

	before, _ := w.state.Get(KindNamespace, "full")
	stored, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{
		Kind: KindNamespace, ID: "full", Before: before.Body,
		After: []byte(labelsOf("full", 70)[:len(labelsOf("full", 70))-1] + `,"annotations":{},"deletion_policy":"delete"}`),
	}}})
	require.NoError(t, err)
	w.state = stored
	w.must(patch(KindNamespace, "full", `{"annotations":{"a":"b"}}`))
	w.must(patch(KindNamespace, "full", `{"labels":{"l0":"y"}}`))
	w.refused(CodeInvalid, patch(KindNamespace, "full", `{"labels":{"one":"more"}}`))
	w.must(patch(KindNamespace, "full", `{"labels":{"l0":null}}`))
	w.refused(CodeInvalid, patch(KindNamespace, "full", `{"labels":{"l0":"back"}}`))
}
