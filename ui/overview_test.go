package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
