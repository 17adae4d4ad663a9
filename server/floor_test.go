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
	t.Run("the static token", func(t *testing.T) { t.Parallel(); pollBehind(t, func(*world) []string { return nil }) })
	t.Run("a token whose reports count for nothing", func(t *testing.T) {
		t.Parallel()
		pollBehind(t, func(w *world) []string { return bearer(w.issue(`{"name":"reader","role":"read"}`).secret) })
	})
}

func pollBehind(t *testing.T, credential func(w *world) []string) {
	t.Helper()
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
	a, b := credential(ahead), credential(behind)
	const label = `{"labels":{"changed":"yes"}}`
	for _, list := range []string{"/namespaces", "/platform-components"} {
		ahead.poll(demoPolls+list, a...).want(200)
		behind.poll(demoPolls+list, b...).want(200)
	}
	ahead.do("PATCH", "/namespaces/podinfo", label).want(200)
	ahead.poll(demoPolls+"/namespaces", a...).want(200)
	behind.poll(demoPolls+"/namespaces", b...).want(200) // it cannot know yet
	exchange()
	refused := behind.poll(demoPolls+"/namespaces", b...)
	require.Equal(t, "1", refused.problem(503, "store_unavailable").header.Get("Retry-After"))
	behind.poll(demoPolls+"/platform-components", b...).want(200)
	behind.do("PATCH", "/namespaces/podinfo", label).want(200)
	behind.poll(demoPolls+"/namespaces", b...).want(200)
}
