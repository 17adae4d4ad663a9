package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestChangesFilter: the list of changes is limited to a time, an actor, a kind and a document, and says what it cannot read.
func TestChangesFilter(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.signIn(readToken)
	at := fleetCreatedAt().Truncate(time.Minute)
	env.committed = func() time.Time { return at.Add(3 * time.Hour) }
	env.edit(updatePodinfo)                          // revision 4
	for query, revisions := range map[string][]bool{ // of revision 1 to 4
		"":                            {true, true, true, true},
		"?since=" + formTime(at, 150): {false, false, false, true},
		"?until=" + formTime(at, 150): {true, true, true, false},
		"?since=" + formTime(at, 10) + "&until=" + formTime(at, 150):   {false, false, false, false},
		"?kind=cluster&id=cluster-0001&since=" + formTime(at, 150):     {false, false, false, true}, // served by another document
		"?kind=cluster&id=cluster-0001&until=" + formTime(at, 150):     {false, true, true, false},
		"?since=" + at.Add(150*time.Minute).UTC().Format(time.RFC3339): {false, false, false, true},
		"?actor=nobody": {false, false, false, false},
		"?kind=layer":   {true, false, false, false},
	} {
		page := env.get("/ui/changes" + query)
		require.Equal(t, http.StatusOK, page.status, query)
		for i, listed := range revisions {
			require.Equal(t, listed, containsRevision(page.body, i+1), "%s: revision %d", query, i+1)
		}
	}
	for _, query := range []string{"?since=yesterday", "?until=2026-13-40T00:00", "?id=cluster-0001", "?since=%3Cimg%20src=x%3E"} {
		page := env.get("/ui/changes" + query)
		require.Equal(t, http.StatusBadRequest, page.status, query)
		require.Contains(t, page.body, `role="alert"`, query)
		require.NotContains(t, page.body, "<img", query)
	}
	filtered := env.get("/ui/changes?since=" + formTime(at, 0) + "&kind=cluster").body
	require.Contains(t, filtered, `value="`+formTime(at, 0)+`"`, "the form keeps its fields")
	require.Contains(t, filtered, `<option value="cluster" selected>`)
}

// formTime is a time in minutes after another one, as a browser sends it.
func formTime(after time.Time, minutes int) string {
	return after.Add(time.Duration(minutes) * time.Minute).UTC().Format("2006-01-02T15:04")
}

// containsRevision reports whether a page lists a revision.
func containsRevision(page string, number int) bool {
	return strings.Contains(page, fmt.Sprintf(`<a class="rev" href="/ui/changes/%d">`, number))
}

// TestChangesOfNightInBrowser: what changed on a cluster within some hours is two clicks away.
func TestChangesOfNightInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 300)
	at := fleetCreatedAt().Truncate(time.Minute)
	a := &user{Browser: signInBrowserAs(t, env, readToken, true), env: env}
	a.task("what changed on a cluster between two times", func() {
		a.Run(chromedp.Navigate(env.http.URL + "/ui/clusters/cluster-0001"))
		a.follow(`a.more[href^="/ui/changes?"]`)
		a.Run(chromedp.SetValue("#since", formTime(at, -60), chromedp.ByQuery), chromedp.SetValue("#until", formTime(at, 60), chromedp.ByQuery))
		a.follow(".filter button")
		require.Contains(t, a.Text("main"), "CHG-7: grafana 9 on trial")
	})
	require.Empty(t, violations(t, a.Browser))
	require.Empty(t, a.Complaints())
}
