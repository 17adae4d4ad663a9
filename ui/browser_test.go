package ui_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// signInBrowser signs in with a browser and a read token.
func signInBrowser(t *testing.T, env *testEnv) *testbrowser.Browser {
	t.Helper()
	return signInBrowserAs(t, env, readToken)
}

// signInBrowserAs signs in with a browser and a token; with changes, the page offers change forms.
func signInBrowserAs(t *testing.T, env *testEnv, token string, changes ...bool) *testbrowser.Browser {
	t.Helper()
	env.http.Close()
	env.http = httptest.NewServer(env.page("", changes...))
	t.Cleanup(env.http.Close)
	b := testbrowser.New(t)
	b.Run(chromedp.Navigate(env.http.URL + "/"))
	b.Run(chromedp.WaitVisible("#token", chromedp.ByQuery), chromedp.SendKeys("#token", token+"\r", chromedp.ByQuery))
	b.At("/ui/")
	return b
}

// phone is the size of a phone, narrow of the smallest one, wide of a desk; dark and light are preferred color schemes.
var (
	phone  = emulation.SetDeviceMetricsOverride(390, 844, 2, true)
	narrow = emulation.SetDeviceMetricsOverride(320, 640, 2, true)
	wide   = emulation.SetDeviceMetricsOverride(1400, 1600, 1, false)
	dark   = prefers("dark")
	light  = prefers("light")
)

func prefers(scheme string) chromedp.Action {
	// Without transitions: axe would read colors between those of two themes.
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}})
}

// looksGood requires that the open page fits wide and narrow screens and is accessible in both themes, and takes pictures of it.
func (env *testEnv) looksGood(b *testbrowser.Browser, name string) {
	env.t.Helper()
	for style, action := range map[string]chromedp.Action{"": chromedp.Tasks{light, wide}, "dark-": chromedp.Tasks{dark, wide}, "narrow-": chromedp.Tasks{light, narrow}} {
		b.Run(action)
		var wider bool
		b.Run(chromedp.Evaluate(`document.documentElement.scrollWidth > document.documentElement.clientWidth`, &wider))
		require.False(env.t, wider, "%s%s is wider than the screen", style, name)
		require.Empty(env.t, violations(env.t, b), style+name)
		b.Screenshot("page-" + style + name + ".png")
	}
	b.Run(light, wide)
}

// screenshots takes a screenshot of each page, by file name, and requires that no page is wider than the screen.
func screenshots(t *testing.T, b *testbrowser.Browser, env *testEnv, style string, pages map[string]string) {
	t.Helper()
	for name, path := range pages {
		b.Run(chromedp.Navigate(env.http.URL+path), chromedp.WaitReady("main", chromedp.ByQuery))
		var wide bool
		b.Run(chromedp.Evaluate(`document.documentElement.scrollWidth > document.documentElement.clientWidth`, &wide))
		require.False(t, wide, "%s is wider than the screen", path)
		b.Screenshot("page-" + style + name + ".png")
	}
}

// TestScreenshots: pages fit the screen in dark mode and on a phone.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 200, "")
	for range 200 { // the last hours
		env.api.CountClusters()
		env.advance(-5 * time.Minute)
	}
	env.advance(200 * 5 * time.Minute)
	env.addVersions()
	b := signInBrowser(t, env)
	b.Run(dark)
	screenshots(t, b, env, "dark-", map[string]string{"overview": "/ui/", "cluster": "/ui/clusters/cluster-0003", "change": "/ui/changes/3", "components": "/ui/components", "matrix": "/ui/matrix", "wall": "/ui/matrix?wall=1"})
	b.Run(light)
	screenshots(t, b, env, "", map[string]string{"help": "/ui/help", "compare": "/ui/compare?left=cluster-0001&right=cluster-0004", "definition": "/ui/definitions/namespaces/team-red", "versions": "/ui/components/podinfo", "facets": "/ui/clusters?environment=prod", "strip": "/ui/", "strip-cluster": "/ui/clusters/cluster-0003", "strip-component": "/ui/components/grafana", "matrix": "/ui/matrix", "matrix-tier": "/ui/matrix?by=tier", "wall": "/ui/matrix?wall=1", "wall-overview": "/ui/?wall=1"})
	b.Run(emulation.SetEmulatedMedia().WithMedia("print"))
	screenshots(t, b, env, "print-", map[string]string{"matrix": "/ui/matrix", "overview": "/ui/"})
	b.Run(emulation.SetEmulatedMedia().WithMedia(""), dark, phone)
	screenshots(t, b, env, "phone-dark-", map[string]string{"overview": "/ui/", "cluster": "/ui/clusters/cluster-0003"})
	b.Run(light)
	screenshots(t, b, env, "phone-", map[string]string{
		"overview": "/ui/", "clusters": "/ui/clusters", "cluster": "/ui/clusters/cluster-0003", "change": "/ui/changes/3", "components": "/ui/components", "component": "/ui/components/grafana", "versions": "/ui/components/podinfo",
		"revert": "/ui/changes/3/revert", "input": "/ui/clusters/cluster-0001/inputs/platform-components/grafana", "layer": "/ui/layers/gold", "matrix": "/ui/matrix", "compare": "/ui/compare?left=cluster-0001&right=cluster-0004",
	})
	open := func(name string) {
		for _, summary := range []string{"Environment", "tier", "Columns"} {
			b.Run(chromedp.Navigate(env.http.URL+"/ui/clusters?environment=prod"), chromedp.WaitReady("main", chromedp.ByQuery), chromedp.Evaluate(`document.querySelector('[data-key="`+summary+`"]').open = true`, nil))
			var wide bool
			b.Run(chromedp.Evaluate(`document.documentElement.scrollWidth > document.documentElement.clientWidth`, &wide))
			require.False(t, wide, "%s %s is wider than the screen", name, summary)
			b.Screenshot("page-open-" + name + summary + ".png")
		}
	}
	open("phone-")
	b.Run(emulation.SetDeviceMetricsOverride(1400, 900, 1, false))
	open("")
	b.Run(dark)
	open("dark-")
	b.Run(light, emulation.SetDeviceMetricsOverride(700, 450, 2, false)) // as at a zoom of 200 %
	open("zoom-")
	b.Run(emulation.SetDeviceMetricsOverride(320, 640, 2, true))
	open("narrow-")
	screenshots(t, b, env, "narrow-", map[string]string{"cluster": "/ui/clusters/cluster-0003", "versions": "/ui/components/podinfo", "overview": "/ui/", "clusters": "/ui/clusters", "matrix": "/ui/matrix", "compare": "/ui/compare?left=cluster-0001&right=cluster-0004", "help": "/ui/help", "changes": "/ui/changes", "connect": "/ui/clusters/cluster-0003/connect", "add": "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev"})
	require.Empty(t, b.Complaints())
}

// TestScreenshotsOfExtremeContent: pages fit the screen for an empty fleet, if every cluster fails, with names of maximal length, and for
// refusals.
func TestScreenshotsOfExtremeContent(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("Helm upgrade failed for release observability/grafana with chart grafana@8.1.0: context deadline exceeded; ", 12)
	env := setupWith(t, 200, words)
	long := strings.Repeat("very-long-name-", 3) + "at-last"
	longest := long + "-and-longer" // 63 characters
	env.edit(func(tx *fleet.Tx) error {
		if _, err := tx.Create(fleet.KindComponent, fmt.Appendf(nil, `{"id":%q,"component_path":"charts/x","oci_url":"https://charts.example.com","component_version":"1.0.0-%s"}`, long, long)); err != nil {
			return err
		}
		_, err := tx.Create(fleet.KindCluster, fmt.Appendf(nil, `{"id":%q,"cluster_dns":"%s.k8s.example.com","environment":"prod","labels":{"aaa.example.com/%s":"%s"},"platform_components":[{"id":%q},{"id":"grafana"}]}`, longest, longest, longest, longest, long))
		return err
	})
	env.advance(time.Minute)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		env.report(i*40+3, doc, env.now()) // an index of failing clusters
	}
	everything := map[string]string{
		"all-failing": "/ui/", "all-failing-clusters": "/ui/clusters?state=failed", "long-cluster": "/ui/clusters/" + longest, "long-component": "/ui/components/" + long, "long-components": "/ui/components",
		"long-input": "/ui/clusters/" + longest + "/inputs/platform-components/" + long, "delete": "/ui/clusters/cluster-0003/delete", "protect": "/ui/clusters/cluster-0003/protect",
		"in-use": "/ui/components/grafana/delete", "no-such": "/ui/clusters/nobody", "no-page": "/ui/nothing", "bad-selector": "/ui/clusters?selector=tier+in+gold)",
		"no-match": "/ui/clusters?selector=tier%3Dnone", "search": "/ui/search?q=cluster-00", "not-found": "/ui/search?q=nothing-like-it", "sign-in": "/ui/sign-in",
	}
	nothing := map[string]string{"empty": "/ui/", "empty-clusters": "/ui/clusters", "empty-components": "/ui/components", "empty-layers": "/ui/layers", "empty-changes": "/ui/changes"}
	for env, pages := range map[*testEnv]map[string]string{env: everything, setupEmpty(t): nothing} {
		b := signInBrowserAs(t, env, writeToken, true)
		screenshots(t, b, env, "", pages)
		if os.Getenv("SCREENSHOT_DIR") != "" { // dark mode has the same layout
			b.Run(dark)
			screenshots(t, b, env, "dark-", pages)
		}
		b.Run(light, phone)
		screenshots(t, b, env, "phone-", pages)
	}
}

// TestAccessibility: axe-core finds no violation on any page.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	env.addVersions()
	env.api.CountClusters()
	env.wrapAPI = withWebhooks("")
	b := signInBrowserAs(t, env, writeToken, true)
	pages := 0
	scan := func(name string) {
		t.Helper()
		assert.Empty(t, violations(t, b), name)
		pages++
	}
	look := func(path string) {
		t.Helper()
		b.Run(chromedp.Navigate(env.http.URL+path), chromedp.WaitReady("main", chromedp.ByQuery))
		scan(path)
	}
	for _, path := range append([]string{"/ui/sign-in", "/ui/clusters/nobody", "/ui/clusters?selector=in+in", "/ui/components/podinfo", "/ui/rollouts/auto-podinfo", "/ui/webhooks", "/ui/clusters/cluster-0003/access"}, allPages...) {
		look(path)
	}
	b.Run(dark) // with other colors
	for _, path := range []string{"/ui/", "/ui/clusters/cluster-0003", "/ui/changes/3", "/ui/components", "/ui/components/podinfo", "/ui/clusters/cluster-0001/delete", "/ui/webhooks", "/ui/freezes/create-all", "/ui/clusters?selector=in+in"} {
		look(path)
	}
	env.call("POST", "/freezes", `{"id":"all","all":true,"reason":"outage of the registry"}`)
	look("/ui/")
	for _, scheme := range []chromedp.Action{light, dark} {
		b.Run(scheme)
		look("/ui/clusters")
		for _, list := range []string{"Environment", "Columns"} {
			b.Run(chromedp.Evaluate(fmt.Sprintf(`document.querySelector(".facet[data-key=%s]").open = true`, list), nil))
			scan("the open list of " + list)
		}
	}
	b.Run(light, emulation.SetDeviceMetricsOverride(320, 640, 2, true))
	for _, path := range allPages {
		if !strings.Contains(path, "?") {
			look(path)
		}
	}
	t.Logf("axe-core: violations 0, pages %d", pages)
}

// TestKeyboardNavigation reaches the failure of a cluster without a mouse.
func TestKeyboardNavigation(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	b := signInBrowser(t, env)
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
	// The simulated keyboard also types the shortcut into the field; a real one does not.
	b.Run(chromedp.Evaluate(`document.activeElement.value = ""; document.activeElement.id`, &focused))
	require.Equal(t, "q", focused)
	press("tier=gold\r")
	b.At("/ui/clusters?selector=tier%3Dgold")
	press("gh")
	b.At("/ui/changes")
	require.Empty(t, b.Complaints())
}

// TestDeleteClusterInBrowser: the form requires a reason and the name of the protected environment.
func TestDeleteClusterInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("delete a cluster", func() {
		a.follow("tbody .says a")
		a.follow(`a[href="/ui/clusters/cluster-0003/delete"]`)
		require.Contains(t, a.Text("main"), "platform-component grafana REMOVED: Flux uninstalls it")
		asked := len(a.Requested())
		a.Click(".decide button")
		var complete bool
		a.Run(chromedp.Evaluate(`document.querySelector(".decide").checkValidity()`, &complete))
		require.False(t, complete, "a reason and the name are required")
		require.Len(t, a.Requested(), asked, "nothing was sent")
		a.Run(chromedp.SendKeys("#reason", "CHG-9: it is replaced", chromedp.ByQuery), chromedp.SendKeys("#confirm", "prod", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/changes/4")
		require.Contains(t, a.Text("main"), "CHG-9: it is replaced")
	})
	require.EqualValues(t, 4, env.replica.State().Revision())
	require.Empty(t, a.Complaints())
}

// TestPageRefreshes: an open page shows new data, and the sign-in form after the session has expired.
func TestPageRefreshes(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	b := signInBrowser(t, env)
	b.Run(chromedp.Navigate(env.http.URL + "/ui/clusters/cluster-0003"))
	require.Contains(t, b.Text("h1"), "Failing")
	_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci", Reason: "off with it"}, func(tx *fleet.Tx) error {
		_, err := tx.Unassign("cluster-0003", fleet.KindComponent, "grafana")
		return err
	})
	require.NoError(t, err)
	b.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.body.textContent.includes("off with it")`, nil))
	require.NotContains(t, b.Text("h1"), "Failing")
	require.Empty(t, b.Complaints())

	env.advance(25 * time.Hour)
	b.Run(chromedp.Evaluate(`refresh()`, nil))
	b.At("/ui/sign-in?to=%2Fui%2Fclusters%2Fcluster-0003")
}

// TestFailedRefreshShowsWarning: after a failed refresh the old content stays, below a warning.
func TestFailedRefreshShowsWarning(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	b := signInBrowser(t, env)
	require.NoError(t, env.http.Listener.Close())
	env.http.CloseClientConnections()
	env.http.Close()
	b.Run(chromedp.Evaluate(`refresh()`, nil))
	require.Contains(t, b.Text("#lost"), "cannot be read at the moment")
	require.NotEmpty(t, b.Text("h1"))
}
