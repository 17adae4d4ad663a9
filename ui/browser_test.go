package ui_test

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// arrive signs in with a browser.
func arrive(t *testing.T, w *world) *testbrowser.Browser {
	t.Helper()
	w.http.Close()
	w.http = httptest.NewServer(w.page(""))
	t.Cleanup(w.http.Close)
	b := testbrowser.New(t)
	b.Run(chromedp.Navigate(w.http.URL + "/"))
	b.Run(chromedp.WaitVisible("#token", chromedp.ByQuery), chromedp.SendKeys("#token", readToken+"\r", chromedp.ByQuery))
	b.At("/ui/")
	return b
}

// Each of the page's questions is answered by a few clicks, as a person would.
func TestQuestions(t *testing.T) {
	t.Parallel()
	w := setupWith(t, 2000, "")
	b := arrive(t, w)
	b.Screenshot("page-overview.png")
	b.Follow(".tile.s-failed") // is anything wrong?
	require.Contains(t, b.Text("tbody"), "UpgradeFailed")
	b.Screenshot("page-clusters.png")
	b.Follow("tbody th a") // one cluster, and its own words
	require.Contains(t, b.Text(".failures"), "timed out waiting")
	b.Screenshot("page-cluster.png")
	b.Follow(`a[href$="/inputs/platform-components/podinfo"]`) // who says so?
	require.Contains(t, b.Text("tbody"), "component podinfo")
	b.Screenshot("page-input.png")
	b.Follow(`nav a[href="/ui/components"]`) // what runs where?
	require.Contains(t, b.Text("tbody"), "9.0.0")
	b.Screenshot("page-components.png")
	b.Follow(`tbody a[href="/ui/components/grafana"]`)
	require.Contains(t, b.Text("tbody"), "cluster-0001")
	b.Screenshot("page-component.png")
	b.Follow(`nav a[href="/ui/changes"]`) // what changed?
	b.Screenshot("page-changes.png")
	b.Follow(`.changes .what`)
	require.Contains(t, b.Text(".doc"), "9.0.0")
	require.NotContains(t, b.Text("main"), "hunter2")
	b.Screenshot("page-change.png")
	b.Follow(".actions a")
	require.Contains(t, b.Text("main"), "This page only looks")
	b.Screenshot("page-revert.png")
	b.Follow(`nav a[href="/ui/layers"]`)
	b.Follow(`tbody th a`)
	require.Contains(t, b.Text("main"), "tier=gold")
	b.Screenshot("page-layer.png")

	for _, url := range b.Requested() {
		require.True(t, strings.HasPrefix(url, w.http.URL+"/"), "the page asked for %s", url)
		require.NotContains(t, url, readToken)
	}
	require.Empty(t, b.Complaints())
}

// What it looks like in the dark and on a phone; nothing is wider than the screen.
func TestLooks(t *testing.T) {
	t.Parallel()
	w := setupWith(t, 200, "")
	b := arrive(t, w)
	b.Run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	for name, path := range map[string]string{"dark-overview.png": "/ui/", "dark-cluster.png": "/ui/clusters/cluster-0003", "dark-change.png": "/ui/changes/3"} {
		b.Run(chromedp.Navigate(w.http.URL + path))
		b.Screenshot("page-" + name)
	}
	b.Run(emulation.SetDeviceMetricsOverride(390, 844, 2, true))
	for name, path := range map[string]string{"phone-overview.png": "/ui/", "phone-clusters.png": "/ui/clusters", "phone-cluster.png": "/ui/clusters/cluster-0003", "phone-change.png": "/ui/changes/3", "phone-components.png": "/ui/components"} {
		b.Run(chromedp.Navigate(w.http.URL + path))
		var wide int
		b.Run(chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide))
		require.LessOrEqual(t, wide, 390, path)
		b.Screenshot("page-" + name)
	}
	require.Empty(t, b.Complaints())
}

// The page is good for people who do not see it, or have no mouse.
func TestAccessible(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	b := arrive(t, w)
	axe, err := os.ReadFile("testdata/axe-4.14.1.min.js")
	require.NoError(t, err)
	look := func(path string) {
		t.Helper()
		var found []string
		b.Run(chromedp.Navigate(w.http.URL+path), chromedp.WaitReady("main", chromedp.ByQuery), chromedp.Evaluate(string(axe), nil),
			chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" ")))`, &found,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		require.Empty(t, found, path)
	}
	for _, path := range append([]string{"/ui/sign-in", "/ui/clusters/nobody", "/ui/clusters?selector=in+in"}, everyPage...) {
		look(path)
	}
	b.Run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	for _, path := range []string{"/ui/", "/ui/clusters/cluster-0003", "/ui/changes/3", "/ui/components"} { // the colours are others
		look(path)
	}
}

// From the first page to a cluster's failure without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	b := arrive(t, w)
	press := func(keys string) {
		t.Helper()
		b.Run(chromedp.KeyEvent(keys))
	}
	press("gc")
	b.At("/ui/clusters")
	press("jj")
	var focused string
	b.Run(chromedp.Evaluate(`document.activeElement.textContent`, &focused))
	require.Equal(t, "cluster-0043", focused)
	press("\r")
	b.At("/ui/clusters/cluster-0043")
	press("/")
	// The test's keyboard goes on to type what the page has taken for a command; others do not.
	b.Run(chromedp.Evaluate(`document.activeElement.value = ""; document.activeElement.id`, &focused))
	require.Equal(t, "q", focused)
	press("tier=gold\r")
	b.At("/ui/clusters?selector=tier%3Dgold")
	press("gh")
	b.At("/ui/changes")
	require.Empty(t, b.Complaints())
}

// Whoever goes on looking sees what comes; that it cannot be read, and that they are signed out, is said.
func TestReadsItselfAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, 60)
	b := arrive(t, w)
	b.Run(chromedp.Navigate(w.http.URL + "/ui/clusters/cluster-0003"))
	require.Contains(t, b.Text("h1"), "Failing")
	_, err := w.replica.Update(t.Context(), store.Meta{Actor: "ci", Reason: "off with it"}, func(tx *fleet.Tx) error {
		_, err := tx.Unassign("cluster-0003", fleet.KindComponent, "grafana")
		return err
	})
	require.NoError(t, err)
	b.Run(chromedp.Evaluate(`htmx.trigger(document.getElementById("live"), "refresh")`, nil), chromedp.Poll(`document.body.textContent.includes("off with it")`, nil))
	require.NotContains(t, b.Text("h1"), "Failing")
	require.Empty(t, b.Complaints())

	w.advance(25 * time.Hour)
	b.Run(chromedp.Evaluate(`htmx.trigger(document.getElementById("live"), "refresh")`, nil))
	b.At("/ui/sign-in?to=%2Fui%2Fclusters%2Fcluster-0003")
}

// What cannot be read again stays where it is, and is said to be old.
func TestLost(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	b := arrive(t, w)
	w.http.Close()
	b.Run(chromedp.Evaluate(`htmx.trigger(document.getElementById("live"), "refresh")`, nil))
	require.Contains(t, b.Text("#lost"), "cannot be read at the moment")
	require.NotEmpty(t, b.Text("h1"))
}
