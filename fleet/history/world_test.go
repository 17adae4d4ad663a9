package history_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/fleettest"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
)

// randomWorld returns a fleet after random commits to its layers, clusters and definitions. Some of them pin or unpin all clusters, if
// pins is set. committed is called after each commit.
func randomWorld(t *testing.T, rt *rapid.T, pins bool, committed func(*fleet.State)) *fleettest.World {
	t.Helper()
	w := fleettest.New(t, fixtures.Layered()...)
	committed(w.State)
	for range rapid.IntRange(1, 25).Draw(rt, "commits") {
		edits := []fleettest.Edit{fleettest.Unguarded}
		if pins && rapid.IntRange(0, 5).Draw(rt, "pin") == 0 {
			edits = append(edits, pinOrUnpin(w.State)...)
		} else {
			edits = append(edits, fleettest.Batch(fixtures.RandomLayerEdit(rt)))
		}
		if res, err := w.Try(edits...); err == nil && len(res.Commit.Changes) > 0 {
			w.Keep(res)
			committed(w.State)
		}
	}
	return w
}

// pinOrUnpin unpins all pinned clusters. If there are none, it pins all clusters.
func pinOrUnpin(s *fleet.State) []fleettest.Edit {
	var pin, unpin []fleettest.Edit
	for _, d := range s.All(fleet.KindCluster) {
		if d.Cluster().Pinned != nil {
			unpin = append(unpin, fleettest.Patch(fleet.KindCluster, d.ID, `{"pinned":null}`))
		}
		pin = append(pin, fleettest.Patch(fleet.KindCluster, d.ID, `{"pinned":{"reason":"INC-7"}}`))
	}
	if len(unpin) > 0 {
		return unpin
	}
	return pin
}
