package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestFirstRun: an empty fleet shows the commands with this server's URL, until the first cluster polls.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	env := setupEmpty(t)
	b := signInBrowser(t, env)
	b.Run(chromedp.Navigate(env.http.URL + "/ui/"))
	require.Contains(t, b.Text(".steps"), "frs bootstrap first --poll-url "+env.http.URL+" | kubectl apply -f -")
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindCluster, []byte(`{"id":"first","cluster_dns":"first.example.com","environment":"dev"}`))
		return err
	})
	b.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.querySelector("h1").textContent === "Waiting for the first poll"`, nil))
	env.confirmAll()
	b.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.querySelector("h1").textContent === "No cluster needs attention"`, nil), chromedp.Poll(`!document.querySelector(".steps")`, nil))
	require.Empty(t, b.Complaints())
}

// TestThemeAndHelp: t changes the theme, which stays in this browser; ? opens the help; the copy buttons are there.
func TestThemeAndHelp(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 10, "")
	b := signInBrowser(t, env)
	b.Run(light, chromedp.Navigate(env.http.URL+"/ui/clusters/cluster-0003"))
	require.Contains(t, b.Text(".copy"), "Copy for the incident")
	var text, background string
	b.Run(chromedp.Evaluate(`document.querySelector(".copy").dataset.text`, &text))
	require.Contains(t, text, "Cluster cluster-0003 (prod), revision 3: failed")
	require.Contains(t, text, "grafana UpgradeFailed since ")
	b.Run(chromedp.KeyEvent("tt"), chromedp.KeyEvent("?"))
	b.At("/ui/help")
	b.Run(chromedp.Evaluate(`getComputedStyle(document.documentElement).backgroundColor`, &background))
	require.Equal(t, "rgb(17, 18, 20)", background, "dark")
	b.Click(`button[data-theme=""]`)
	b.Run(chromedp.Evaluate(`getComputedStyle(document.documentElement).backgroundColor`, &background))
	require.Equal(t, "rgb(250, 250, 249)", background, "the system's")
	require.Empty(t, b.Complaints())
}
