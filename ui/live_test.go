package ui_test

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// commit makes a revision with a reason.
func (env *testEnv) commit(reason string) {
	env.t.Helper()
	_, err := env.replica.Update(env.t.Context(), store.Meta{Actor: "ci", Reason: reason}, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0002", []byte(`{"labels":{"reason":"`+strings.ReplaceAll(reason, " ", "-")+`"}}`))
		return err
	})
	require.NoError(env.t, err)
}

// withoutPolling stops the timers of the page, so that only events refresh it.
const withoutPolling = `for (let n = 1; n < 10000; n++) clearInterval(n)`

// A commit appears on an open page without a reload, and the user's focus, scroll position, selection and open details stay.
func TestPageIsLive(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	b := signInBrowser(t, env)
	b.Run(chromedp.Navigate(env.http.URL+"/ui/changes"), chromedp.Evaluate(withoutPolling, nil), chromedp.Poll(`revisions.readyState === 1`, nil))
	b.Run(chromedp.Evaluate(`
		document.querySelector("main").style.minHeight = "6000px";
		window.marked = document.querySelector('.changes .what[href$="/changes/2"]');
		marked.focus();
		window.getSelection().selectAllChildren(document.querySelector('.changes .what[href$="/changes/1"]'));
		window.scrollTo(0, 100);
		window.picked = window.getSelection().toString();`, nil))
	for _, reason := range []string{"first of two", "second of two"} {
		env.commit(reason)
		b.Run(chromedp.Poll(`document.querySelector(".changes").textContent.includes("`+reason+`")`, nil))
	}
	for _, kept := range []string{
		`document.activeElement === marked`, `marked.getAttribute("href") === "/ui/changes/2"`, `picked !== "" && window.getSelection().toString() === picked`,
		`window.scrollY >= 100`, // the browser scrolls with the content
	} {
		var is bool
		b.Run(chromedp.Evaluate(kept, &is))
		require.True(t, is, kept)
	}
	require.Empty(t, b.Complaints())
}

// Open details stay open, and a form in use is not changed.
func TestRefreshKeepsDetailsAndForms(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	b := signInBrowser(t, env)
	b.Run(chromedp.Navigate(env.http.URL+"/ui/clusters"), chromedp.Evaluate(withoutPolling, nil), chromedp.Poll(`revisions.readyState === 1`, nil))
	b.Run(chromedp.SendKeys("#selector", "tier=", chromedp.ByQuery))
	env.commit("while a form is used")
	b.Run(chromedp.Poll(`fetch("/ui/").then(() => true)`, nil), chromedp.Evaluate(`refresh()`, nil))
	var revision string
	b.Run(chromedp.Evaluate(`document.getElementById("freshness").textContent`, &revision))
	require.Contains(t, revision, "Revision 3")
	var opened bool
	b.Run(chromedp.Evaluate(`document.getElementById("selector").value = ""; document.activeElement.blur();
		const from = document.createElement("div"), to = document.createElement("div");
		from.innerHTML = "<details open><summary>a</summary>old</details><ul><li><a href='1'>1</a></li><li><a href='2'>2</a></li></ul>";
		to.innerHTML = "<details><summary>a</summary>new</details><ul><li><a href='3'>3</a></li><li><a href='2'>two</a></li><li><a href='1'>1</a></li></ul>";
		const one = from.querySelector("a[href='1']");
		morph(from, to);
		from.querySelector("details").open && from.textContent === "anew3two1" && from.contains(one)`, &opened))
	require.True(t, opened)
	b.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.getElementById("freshness").textContent.includes("Revision 4")`, nil))
	require.Empty(t, b.Complaints())
}

// The stream of the page needs its session, and ends with it.
func TestStreamOfPageNeedsSession(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	require.Equal(t, http.StatusUnauthorized, env.get("/ui/live").status)
	env.signIn(readToken)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, env.http.URL+"/ui/live", nil)
	require.NoError(t, err)
	res, err := env.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	next := func(prefix string) (line string) {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return lines.Text()
			}
		}
		return ""
	}
	require.NotEmpty(t, next("id: 3:"))
	env.commit("seen")
	require.Contains(t, next("data: "), `"reason":"seen"`)
	cookies := env.client.Jar.Cookies(req.URL)
	require.NotEmpty(t, cookies)
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, "/ui/sign-out", url.Values{}).status)
	env.commit("after the sign-out")
	require.Empty(t, next("data: "))
	require.Equal(t, http.StatusUnauthorized, env.get("/ui/live").status)
}
