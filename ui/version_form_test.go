package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// layerWithPodinfo adds a layer that has podinfo, with clusters.
func layerWithPodinfo(tx *fleet.Tx) error {
	_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"dev-apps","priority":40,"selector":"environment!=prod","platform_components":[{"id":"podinfo"}]}`))
	return err
}

// TestVersionForm: the form offers the places where the component is; it shows a plan only for a version, and says what is refused.
func TestVersionForm(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.edit(layerWithPodinfo)
	const page = "/ui/components/podinfo/version"
	empty := env.get(page).body
	require.NotContains(t, empty, "plan_hash")
	require.NotContains(t, empty, "Nothing would change")
	require.Contains(t, empty, `<option value="dev-apps">layer dev-apps</option>`)
	require.Contains(t, empty, `<option value="waves">rollout, by waves</option>`)
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, page, changeForm{}.form("x")).status)
		for query, says := range map[string]string{
			"?version=6.10.0&layer=nothing":                 "there is no layer",
			"?version=6.10.0&cluster=nobody":                "nobody",
			"?version=not+a+version":                        "version",
			"?version=6.10.0&strategy=nothing":              "",
			"?version=" + env.componentVersion("podinfo"):   "this is set there already",
			"?version=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E": "",
		} {
			rsp := env.get(page + query)
			require.Equal(t, http.StatusOK, rsp.status, query)
			require.Contains(t, rsp.body, `id="version"`, "the form stays: %s", query)
			require.Contains(t, rsp.body, says, query)
			require.NotContains(t, rsp.body, "<img", query)
		}
	})
	layer := env.get(page + "?version=6.10.0&layer=dev-apps").body
	require.Contains(t, layer, `<option value="dev-apps" selected>`)
	require.NotContains(t, env.get("/ui/components/nothing/version").body, "plan_hash")

	require.Contains(t, env.get("/ui/components/podinfo").body, "Change version or values…")
	require.Contains(t, env.get("/ui/clusters/cluster-0002/inputs/platform-components/podinfo").body, page+"?cluster=cluster-0002")
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.NotContains(t, env.get("/ui/components/podinfo").body, "Change version or values…", "a token that may not change it")
	require.Contains(t, env.get(page+"?version=6.10.0&layer=dev-apps&strategy=waves").body,
		"frs component set podinfo --layer dev-apps --component-version 6.10.0 --rollout podinfo-6.10.0-dev-apps --strategy waves")
	require.Contains(t, env.get(page+"?version=%3E%3D6.10.0+%3C7.0.0").body, "frs component set podinfo --component-version &#39;&gt;=6.10.0 &lt;7.0.0&#39;<", "a shell reads the range as one word")
}

// TestValuesForm: values change in a layer or on a cluster, alone or with the version, in one change.
func TestValuesForm(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.edit(layerWithPodinfo)
	const page = "/ui/components/podinfo/version"
	env.unchanged(func() {
		for query, says := range map[string]string{
			"?values=replicaCount%3D3":                                             "values of the catalog are changed on the command line",
			"?layer=dev-apps&values=replicaCount":                                  "is not PATH=VALUE",
			"?layer=dev-apps&values=%3D3":                                          "is not PATH=VALUE",
			"?layer=dev-apps&values=a%3D1%0Aa%3D2":                                 "is set twice",
			"?layer=dev-apps&values=db.password%3Dhunter2":                         "may be a secret",
			"?layer=dev-apps&values=env%3D%7B%22DB_PASSWORD%22%3A%22x%22%7D":       "may be a secret",
			"?layer=dev-apps&values=args%3D--api-key%3Dx":                          "may be a secret",
			"?layer=dev-apps&values=id%3Dghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "may be a secret",
			"?layer=nothing&values=a%3D1":                                          "there is no layer",
		} {
			rsp := env.get(page + query)
			require.Equal(t, http.StatusOK, rsp.status, query)
			require.Contains(t, rsp.body, says, query)
			require.NotContains(t, rsp.body, `name="plan_hash"`, query)
			require.NotContains(t, rsp.body, "<script>alert", query)
			require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, page+query, changeForm{}.form("")).status, query)
		}
	})
	require.NotContains(t, env.get(page+"?layer=dev-apps&values=%3C%2Ftextarea%3E%3Cscript%3Ealert%3D1").body, "<script>alert")
	query := page + "?layer=dev-apps&version=6.10.0&values=replicaCount%3D3%0D%0Aui.message%3DHello%2C+all"
	rsp := env.send(env.client, http.MethodPost, query, changeForm{}.form(env.planHash(query)))
	require.Equal(t, http.StatusSeeOther, rsp.status, rsp.body)
	layer := func() string {
		doc, ok := env.replica.State().Get(fleet.KindLayer, "dev-apps")
		require.True(t, ok)
		return string(doc.Body)
	}
	for _, text := range []string{`"component_version":"6.10.0"`, `"replicaCount":"3"`, `"ui.message":"Hello, all"`} {
		require.Contains(t, layer(), text)
	}
	query = page + "?layer=dev-apps&values=ui.message-&strategy="
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, query, changeForm{}.form(env.planHash(query))).status)
	require.NotContains(t, layer(), "ui.message")
	query = page + "?cluster=cluster-0002&values=replicaCount%3D4"
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, query, changeForm{}.form(env.planHash(query))).status)
	query = page + "?layer=dev-apps&values=replicaCount%3D5&strategy=waves"
	require.Equal(t, "/ui/rollouts/podinfo-values-dev-apps", env.send(env.client, http.MethodPost, query, changeForm{}.form(env.planHash(query))).header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.Contains(t, env.get(page+"?layer=dev-apps&version=6.11.0&values=ui.logo%3D6%0Aui.message%3DHello%2C+all%0Aui.color-").body,
		"frs component set podinfo --layer dev-apps --component-version 6.11.0 --set ui.logo=6 --set &#39;ui.message=Hello, all&#39; --unset ui.color<")
}

// TestVersionRolloutAgain: after a rollout was aborted, the same change can be made as a rollout again, and not twice at once.
func TestVersionRolloutAgain(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	const page = "/ui/components/podinfo/version?version=6.10.0&strategy=waves"
	begin := func() string {
		t.Helper()
		rsp := env.send(env.client, http.MethodPost, page, changeForm{}.form(env.planHash(page)))
		require.Equal(t, http.StatusSeeOther, rsp.status, rsp.body)
		return rsp.header.Get("Location")
	}
	require.Equal(t, "/ui/rollouts/podinfo-6.10.0", begin())
	env.act("podinfo-6.10.0", "abort")
	require.Equal(t, "/ui/rollouts/podinfo-6.10.0-2", begin())
	env.unchanged(func() { require.Contains(t, env.get(page).body, "podinfo-6.10.0-2", "it is open") })
}

func (env *testEnv) componentVersion(id string) string {
	return componentVersion(env.replica.State(), id)
}

// TestVersionInBrowser: the version of a component changes in one layer by stages with at most six clicks.
func TestVersionInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 300)
	env.edit(createStrategy)
	env.edit(layerWithPodinfo)
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("change a version in one layer by stages", func() {
		a.follow(`nav a[href="/ui/components"]`)
		a.follow(`a[href="/ui/components/podinfo"]`)
		a.follow(`.actions a.primary`)
		a.Run(chromedp.SetValue("#layer", "dev-apps", chromedp.ByQuery), chromedp.SetValue("#strategy", "waves", chromedp.ByQuery), chromedp.SendKeys("#version", "6.10.0", chromedp.ByQuery))
		a.follow(".filter button")
		require.Contains(t, a.Text("main"), "when all stages have started")
		a.Screenshot("page-change-version.png")
		a.Run(chromedp.SendKeys("#reason", "CHG-9: podinfo 6.10", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/rollouts/podinfo-6.10.0-dev-apps")
		a.follow(".actions .primary")
	})
	require.Contains(t, a.Text("main"), "6.10.0")
	require.True(t, strings.HasPrefix(a.Text("h1"), "Start stage canary"))
	require.Empty(t, violations(t, a.Browser))
	require.Empty(t, a.Complaints())
}
