package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestCausesBeyondTheLimit: clusters without a failure keep the group of their state when there are too many causes.
func TestCausesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	cluster := func(id string) *fleet.Document {
		doc, err := fleet.NewDocument(fleet.Record{Kind: fleet.KindCluster, ID: id, Body: []byte(`{"id":"` + id + `","cluster_dns":"` + id + `.example.com","namespaces":[],"rolebindings":[],"platform_components":[]}`)})
		require.NoError(t, err)
		return doc
	}
	failed := evaluatedCluster{doc: cluster("a"), status: clusterstatus.Status{State: clusterstatus.Failed}}
	for i := range maxCauses + 1 {
		failed.status.Failures = append(failed.status.Failures, clusterstatus.InputStatus{
			List: "namespaces", ID: fmt.Sprintf("n%d", i), State: clusterstatus.Failed, Failure: &clusterstatus.Event{Message: "it failed"},
		})
	}
	never := evaluatedCluster{doc: cluster("b"), status: clusterstatus.Status{State: clusterstatus.Never}}
	groups := mergeRareCauses(groupCauses(nil, []evaluatedCluster{failed, never}, nil))
	last := groups[len(groups)-1]
	require.Equal(t, clusterstatus.Never, last.state)
	require.Len(t, last.members, 1)
	for _, g := range groups {
		require.NotEmpty(t, g.members)
	}
}

// TestEveryStateHasUrgency: a state without an index would not be counted in the matrix.
func TestEveryStateHasUrgency(t *testing.T) {
	t.Parallel()
	for _, state := range append(clusterstatus.States(), clusterstatus.Superseded) {
		require.NotEqual(t, -1, urgencyIndex(state), state)
	}
}
