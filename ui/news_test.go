package ui_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestNewRowsAreMarked: rows that came since the last visit of a view, or while it is open, are marked, and screen readers hear one
// sentence. A refresh without changes says nothing.
func TestNewRowsAreMarked(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	b := signInBrowser(t, env)
	evaluate := func(expression string) (text string) {
		t.Helper()
		b.Run(chromedp.Evaluate(expression, &text))
		return text
	}
	marked := func() string {
		t.Helper()
		return evaluate(`[...document.querySelectorAll(".new")].map((e) => e.closest("tr, li").querySelector("th a, .rev").textContent).join(" ")`)
	}
	spoken := func() string {
		t.Helper()
		return evaluate(`document.getElementById("spoken").textContent`)
	}
	b.Run(chromedp.Evaluate(withoutPolling, nil), chromedp.Poll(`revisions.readyState === 1`, nil))
	require.Empty(t, marked(), "the first visit of a view")
	b.Run(chromedp.Evaluate(`window.focused = document.querySelector(".changes .what"); focused.focus()`, nil))

	cluster, err := env.replica.State().Find(fleet.KindCluster, "cluster-0001")
	require.NoError(t, err)
	env.fail(cluster, "podinfo", 0, env.now())
	env.commit("while the view is open")
	b.Run(chromedp.Poll(`document.querySelector(".new")`, nil))
	require.Equal(t, "podinfo 4", marked())
	require.Equal(t, "1 cluster started to fail; revision 4 by ci.", spoken())
	var same bool
	b.Run(chromedp.Evaluate(`document.activeElement === focused`, &same))
	require.True(t, same)
	require.Empty(t, violations(t, b))
	b.Screenshot("page-new.png")

	b.Run(chromedp.Evaluate(`document.getElementById("spoken").textContent = ""; refresh()`, nil, awaited))
	require.Empty(t, spoken(), "nothing changed")
	require.Equal(t, "podinfo 4", marked(), "a refresh keeps the marks")

	b.Run(chromedp.KeyEvent("x"), chromedp.Evaluate(`for (const key of firstShown.keys()) firstShown.set(key, Date.now() - 2 * markMillis); refresh()`, nil, awaited))
	require.Empty(t, marked(), "the reader was active for a minute")

	env.advance(time.Second)
	b.Run(chromedp.Navigate(env.http.URL + "/ui/changes"))
	env.commit("while another view is open")
	b.Run(chromedp.Navigate(env.http.URL + "/ui/"))
	require.Equal(t, "5", marked(), "since the last visit")
	require.Empty(t, b.Complaints())
}
