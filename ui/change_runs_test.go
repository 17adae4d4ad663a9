package ui_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// commitAs commits an edit as an actor, with a reason.
func (env *testEnv) commitAs(actor, reason string, edit func(*fleet.Tx) error) {
	env.t.Helper()
	_, err := env.replica.Update(env.t.Context(), store.Meta{Actor: actor, Reason: reason}, edit)
	require.NoError(env.t, err)
}

// moveVersion moves podinfo to a new version several times, as the automation of versions does.
func (env *testEnv) moveVersion(from, times int) {
	env.t.Helper()
	for n := range times {
		env.commitAs("automation", "", patched(fleet.KindComponent, "podinfo", fmt.Sprintf(`{"component_version":"7.0.%d"}`, from+n)))
	}
}

// TestChangeRuns: consecutive revisions with the same change are one row that opens to each of them; other changes are rows of their own.
func TestChangeRuns(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	at := fleetCreatedAt().Truncate(24 * time.Hour).Add(2 * time.Hour)
	env.committed = func() time.Time { at = at.Add(time.Minute); return at }
	env.moveVersion(0, 20)                                                                                             // revisions 4 to 23
	env.commitAs("automation", "<b>why</b>", patched(fleet.KindComponent, "grafana", `{"component_version":"9.1.0"}`)) // 24
	env.moveVersion(20, 20)                                                                                            // 25 to 44
	for n := range 3 {                                                                                                 // 45 to 47
		env.commitAs("ci", "CHG-1"+strconv.Itoa(n), patched(fleet.KindCluster, clusterID(n), `{"labels":{"owner":"web"}}`))
	}
	env.commitAs("ada", "CHG-13", patched(fleet.KindCluster, clusterID(4), `{"labels":{"owner":"web"}}`)) // 48: by another
	env.commitAs("ada", "CHG-14", patched(fleet.KindCluster, clusterID(5), `{"labels":{"owner":"web"}}`)) // 49: only two
	env.signIn(readToken)
	first := env.get("/ui/changes").body
	require.NotContains(t, first, "on 8 clusters", "a first view does not wait for the numbers")
	require.Contains(t, first, `<div id="live" data-incomplete>`, "the script requests them")
	require.Contains(t, first, `<noscript><p class="faint"><a href="/ui/changes?count=true">`)
	env.get("/ui/changes", "X-Refresh", "true")
	page := env.get("/ui/changes").body
	require.NotContains(t, page, "data-incomplete", "numbers that are known are shown at once")
	require.Equal(t, strings.Count(env.get("/ui/changes?count=true").body, "on 8 clusters"), strings.Count(env.get("/ui/changes").body, "on 8 clusters"))
	for revision := 1; revision <= 49; revision++ {
		require.Equal(t, 1, strings.Count(page, fmt.Sprintf(`<a class="rev" href="/ui/changes/%d">`, revision)), "revision %d", revision)
	}
	runs := regexp.MustCompile(`data-key="run-(\d+)"><details><summary><span class="chip">(\d+) revisions`).FindAllStringSubmatch(page, -1)
	require.Len(t, runs, 3)
	for i, want := range [][]string{{"45", "3"}, {"25", "20"}, {"4", "20"}} {
		require.Equal(t, want, runs[i][1:])
	}
	require.Contains(t, page, "and 19 like it, revisions 4 to 23 · <bdi>automation</bdi> · 02:01 to 02:20")
	require.NotContains(t, page, "<b>why</b>")
	require.Contains(t, page, `on 8 clusters</p>`, "the newest version")
	require.Contains(t, page, `on 8 clusters, until <a href="/ui/changes/44">revision 44</a>`)
	require.NotContains(t, env.get("/ui/changes?actor=automation").body, ", until <a", "the list does not have all revisions")

	// Each revision is on one page, also where a run goes on.
	env.moveVersion(40, 230)
	listed, path, pages := map[string]int{}, "/ui/changes", 0
	for path != "" {
		page, pages = env.get(path).body, pages+1
		require.Less(t, len(page), 250_000)
		for _, found := range regexp.MustCompile(`<a class="rev" href="/ui/changes/(\d+)">`).FindAllStringSubmatch(page, -1) {
			listed[found[1]]++
		}
		path = ""
		if next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(page); next != nil {
			path = next[1]
		}
	}
	require.Len(t, listed, 49+230)
	require.Equal(t, 2, pages)
	for revision, times := range listed {
		require.Equal(t, 1, times, revision)
	}
}

// TestChangesOfSource: the list is limited to the revisions that a source made.
func TestChangesOfSource(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.commitAs(fleet.SourceActor("platform"), "artifact 1.0.0", patched(fleet.KindComponent, "grafana", `{"component_version":"9.1.0"}`))
	env.signIn(readToken)
	page := env.get("/ui/changes?source=platform")
	require.Contains(t, page.body, "<h1>Changes by source platform</h1>")
	require.True(t, containsRevision(page.body, 4))
	require.False(t, containsRevision(page.body, 3))
	require.NotContains(t, page.body, `<option value="source"`, "only administrators may read sources")
	require.Equal(t, http.StatusBadRequest, env.get("/ui/changes?source=platform&actor=ada").status)
	require.NotContains(t, env.get("/ui/changes?source=%22%3E%3Cimg%20src=x%3E").body, "<img")
	env.signIn(writeToken)
	require.Contains(t, env.get("/ui/changes").body, `<option value="source"`)
}

// TestChangeRunsInBrowser: a run opens with one click, and stays open when the page is refreshed.
func TestChangeRunsInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 300)
	env.moveVersion(0, 5)
	a := &user{Browser: signInBrowser(t, env), env: env}
	a.Run(chromedp.Navigate(env.http.URL + "/ui/changes"))
	a.Screenshot("page-changes.png")
	a.Run(chromedp.Poll(`document.querySelector("main").textContent.includes("on 300 clusters")`, nil)) // the script requests the numbers at once
	a.Click(".run summary")
	a.sees(".run", "5 revisions", "7.0.3", "on 300 clusters, until revision 8")
	a.Screenshot("page-changes-open.png")
	env.moveVersion(5, 1)
	a.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.querySelector(".run summary").textContent.includes("6 revisions")`, nil))
	a.sees(".run", "on 300 clusters, until revision 9")
	require.Empty(t, violations(t, a.Browser))
	a.Run(dark, phone)
	require.Empty(t, violations(t, a.Browser))
	a.Screenshot("page-dark-changes-open.png")
	require.Empty(t, a.Complaints())
}
