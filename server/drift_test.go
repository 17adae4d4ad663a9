package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDrift: clusters on which a release has drifted are listed page by page until Flux corrects it or the component leaves them, and the
// drift is no failure.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(4, "qa")
	for i := range 4 {
		w.confirm(fmt.Sprintf("qa-%02d.example.com", i))
	}
	receipt := w.input("qa-01", "platform-components", "podinfo")["receipt"].(string)
	report := func(cluster, severity, reason string) {
		t.Helper()
		w.clock.advance(time.Minute)
		body := event(`{"component":"podinfo","input":"`+receipt+`"}`, "Cluster state of release podinfo/podinfo.v1 has drifted")
		body = strings.NewReplacer(`"error"`, `"`+severity+`"`, "UpgradeFailed", reason).Replace(body)
		w.tell(readToken, "/api/v2/flux/clusters/"+cluster+".example.com/events", body).want(202)
	}
	drifted := func(query string) []string {
		t.Helper()
		listed := w.get("/clusters?drifted=true" + query).want(200).ids()
		require.ElementsMatch(t, listed, clusterIDs(w.get("/status?drifted=true"+query).want(200)))
		return listed
	}
	require.Empty(t, drifted(""))
	for _, cluster := range []string{"qa-01", "qa-03", "qa-02"} {
		report(cluster, "error", "DriftDetected")
	}
	require.Equal(t, []string{"qa-01", "qa-02", "qa-03"}, drifted(""))
	require.Equal(t, []string{"qa-02"}, drifted("&selector=id%20in%20(qa-00,qa-02)"))
	require.Equal(t, []string{"qa-03"}, drifted("&component=podinfo&offset=2"))
	for _, list := range []string{"/clusters", "/status"} {
		page := w.get(list + "?drifted=true&limit=1").want(200)
		require.Equal(t, "3", page.header.Get("X-Total-Count"))
		require.Contains(t, string(w.get(nextLink(t, page)).want(200).body), `"qa-02"`)
	}
	require.Len(t, w.get("/clusters?drifted=false").want(200).ids(), 5)
	in := w.input("qa-01", "platform-components", "podinfo")
	require.Equal(t, "confirmed", in["state"])
	require.NotContains(t, in, "failure")
	require.Equal(t, "DriftDetected", at(in, "drift", "reason"))
	summary := at(w.get("/status?selector=id%3Dqa-01").want(200).json(), "clusters", 0).(map[string]any)
	require.Equal(t, 1.0, summary["drifted"])
	require.Equal(t, at(in, "drift", "at"), summary["drifted_at"])

	report("qa-01", "info", "DriftCorrected")
	require.Equal(t, []string{"qa-02", "qa-03"}, drifted(""))
	require.Equal(t, "DriftCorrected", at(w.input("qa-01", "platform-components", "podinfo"), "drift", "reason"))
	require.NotContains(t, at(w.get("/status?selector=id%3Dqa-01").want(200).json(), "clusters", 0), "drifted")
	w.batch(`{"op":"unassign_component","component_id":"podinfo","cluster_ids":["qa-02"]}`).want(200)
	require.Equal(t, []string{"qa-03"}, drifted(""))
	w.clock.advance(25 * time.Hour)
	require.Empty(t, drifted(""), "helm-controller has not repeated the report")
	w.get("/clusters?drifted=perhaps").problem(400, "validation_error")
}
