package ui_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
)

// awaited makes an evaluation wait for a promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// violations returns what axe-core finds on the page, by its rules of WCAG 2.2 too, which are off by default.
func violations(t *testing.T, b *testbrowser.Browser) (found []string) {
	t.Helper()
	axe, err := os.ReadFile("testdata/axe-4.14.1.min.js")
	require.NoError(t, err)
	b.Run(chromedp.Evaluate(string(axe), nil),
		chromedp.Evaluate(`axe.run({rules: {"target-size": {enabled: true}}}).then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" ")))`, &found, awaited))
	return found
}

// typeSearch replaces the text of the search field, and waits for its results.
func typeSearch(b *testbrowser.Browser, text string) {
	b.T.Helper()
	b.Run(chromedp.Focus("#q", chromedp.ByQuery), chromedp.Evaluate(`field.select()`, nil), chromedp.KeyEvent(text), chromedp.Poll(`!pendingRequest && searchedText === field.value && !document.querySelector(".found").hidden`, nil))
}

// TestSearchAsYouType: results appear below the field. Arrows select, Enter opens the selected or the first one, Escape closes.
func TestSearchAsYouType(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	b := signInBrowser(t, env)
	is := func(condition string) {
		t.Helper()
		var is bool
		b.Run(chromedp.Evaluate(condition, &is))
		require.True(t, is, condition)
	}
	is(`field.getAttribute("role") === "combobox" && field.getAttribute("aria-expanded") === "false"`)
	typeSearch(b, "grafana")
	is(`options()[0].querySelector("b").textContent === "grafana" && field.getAttribute("aria-expanded") === "true"`)
	is(`document.getElementById(field.getAttribute("aria-controls")).getAttribute("role") === "listbox"`)
	is(`document.getElementById("spoken").textContent.endsWith(" results. Enter opens grafana.")`)
	require.Empty(t, violations(t, b))
	b.Screenshot("page-search-typing.png")

	b.Run(chromedp.KeyEvent(kb.ArrowDown + kb.ArrowDown))
	is(`field.getAttribute("aria-activedescendant") === "found-1" && document.getElementById("found-1").getAttribute("aria-selected") === "true"`)
	b.Run(chromedp.KeyEvent(kb.ArrowUp))
	is(`field.getAttribute("aria-activedescendant") === "found-0"`)
	b.Run(chromedp.KeyEvent(kb.Escape))
	is(`document.querySelector(".found").hidden && document.activeElement === field && field.value === "grafana"`)
	typeSearch(b, "already exists")
	require.Contains(t, b.Text(".found"), "cluster-0043")
	require.NotContains(t, b.Text(".found"), "<script>alert(2)")
	b.Run(chromedp.KeyEvent(kb.Enter))
	b.At("/ui/clusters/cluster-0043")

	typeSearch(b, "nothing like it")
	require.Equal(t, "Nothing found", b.Text(".found"))
	is(`field.getAttribute("aria-expanded") === "false"`)
	require.Empty(t, violations(t, b))
	b.Run(chromedp.Evaluate(`field.select()`, nil), chromedp.KeyEvent("podinfo\r")) // faster than the results
	b.At("/ui/components/podinfo")
	typeSearch(b, "cluster-0")
	b.Click(`#found [href$="/clusters/cluster-0001"]`)
	b.At("/ui/clusters/cluster-0001")
	typeSearch(b, "tier=gold")
	b.Run(chromedp.KeyEvent(kb.Enter))
	b.At("/ui/clusters?selector=tier%3Dgold")
	require.Empty(t, b.Complaints())
}

// TestSearchAbortsOlderRequests: results of an earlier text do not replace those of a later one.
func TestSearchAbortsOlderRequests(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	var canceled atomic.Int32
	env.wrapAPI = func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/search" && r.URL.Query().Get("q") == "grafana" {
				<-r.Context().Done()
				canceled.Add(1)
				return
			}
			api.ServeHTTP(w, r)
		})
	}
	b := signInBrowser(t, env)
	b.Run(chromedp.Focus("#q", chromedp.ByQuery), chromedp.KeyEvent("grafana"), chromedp.Poll(`pendingRequest !== null`, nil))
	typeSearch(b, "podinfo")
	require.True(t, strings.HasPrefix(b.Text(".found"), "podinfo"))
	b.Run(chromedp.Poll(`!pendingRequest`, nil))
	require.Eventually(t, func() bool { return canceled.Load() == 1 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, b.Complaints())
}
