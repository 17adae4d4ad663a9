package server_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// A server whose copy is behind does not answer a cluster that another server has answered from a newer revision, as soon as it
// knows. Lists that did not change meanwhile are answered, and so is everything once it has caught up.
func TestPollBehindOtherServer(t *testing.T) {
	t.Parallel()
	table := sqlite.NewObservations(filepath.Join(t.TempDir(), "fleet.db"))
	var trackers []*clusterstatus.Tracker
	var worlds []*world
	for range 2 {
		tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
		trackers = append(trackers, tracker)
		worlds = append(worlds, setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus = tracker }}))
	}
	exchange := func() {
		for range 2 {
			for _, tracker := range trackers {
				tracker.Sync(t.Context(), start)
			}
		}
	}
	ahead, behind := worlds[0], worlds[1]
	const label = `{"labels":{"changed":"yes"}}`
	for _, list := range []string{"/namespaces", "/platform-components"} {
		ahead.poll(demoPolls + list).want(200)
		behind.poll(demoPolls + list).want(200)
	}
	ahead.do("PATCH", "/namespaces/podinfo", label).want(200)
	ahead.poll(demoPolls + "/namespaces").want(200)
	behind.poll(demoPolls + "/namespaces").want(200) // it cannot know yet
	exchange()
	refused := behind.poll(demoPolls + "/namespaces")
	require.Equal(t, "1", refused.problem(503, "store_unavailable").header.Get("Retry-After"))
	behind.poll(demoPolls + "/platform-components").want(200)
	behind.do("PATCH", "/namespaces/podinfo", label).want(200)
	behind.poll(demoPolls + "/namespaces").want(200)
}
