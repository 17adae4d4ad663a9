package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestEndedFreezesDoNotCount: an ended freeze makes room for another one, and a freeze of all clusters needs none.
func TestEndedFreezesDoNotCount(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	freeze := func(id, rest string) func(*Tx) error {
		return create(KindFreeze, fmt.Sprintf(`{"id":%q,"reason":"x",%s}`, id, rest))
	}
	for i := range maxFreezes {
		w.must(freeze(fmt.Sprint("ended", i), `"selector":"tier=dev","until":"2001-01-01T00:00:00Z"`))
		w.must(freeze(fmt.Sprint("f", i), `"selector":"tier=dev"`))
	}
	require.Contains(t, w.refused(CodeLimitExceeded, freeze("more", `"selector":"tier=dev"`)).Detail, "at most 100 are possible")
	w.refused(CodeLimitExceeded, patch(KindFreeze, "ended0", `{"until":null}`))
	w.must(freeze("all", `"all":true`))
	w.must(patch(KindFreeze, "f0", `{"until":"2001-01-01T00:00:00Z"}`))
	w.must(freeze("more", `"selector":"tier=dev"`))
}

// TestClusterEntrySize: the computed size of a cluster in the list of clusters is never too small.
func TestClusterEntrySize(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c0", `{"cluster_name":"<\"\\&>","labels":{"a/b":"c","d":""}}`))
	for _, d := range w.state.All(KindCluster) {
		c := d.Cluster()
		text, err := json.Marshal(api.FluxClusterEntry{ID: c.ID, ClusterName: c.ClusterName, ClusterDNS: c.ClusterDNS, Environment: c.Environment, Labels: c.Labels})
		require.NoError(t, err)
		size := clusterEntrySize(d, time.Time{})
		require.GreaterOrEqual(t, size, len(text))
		require.LessOrEqual(t, size, len(text)+10)
	}
}

// TestLimitedIdentitiesLeaveLayerEntries: an identity with limits cannot use up the entries of layers.
func TestLimitedIdentitiesLeaveLayerEntries(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	tx := w.state.Begin()
	layers := &layerResolution{}
	next := &State{layers: layers}
	layers.cost.chainEntries = maxChainEntries * limitedTotal / 100
	tx.scope = &scope{grants: []grant{{access: &access{Access: api.Access{On: &api.AccessScope{}}}}}}
	require.NoError(t, tx.checkLayerCostInScope(next))
	layers.cost.chainEntries++
	require.ErrorContains(t, tx.checkLayerCostInScope(next), "400000 of the 500000 layer_entries")
	tx.scope.grants[0].On = nil
	require.NoError(t, tx.checkLayerCostInScope(next))
}
