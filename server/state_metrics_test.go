package server_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// inState returns the numbers of clusters and inputs in a state according to /metrics.
func (w *world) inState(state string) (clusters, inputs float64) {
	w.t.Helper()
	return w.metric(`flux_resourceset_clusters_by_state{state="` + state + `"}`), w.metric(`flux_resourceset_inputs_by_state{state="` + state + `"}`)
}

// counted invalidates the cached counts.
func (w *world) counted() { w.clock.advance(16 * time.Second) }

func TestStatesInMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	clusters, inputs := w.inState("never")
	require.Equal(t, 4.0, clusters)
	require.Equal(t, -1.0, inputs, "no input polls")
	require.Zero(t, w.metric("flux_resourceset_inputs_confirmed_ratio"))
	const oldest = "flux_resourceset_clusters_oldest_poll_timestamp_seconds"
	require.Equal(t, -1.0, w.metric(oldest))

	w.confirm(demoDNS)
	w.counted()
	_, inputs = w.inState("confirmed")
	require.Equal(t, 3.0, inputs)
	asked := 0.0
	for _, id := range []string{"demo-cluster-01", "qa-00", "qa-01", "qa-02"} {
		for _, in := range at(w.status(id), "inputs").([]any) {
			if enabled, _ := at(in, "enabled").(bool); enabled {
				asked++
			}
		}
	}
	require.InDelta(t, 3/asked, w.metric("flux_resourceset_inputs_confirmed_ratio"), 1e-9)
	clusters, _ = w.inState("never")
	require.Equal(t, 3.0, clusters)
	require.InDelta(t, float64(start.UnixMilli())/1000, w.metric(oldest), 0.001)

	// Failed and silent clusters are counted, and old ones that have never polled.
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	w.clock.advance(time.Minute)
	w.tell(readToken, demoEvents, event(`{"component":"podinfo","input":"`+receipt+`"}`, "x")).want(202)
	w.poll(demoPolls + "/platform-components").want(200)
	w.counted()
	clusters, inputs = w.inState("failed")
	require.Equal(t, []float64{1, 1}, []float64{clusters, inputs})
	require.Zero(t, w.metric("flux_resourceset_clusters_never_polled"), "they were made a moment ago")
	w.clock.advance(2 * time.Hour)
	clusters, _ = w.inState("silent")
	require.Equal(t, 1.0, clusters)
	require.Equal(t, 3.0, w.metric("flux_resourceset_clusters_never_polled"))
	require.NotContains(t, string(w.get("/metrics", "Authorization", "").want(200).body), "qa-0")

	// A decommissioned cluster is not expected to poll.
	w.delete("/clusters/qa-00").want(200)
	w.counted()
	require.Equal(t, 2.0, w.metric("flux_resourceset_clusters_never_polled"))
}

// The observations survive a restart, and so do the counts.
func TestStatesInMetricsAfterRestart(t *testing.T) {
	t.Parallel()
	table := sqlite.NewObservations(filepath.Join(t.TempDir(), "fleet.db"))
	tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
	before := setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus = tracker }})
	tracker.Sync(t.Context(), start)
	before.confirm(demoDNS)
	tracker.Sync(t.Context(), start)
	again := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		after := setupWith(t, options{mode: mode, configure: func(c *server.Config) { c.ClusterStatus = again }})
		if !again.Stats().Complete { // it has not read the observations of the others, so it does not report clusters that have never polled
			clusters, _ := after.inState("never")
			require.Equal(t, -1.0, clusters)
			require.Equal(t, -1.0, after.metric("flux_resourceset_clusters_never_polled"))
			require.Equal(t, 1.0, after.metric("flux_resourceset_fleet_revision"))
			again.Sync(t.Context(), start)
		}
		_, inputs := after.inState("confirmed")
		require.Equal(t, 3.0, inputs)
		clusters, _ := after.inState("never")
		require.Zero(t, clusters)
	}
}

// Scrapes share a count.
func TestStateCountsCached(t *testing.T) {
	t.Parallel()
	w := setup(t)
	clusters, _ := w.inState("never")
	require.Equal(t, 1.0, clusters)
	w.poll(demoPolls + "/namespaces").want(200)
	clusters, _ = w.inState("never")
	require.Equal(t, 1.0, clusters)
	w.counted()
	clusters, _ = w.inState("never")
	require.Zero(t, clusters)
}
