package server_test

import (
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
