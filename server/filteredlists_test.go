package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPolledFilteredListsGuarded: once a management cluster has polled a filter, clusters do not leave its list unnoticed.
func TestPolledFilteredListsGuarded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(60, "qa")
	const off = `{"op":"set_labels","selector":"environment=qa","labels":{"team":null}}`
	w.batch(`{"op":"set_labels","selector":"environment=qa","labels":{"team":"a"}}`).want(200)
	require.Equal(t, false, w.plan(off)["confirmation_required"])
	w.get("/api/v2/flux/clusters?selector=team%3Da").want(200) // a person
	require.Equal(t, false, w.plan(off)["confirmation_required"])
	w.get("/api/v2/flux/clusters?selector=team%3Da", "User-Agent", "flux-operator/v0.58.0").want(200)
	plan := w.plan(off)
	require.Equal(t, true, plan["confirmation_required"])
	require.Contains(t, plan["confirmation_reason"], "60 clusters would leave a filtered list of clusters that is polled")
	w.unchanged(func() { w.batch(off).problem(409, "confirmation_required") })
}
