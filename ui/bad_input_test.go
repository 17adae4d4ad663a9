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

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// mainViews are the views of any fleet.
var mainViews = []string{
	"/ui/", "/ui/clusters", "/ui/clusters?state=failed", "/ui/components", "/ui/matrix", "/ui/layers", "/ui/rollouts", "/ui/definitions", "/ui/changes",
	"/ui/compare", "/ui/help", "/ui/search?q=nothing+like+it", "/ui/search/suggest?q=cluster", "/ui/?wall=1", "/ui/matrix?wall=1",
}

// maxPage is the largest size of a page in bytes, uncompressed.
const maxPage = 100_000

// TestFleetSizes: each view of an empty, a small and a large fleet is small, and loads nothing from another host.
func TestFleetSizes(t *testing.T) {
	t.Parallel()
	for _, clusters := range []int{0, 1, 10_000, 50_000} {
		t.Run(strconv.Itoa(clusters), func(t *testing.T) {
			t.Parallel()
			if clusters > 10_000 && testing.Short() {
				t.Skip("this fleet takes 10 s of processor time")
			}
			env := setupEmpty(t)
			if clusters > 0 {
				env = setupFleet(t, "", []step{{"the catalog", createCatalog}, {"the clusters", func(tx *fleet.Tx) error { return createClusters(tx, clusters) }}})
			}
			env.api.CountClusters()
			env.signIn(readToken)
			views := mainViews
			if clusters > 0 {
				views = append([]string{"/ui/clusters/cluster-0000", "/ui/components/podinfo", "/ui/layers/gold", "/ui/changes/1", "/ui/search?q=cluster"}, views...)
			}
			for _, path := range views {
				page := env.get(path)
				for range 20 { // on a busy machine the largest fleet may take longer than a page has
					if page.status != http.StatusServiceUnavailable {
						break
					}
					page = env.get(path)
				}
				if page.status == http.StatusSeeOther {
					continue // to the only result of the search
				}
				require.Equal(t, http.StatusOK, page.status, "%s: %s", path, page.body)
				require.Less(t, len(page.body), maxPage, path)
				require.NotRegexp(t, `(?:src|href|action)="(?:[a-z]+:)?//`, page.body, path)
			}
			require.Less(t, firstPageSize(t, env), 20_000)
		})
	}
}

// firstPageSize returns the compressed size of the overview and of all files that it loads.
func firstPageSize(t *testing.T, env *testEnv) int {
	t.Helper()
	page := env.get("/ui/").body
	size := compressed(t, page)
	for _, file := range regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		size += compressed(t, env.get(file[1]).body)
	}
	return size
}

// TestManyMessages: 5,000 clusters that fail with 4,000 different messages are a few rows, and no page grows with them.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	const clusters, messages = 5000, 4000
	env := setupFleet(t, "", []step{{"the catalog", createCatalog}, {"the clusters", func(tx *fleet.Tx) error { return createClusters(tx, clusters) }}})
	now := env.now()
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		env.report(0, doc, now.Add(-time.Minute))
		asked, err := env.replica.State().DesiredInputs(doc)
		require.NoError(t, err)
		word := strings.NewReplacer("0", "aa", "1", "be", "2", "ci", "3", "do", "4", "eu", "5", "fa", "6", "ge", "7", "hi", "8", "jo", "9", "ku").Replace(strconv.Itoa(i % messages))
		for _, list := range asked {
			n := 0
			for id := range list.Inputs {
				if id == "podinfo" {
					env.tracker.RecordEvent(doc.ID, list.List, id, clusterstatus.Event{Input: list.Receipts[n].String(), Severity: "error", Reason: "UpgradeFailed", At: now, Message: "the field " + word + " is invalid"}, now)
				}
				n++
			}
		}
	}
	env.signIn(readToken)
	overview := env.get("/ui/").body
	require.Contains(t, overview, "<h1>5\u202f000 clusters need attention</h1>")
	require.Equal(t, 12, strings.Count(overview, `<td class="states">`), "causes")
	require.Contains(t, overview, "more causes: <code>frs cluster status --group cause</code>")
	require.Less(t, firstPageSize(t, env), 20_000)
	for _, path := range append([]string{"/ui/search?q=invalid", "/ui/search/suggest?q=is+invalid", "/ui/components/podinfo"}, mainViews...) {
		page := env.get(path)
		require.Equal(t, http.StatusOK, page.status, "%s: %s", path, page.body)
		require.Less(t, len(page.body), maxPage, path)
	}
}

// hebrew is a text from right to left, with a number that a neighbor could change the place of.
const hebrew = "[[שלום 12 עולם (3)]]"

// TestTextFromRightToLeft: a text from right to left in a name, a reason or a message is isolated: it does not change the order of the
// words and numbers beside it.
func TestTextFromRightToLeft(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 60, hebrew)
	_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci", Author: hebrew, Reason: hebrew}, func(tx *fleet.Tx) error {
		if _, err := tx.Patch(fleet.KindLayer, "gold", fmt.Appendf(nil, `{"description":%q}`, hebrew)); err != nil {
			return err
		}
		_, err := tx.Patch(fleet.KindCluster, "cluster-0001", fmt.Appendf(nil, `{"cluster_name":%q,"patches":{"podinfo":{"message":%q}}}`, hebrew, hebrew))
		return err
	})
	require.NoError(t, err)
	env.createRollout("grafana-8.2")
	env.act("grafana-8.2", "start")
	env.call(http.MethodPost, "/freezes", fmt.Sprintf(`{"id":"year-end","selector":"environment=prod","reason":%q}`, hebrew))
	env.call(http.MethodPost, "/freezes", fmt.Sprintf(`{"id":"all","all":true,"reason":%q}`, hebrew))
	env.api.CountClusters()
	b := signInBrowserAs(t, env, writeToken, true)
	seen, mixed := 0, map[string][]string{}
	for _, path := range append([]string{"/ui/changes/4", "/ui/clusters/cluster-0043", "/ui/search?q=%D7%A9%D7%9C%D7%95%D7%9D", "/ui/rollouts/grafana-8.2", "/ui/definitions/freezes/year-end", "/ui/freezes/all/end"}, allPages...) {
		var found struct {
			Seen  int
			Mixed []string
		}
		b.Run(chromedp.Navigate(env.http.URL+path), chromedp.WaitReady("main", chromedp.ByQuery), chromedp.Evaluate(mixedTexts, &found))
		if len(found.Mixed) > 0 {
			mixed[path] = found.Mixed
		}
		seen += found.Seen
	}
	require.Empty(t, mixed)
	require.Greater(t, seen, 100)
	require.Empty(t, b.Complaints())
}

// mixedTexts is a script that finds the texts from right to left that are not alone in an isolated element or in a block. Each such text of the fleet is
// in brackets or in a message that begins with known words.
const mixedTexts = `(() => {
	const found = {seen: 0, mixed: []}, walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const text = walker.currentNode.data.trim();
		if (!/[\u0590-\u05ff]/.test(text) || walker.currentNode.parentElement.closest("title, textarea, pre")) continue;
		found.seen++;
		let e = walker.currentNode.parentElement;
		while (getComputedStyle(e).display === "inline" && !/isolate|plaintext/.test(getComputedStyle(e).unicodeBidi)) e = e.parentElement;
		const whole = /^(\[\[|Helm|chart|timed|serviceaccounts|1 error|the first|the change would be refused|")/.test(text) && /(\]\]"?|…|forbids: .*)$/.test(text) || text === "שלום";
		if (!whole || e.textContent.trim() !== text) found.mixed.push(e.outerHTML.slice(0, 300));
	}
	return found;
})()`

// TestClusterClocks: failures that clusters report with clocks that are a day ahead or behind began at a time that has passed, and the
// strip has no interval in the future.
func TestClusterClocks(t *testing.T) {
	t.Parallel()
	env := setup(t, 10)
	env.signIn(readToken)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		env.report(0, doc, env.now())
		off := []time.Duration{24 * time.Hour, -24 * time.Hour}[i%2]
		asked, err := env.replica.State().DesiredInputs(doc)
		require.NoError(t, err)
		for _, list := range asked {
			for n := range list.Receipts {
				env.tracker.RecordEvent(doc.ID, list.List, "grafana", clusterstatus.Event{Input: list.Receipts[n].String(), Severity: "error", Reason: "UpgradeFailed", At: env.now().Add(off), Message: "timed out"}, env.now())
			}
		}
	}
	env.api.CountClusters()
	for _, path := range []string{"/ui/", "/ui/clusters", "/ui/clusters?state=failed", "/ui/clusters/cluster-0000", "/ui/clusters/cluster-0001", "/ui/components/grafana"} {
		page := env.get(path).body
		require.NotRegexp(t, `>-\d|-\d+ (?:s|min|h|days) |M-\d|x="-[2-9]|width="-`, page, path)
		for _, at := range regexp.MustCompile(`<time datetime="([^"]+)"[^>]*>[^<]*(?:ago|just now)`).FindAllStringSubmatch(page, -1) {
			when, err := time.Parse(time.RFC3339, at[1])
			require.NoError(t, err)
			require.False(t, when.After(env.now().Add(time.Second)), "%s: %s is in the future", path, at[0])
		}
		for _, x := range regexp.MustCompile(` x="(\d+)"`).FindAllStringSubmatch(page, -1) {
			require.Less(t, len(x[1]), 4)
		}
	}
}
