package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypesWithoutReceipts: a type may declare that it sends none; otherwise there is a warning.
func TestTypesWithoutReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	res := w.must(create(KindResourceType, typeOf("things", configMap)))
	require.Contains(t, res.Warnings[0], `clusters never confirm inputs of resource type "things"`)
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	declared := func() bool {
		doc, _ := w.state.Get(KindCluster, "k")
		asked, err := w.state.DesiredInputs(doc)
		require.NoError(t, err)
		return asked[len(asked)-1].NoReceipts
	}
	require.False(t, declared())
	res = w.must(patch(KindResourceType, "things", `{"receipt":"none"}`))
	require.Empty(t, res.Warnings)
	require.True(t, declared())
	w.must(patch(KindResourceType, "things", `{"receipt":null}`))
	require.False(t, declared())
	doc, _ := w.state.Get(KindResourceType, "things")
	require.NotContains(t, string(doc.Body), "receipt", "nothing is stored of what is not declared")
	require.Equal(t, "/receipt", w.refused(CodeInvalid, patch(KindResourceType, "things", `{"receipt":"maybe"}`)).Problems[0].Pointer)
	res = w.must(create(KindResourceType, string(exampleTypes(t)["network-policies"])))
	require.Empty(t, res.Warnings)
	res = w.must(patch(KindResourceType, "network-policies", `{"receipt":"none"}`))
	require.Contains(t, res.Warnings[0], "makes receipts, and receipt is \"none\"")
}
