package ui_test

import (
	"bytes"
	"compress/gzip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

const stripInterval = 5 * time.Minute

// TestStrip: the overview shows the counts of the last day, with changes, stages and freezes as links, and intervals without a count.
func TestStrip(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	require.NotContains(t, env.get("/ui/").body, `class="strip"`, "there are no counts")
	env.api.CountClusters()
	env.api.CountClusters()
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindComponent, "podinfo", []byte(`{"component_version":"6.9.1"}`))
		return err
	})
	env.call("POST", "/freezes", `{"id":"year-end","reason":"CHG-1 <b>","selector":"environment=prod"}`)
	env.advance(20 * time.Minute)
	env.api.CountClusters()
	page := env.get("/ui/").body
	require.Contains(t, page, `class="strip"`)
	require.Regexp(t, `<path class="s-failed" d="M\d+ 40V[\d.]+h1V40z`, page)
	require.Contains(t, page, `class="gap"`)
	require.Regexp(t, `<a href="/ui/changes/4" aria-label="Revision 4: [^"]+">`, page)
	require.Contains(t, page, `<a href="/ui/definitions/freezes/year-end" aria-label="Freeze year-end: CHG-1 &lt;b&gt;">`)
	counts := regexp.MustCompile(`data-counts="([^"]*)"`).FindStringSubmatch(page)[1]
	require.Regexp(t, `^;+2,2,0;+\d+,\d+,\d+$`, counts, "287 separators, two counts")
	require.Less(t, len(page), 60_000)

	env.advance(25 * time.Hour)
	require.NotContains(t, env.get("/ui/").body, `class="strip"`, "the session has ended, and the counts are too old")
}

// TestStripNeedsAllClusters: the counts are of all clusters, so visitors with limited access do not see them.
func TestStripNeedsAllClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 20)
	env.api.CountClusters()
	env.call("POST", "/access", `{"id":"team","subjects":[{"token":"team"}],"may":["read"],"on":{"selector":"tier=gold"}}`)
	env.signIn(env.issueToken("team", "scoped"))
	page := env.get("/ui/")
	require.Equal(t, 200, page.status)
	require.NotContains(t, page.body, `class="strip"`)
}

// TestFirstPageIsSmall: the overview with a full day of changing counts, and all files that it loads, is at most 20 kB compressed.
func TestFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 200, "")
	env.signIn(readToken)
	for n := range 288 {
		env.tracker.RecordCount(clusterstatus.StateCount{Total: 10_000, Failed: n * 7919 % 83, Silent: n * 104729 % 89, Progressing: n * 1299709 % 9973}, env.now())
		env.advance(-5 * time.Minute)
	}
	env.advance(288 * 5 * time.Minute)
	page := env.get("/ui/").body
	require.Contains(t, page, `class="strip"`)
	size := compressed(t, page)
	files := regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Len(t, files, 3)
	for _, file := range files {
		size += compressed(t, env.get(file[1]).body)
	}
	t.Logf("%d bytes", size)
	require.Less(t, size, 20_000)
}

// TestStripByKeyboard: the arrow keys move a slider along the intervals, with the counts and changes of each as text. A refresh keeps the
// chosen time, also while the slider has the focus. The pointer shows the same.
func TestStripByKeyboard(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	start := time.Now().Truncate(stripInterval).Add(stripInterval / 2) // no interval ends during the test
	env.advance(time.Until(start))
	env.tracker.RecordCount(clusterstatus.StateCount{Total: 60, Failed: 7, Silent: 5, Progressing: 3}, env.now().Add(-stripInterval))
	env.tracker.RecordCount(clusterstatus.StateCount{Total: 60, Failed: 2}, env.now())
	b := signInBrowser(t, env)
	text := func() (text string) {
		b.Run(chromedp.Evaluate(`document.getElementById("strip-at").textContent`, &text))
		return text
	}
	spoken := func() (text string) {
		b.Run(chromedp.Evaluate(`document.querySelector(".strip input").getAttribute("aria-valuetext")`, &text))
		return text
	}
	require.Regexp(t, `^\d\d:\d\d UTC: 2 failing, 0 silent, 0 progressing`, spoken())
	b.Run(chromedp.Focus(".strip input", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	require.Contains(t, text(), "7 failing, 5 silent, 3 progressing")
	require.Equal(t, text(), spoken())
	before := text()
	env.advance(stripInterval)
	env.commit("while the slider has the focus")
	b.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.body.textContent.includes("while the slider has the focus")`, nil))
	require.Equal(t, before, text(), "the chosen time stays")
	b.Run(chromedp.KeyEvent(kb.ArrowLeft))
	require.Contains(t, text(), "no data")
	var fromEnd int
	b.Run(chromedp.Evaluate(`287 - document.querySelector('.strip a[href$="/changes/4"] .hit').getAttribute("x")`, &fromEnd))
	b.Run(chromedp.KeyEvent(kb.End + strings.Repeat(kb.ArrowLeft, fromEnd)))
	require.Regexp(t, `no data; Revision \d: .*(Revision 4: |; and 1 more|by ci)`, text())
	var first string
	b.Run(chromedp.Evaluate(`document.querySelector('.strip a:has(.hit[x="' + document.querySelector(".strip input").value + '"])').getAttribute("href")`, &first))
	var box []float64
	b.Run(chromedp.Evaluate(`(r => [r.right - r.width * 2.5 / 288, r.top + 20])(document.querySelector(".strip svg").getBoundingClientRect())`, &box))
	b.Run(chromedp.MouseEvent(input.MouseMoved, box[0], box[1]))
	require.Equal(t, before, text(), "at the pointer")
	b.Run(chromedp.KeyEvent(kb.End + strings.Repeat(kb.ArrowLeft, fromEnd) + kb.Enter))
	b.At(first)
	require.Empty(t, b.Complaints())
}

func compressed(t *testing.T, text string) int {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Len()
}

// TestStripOfParts: a cluster, a component and a rollout have the last day with their own changes.
func TestStripOfParts(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	env.advance(10 * time.Minute)
	env.confirmAll()
	env.advance(time.Second)
	env.fail(env.replica.State().All(fleet.KindCluster)[3], "grafana", 0, env.now())
	env.api.CountClusters()
	env.call("POST", "/rollouts", `{"id":"grafana-8.2","operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],"stages":[{"name":"dev","selector":"environment=dev"}]}`)
	env.call("POST", "/rollouts/grafana-8.2/start", "")
	counts := regexp.MustCompile(`data-states="([^"]*)" data-counts="([^"]*)"`)
	for page, want := range map[string][]string{
		"/ui/clusters/cluster-0003": {"failing,silent", "1,0"},
		"/ui/clusters/cluster-0004": {"failing,silent", "0,0"},
		"/ui/components/grafana":    {"failing,progressing", "1,0"},
		"/ui/components/podinfo":    {"failing,progressing", "0,0"},
		"/ui/rollouts/grafana-8.2":  {"failing,progressing", "1,0"},
	} {
		body := env.get(page).body
		found := counts.FindStringSubmatch(body)
		require.Len(t, found, 3, page)
		require.Equal(t, want, []string{found[1], strings.Trim(found[2], ";")}, page)
		require.Regexp(t, `<rect class="mark (revision|stage)"`, body, page)
	}
	require.Contains(t, env.get("/ui/rollouts/grafana-8.2").body, "Rollout grafana-8.2: stage dev")
	require.NotContains(t, env.get("/ui/clusters/cluster-0003").body, "Revision 3: ", "it changed another cluster")
	require.Contains(t, env.get("/ui/clusters/cluster-0001").body, "Revision 3: ")

	env.call("POST", "/access", `{"id":"team","subjects":[{"token":"team"}],"may":["read"],"on":{"selector":"tier=gold"}}`)
	env.signIn(env.issueToken("team", "scoped"))
	require.Contains(t, env.get("/ui/clusters/cluster-0003").body, `data-states="failing,silent"`, "it is the team's")
	require.NotContains(t, env.get("/ui/components/grafana").body, `class="strip"`)
}
