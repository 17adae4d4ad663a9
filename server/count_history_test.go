package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// TestStatusHistory: clusters are counted once in five minutes, for a day.
func TestStatusHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	count := w.http.Config.Handler.(*server.Server).CountClusters
	require.Empty(t, w.get("/status/history").want(200).json()["counts"])
	w.confirm(demoDNS)
	count()
	w.put("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	count()
	w.clock.advance(5 * time.Minute)
	count()
	counts := w.get("/status/history").want(200).json()["counts"].([]any)
	require.Len(t, counts, 2)
	require.EqualValues(t, 3, at(counts[0], "total"))
	require.EqualValues(t, 0, at(counts[0], "progressing"), "the first count of an interval stays")
	w.clock.advance(25 * time.Hour)
	require.Empty(t, w.get("/status/history").want(200).json()["counts"])
}

// TestStatusHistoryNeedsUnlimitedRead: the counts are of all clusters.
func TestStatusHistoryNeedsUnlimitedRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	as := bearer(w.issue(scopedBody).secret)
	w.get("/status/history", as...).problem(403, "forbidden")
	w.create("/access", accessFor("team", `["read"]`, `{"selector":"team=web"}`))
	w.get("/status/history", as...).problem(403, "forbidden")
	w.create("/access", accessFor("all", `["read"]`, ""))
	w.get("/status/history", as...).want(200)
}

// TestStatusHistoryOfParts: the history has whether a cluster failed or was silent, and how many clusters failed or progressed with regard
// to a component.
func TestStatusHistoryOfParts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	count := w.http.Config.Handler.(*server.Server).CountClusters
	history := func(query string) []any { return w.get("/status/history?" + query).want(200).json()["counts"].([]any) }
	w.confirm(demoDNS)
	count()
	w.put("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	w.clock.advance(5 * time.Minute)
	w.confirm(demoDNS)
	w.put("/platform_components/podinfo", `{"component_version":"6.9.10"}`).want(200)
	count()
	w.clock.advance(5 * time.Hour)
	count()
	of := history("component=podinfo")
	require.Len(t, of, 3)
	for i, progressing := range []int{0, 1, 0} {
		require.EqualValues(t, progressing, at(of[i], "progressing"), i)
		require.EqualValues(t, 0, at(of[i], "failed"))
	}
	cluster := strings.TrimPrefix(demoCluster, "/clusters/")
	w.create("/clusters", `{"id":"later","cluster_dns":"later.example.com","environment":"dev"}`)
	own := history("cluster=" + cluster)
	require.Len(t, own, 2, "it was created within the first interval")
	for i, silent := range []int{0, 1} {
		require.EqualValues(t, silent, at(own[i], "silent"), i)
		require.EqualValues(t, 1, at(own[i], "total"))
	}
	require.Empty(t, history("cluster=later"), "it did not exist")
	w.get("/status/history?cluster=nobody").problem(404, "not_found")
	w.get("/status/history?component=nothing").problem(404, "not_found")
	w.get("/status/history?component=podinfo&cluster="+cluster).problem(400, "validation_error")

	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("team", `["read"]`, `{"selector":"id=`+cluster+`"}`))
	require.Len(t, w.get("/status/history?cluster="+cluster, as...).want(200).json()["counts"], 2)
	w.get("/status/history?cluster=later", as...).problem(404, "not_found")
	w.get("/status/history?component=podinfo", as...).problem(403, "forbidden")
}
