package kinds

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestAwaitedClusters(t *testing.T) {
	t.Parallel()
	rollout := func(reason string) *api.Rollout {
		return &api.Rollout{Waiting: &api.RolloutWaiting{Reason: reason, Stage: "one"}, Stages: []api.RolloutStageStatus{
			{Name: "zero", Progress: &api.RolloutProgress{ClusterIds: map[string][]string{"pending": {"z"}}}},
			{Name: "one", Progress: &api.RolloutProgress{ClusterIds: map[string][]string{"pending": {"c", "d", "e"}, "behind": {"a", "b"}, "failed": {"f"}, "confirmed": {"g"}, "pinned": {"p"}}}},
		}}
	}
	require.Equal(t, ": f, a, b, c, d and 1 more", awaitedClusters(rollout("confirmations")))
	require.Equal(t, ": p", awaitedClusters(rollout("pin")))
	require.Empty(t, awaitedClusters(rollout("soak")))
}
