package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// rowsOf counts the clusters in a page's table.
func rowsOf(page string) int { return strings.Count(page, `<th scope="row"><a href="/ui/clusters/`) }

// A routine change of a healthy fleet raises no alarm, until the poll of a cluster is overdue.
func TestOverviewDuringAChange(t *testing.T) {
	t.Parallel()
	w := setup(t, 30)
	w.signIn(readToken)
	w.recover()
	require.Contains(t, w.get("/ui/").body, "<h1>No cluster needs attention</h1>")
	w.change(updatePodinfo)
	page := w.get("/ui/").body
	require.Contains(t, page, "<h1>No cluster needs attention</h1>")
	require.Contains(t, page, ">30 clusters</a> receive their new desired state")
	require.Equal(t, 30, rowsOf(w.get("/ui/clusters?state=progressing").body))
	w.advance(2*time.Minute + 10*time.Second) // their interval is a minute
	require.Contains(t, w.get("/ui/").body, "<h1>30 clusters need attention</h1>")
	require.Equal(t, 30, rowsOf(w.get("/ui/clusters?state=behind").body))
}

// A cluster that failed and stopped polling is among the failing clusters. When all are silent, the first page reports one problem.
func TestOverviewOfSilentClusters(t *testing.T) {
	t.Parallel()
	w := setup(t, 60) // 3 and 43 fail, 7 and 57 are silent, 9 is behind, 11 has never polled
	w.signIn(readToken)
	w.advance(4 * time.Minute)
	for i, doc := range w.replica.State().All(fleet.KindCluster) {
		if i != 3 { // it failed, and is silent from now on
			w.hear(i, doc, w.now())
		}
	}
	failed := w.get("/ui/clusters?state=failed").body
	require.Equal(t, 2, rowsOf(failed))
	require.Contains(t, failed, `cluster-0003`)
	require.Contains(t, failed, `<strong>UpgradeFailed</strong> <b>grafana</b> <span>timed out waiting`)
	require.Equal(t, 3, rowsOf(w.get("/ui/clusters?state=silent").body))
	require.Equal(t, 4, rowsOf(w.get("/ui/clusters?state=silent,failed").body))
	page := w.get("/ui/").body
	require.Contains(t, page, "<h1>5 clusters need attention</h1>", "each is counted once")
	require.NotContains(t, page, "All clusters are silent")

	w.advance(time.Hour)
	page = w.get("/ui/").body
	require.Contains(t, page, "<h1>All clusters are silent</h1>")
	require.Contains(t, page, "Check the address of this service")
	require.Zero(t, rowsOf(page))
}
