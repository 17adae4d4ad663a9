package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// The demo fleet's inputs are equal to the ones in the reference's own test suite.
func TestDemoFleetPolls(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		for _, resource := range []string{"platform-components", "namespaces", "rolebindings"} {
			golden(t, "demo-"+resource+".json", w.poll(demoPolls+"/"+resource).want(200).body)
		}
		golden(t, "demo-clusters.json", w.poll("/api/v2/flux/clusters").want(200).body)
	}
}

func TestDemoFleetOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, []string{"cert-manager", "traefik", "podinfo"}, w.poll(demoPolls+"/platform-components").ids())
	require.Equal(t, []string{"cert-manager", "traefik", "podinfo"}, w.poll(demoPolls+"/namespaces").ids())
	require.Equal(t, []string{"platform-admins", "dev-readers"}, w.poll(demoPolls+"/rolebindings").ids())
	require.Equal(t, []string{"demo-cluster-01"}, w.poll("/api/v2/flux/clusters").ids())
}
