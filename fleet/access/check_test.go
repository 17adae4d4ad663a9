package access_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/access"
	"github.com/flux-resourceset/flux-resourceset/fleet/fleettest"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// checkOf returns the check of a token's rights, which the given access document grants.
func checkOf(t *testing.T, w *fleettest.World, may, on string) access.Check {
	t.Helper()
	w.Must(fleettest.Create(fleet.KindAccess, fmt.Sprintf(`{"id":"team","subjects":[{"token":"ci"}],"may":%s,"on":%s}`, may, on)))
	rights := w.State.Rights(&fleet.Subject{Token: "ci"}, w.Now)
	return access.Check{Context: t.Context(), Rights: &rights, Self: true, History: &w.Log, At: w.Now}
}

// TestRight: a right on one document is decided by the checks of a commit that changes it, and one on a kind by the access documents.
func TestRight(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	c := checkOf(t, w, `["read","write"]`, `{"selector":"tier=dev","kinds":["cluster","layer"]}`)
	at, err := c.Of(w.State)
	require.NoError(t, err)
	for name, query := range map[string]struct {
		access.RightQuery
		code fleet.Code // empty: allowed
	}{
		"a cluster within":          {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindCluster, ID: "c0"}, ""},
		"a cluster outside":         {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindCluster, ID: "c2"}, fleet.CodeNotFound},
		"a layer of all clusters":   {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindLayer, ID: "base"}, fleet.CodeOutOfScope},
		"another right":             {access.RightQuery{Right: fleet.RightApprove, Kind: fleet.KindCluster, ID: "c0"}, fleet.CodeOutOfScope},
		"reads a cluster within":    {access.RightQuery{Right: fleet.RightRead, Kind: fleet.KindCluster, ID: "c1"}, ""},
		"reads a cluster outside":   {access.RightQuery{Right: fleet.RightRead, Kind: fleet.KindCluster, ID: "c3"}, fleet.CodeNotFound},
		"a new layer within":        {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindLayer, ID: "new", Create: true}, ""},
		"a new layer outside":       {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindLayer, ID: "new", Create: true, Selector: "tier=prod"}, fleet.CodeOutOfScope},
		"some clusters":             {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindCluster}, ""},
		"some namespaces":           {access.RightQuery{Right: fleet.RightWrite, Kind: fleet.KindNamespace}, fleet.CodeOutOfScope},
		"a revert, reads in limits": {access.RightQuery{Right: fleet.RightRevert, Kind: fleet.KindCluster, ID: "c0"}, fleet.CodeOutOfScope},
	} {
		p, err := c.Right(at, query.RightQuery)
		require.NoError(t, err, name)
		require.Equal(t, query.code == "", p.Allowed, "%s: %v", name, p.Err)
		if !p.Allowed {
			require.Equal(t, query.code, p.Err.Code, "%s: %v", name, p.Err)
			continue
		}
		require.Equal(t, []string{"team"}, p.Access, name)
	}
}

// TestOperations: the operations of a commit are tried on what the subject may read, and then on the whole fleet. Nothing is committed.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer)
	c := checkOf(t, w, `["read","write"]`, `{"selector":"tier=dev","kinds":["cluster"]}`)
	at, err := c.Of(w.State)
	require.NoError(t, err)
	set := func(cluster string) []api.Operation {
		var ops []api.Operation
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `[{"op":"patch_values","cluster_ids":[%q],"component_id":"grafana","values":{"replicas":2}}]`, cluster), &ops))
		return ops
	}
	p, next, err := c.Operations(at, set("c0"), make([]map[string]any, 1))
	require.NoError(t, err)
	require.True(t, p.Allowed, "%v", p.Err)
	require.True(t, p.Whole)
	require.NotEqual(t, at, next)
	p, next, err = c.Operations(at, set("c2"), make([]map[string]any, 1))
	require.NoError(t, err)
	require.Equal(t, fleet.CodeNotFound, p.Err.Code, "it is not visible")
	require.Equal(t, at, next)
	require.Empty(t, w.Document(fleet.KindCluster, "c0").Cluster().Patches)
}
