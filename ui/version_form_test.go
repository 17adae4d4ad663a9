package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
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
	require.Contains(t, empty, `placeholder="6.9.0 now"`)
	require.Regexp(t, `>Catalog</a></th><td class="fill">6.9.0 <span class="faint">the form changes this one</span>`, empty)
	require.Regexp(t, `<span>6.9.0</span><b>\d<i>/8</i></b>`, empty, "the versions with their clusters")
	require.Regexp(t, `>Layer dev-apps</a></th><td class="fill"><span class="faint">not set</span> <span class="faint">the form changes this one</span>`, env.get(page+"?layer=dev-apps").body)
	require.Regexp(t, `>Cluster cluster-0002</a></th><td class="fill">6.9.0 <span class="faint">the form changes this one</span>`, env.get(page+"?cluster=cluster-0002").body)
	require.NotContains(t, env.get(page+"?cluster=nobody").body, "Cluster nobody")
	require.Contains(t, empty, `<option value="layer/dev-apps">layer dev-apps</option>`)
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
	require.Contains(t, layer, `<option value="layer/dev-apps" selected>`)
	require.NotContains(t, env.get("/ui/components/nothing/version").body, "plan_hash")

	require.Contains(t, env.get("/ui/components/podinfo").body, "Change version or values…")
	require.Contains(t, env.get("/ui/clusters/cluster-0002/inputs/platform-components/podinfo").body, page+"?cluster=cluster-0002")
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.NotContains(t, env.get("/ui/components/podinfo").body, "Change version or values…", "a token that may not change it")
	require.Contains(t, env.get(page+"?version=6.10.0&layer=dev-apps&strategy=waves").body,
		"frs component set podinfo --layer dev-apps --component-version 6.10.0 --rollout podinfo-6.10.0-dev-apps --strategy waves")
	require.Contains(t, env.get(page+"?version=%3E%3D6.10.0+%3C7.0.0").body, "frs component set podinfo --component-version &#39;&gt;=6.10.0 &lt;7.0.0&#39;<", "a shell reads the range as one word")
}

// typed is a submitted form of the version and the values of a component.
func typed(scope, values string, more ...string) url.Values {
	form := url.Values{"scope": {scope}, "values": {values}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// plan submits the form of podinfo, and returns the plan.
func (env *testEnv) plan(form url.Values) response {
	env.t.Helper()
	return env.send(env.client, http.MethodPost, podinfoVersion+"/plan", form)
}

// make submits the plan that a form shows.
func (env *testEnv) make(form url.Values) response {
	env.t.Helper()
	plan := env.plan(form)
	require.Equal(env.t, http.StatusOK, plan.status, plan.body)
	hash := planHashField.FindStringSubmatch(plan.body)
	require.Len(env.t, hash, 2, plan.body)
	sent := changeForm{}.form(hash[1])
	sent["values"] = form["values"]
	return env.send(env.client, http.MethodPost, html.UnescapeString(decideAction.FindStringSubmatch(plan.body)[1]), sent)
}

const podinfoVersion = "/ui/components/podinfo/version"

var decideAction = regexp.MustCompile(`class="card decide" method="post" action="([^"]*)"`)

// TestValuesForm: values change in the catalog, in a layer or on a cluster, alone or with the version, in one change. They are in no address.
func TestValuesForm(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.edit(layerWithPodinfo)
	env.unchanged(func() {
		for values, says := range map[string]string{
			"replicaCount":            "is not PATH=VALUE",
			"=3":                      "is not PATH=VALUE",
			"a=1\na=2":                "is set twice",
			"db.password=abc":         "may be a secret",
			`env={"DB_PASSWORD":"x"}`: "may be a secret",
			"args=--api-key=x":        "may be a secret",
			"id=ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":              "may be a secret",
			"</textarea><script>alert(1)</script>":                     "is not PATH=VALUE",
			strings.Repeat("x", 10_000) + `"<script>alert(1)</script>`: "is not PATH=VALUE",
		} {
			for _, scope := range []string{"catalog", "layer/dev-apps"} {
				rsp := env.plan(typed(scope, values))
				require.Equal(t, http.StatusOK, rsp.status, values)
				require.Contains(t, rsp.body, says, values)
				require.NotContains(t, rsp.body, `name="plan_hash"`, values)
				require.NotContains(t, rsp.body, "<script>alert", values)
				sent := changeForm{}.form("x")
				sent.Set("values", values)
				require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, podinfoVersion+"?layer=dev-apps", sent).status, values)
			}
		}
		require.Contains(t, env.plan(typed("layer/nothing", "a=1")).body, "there is no layer")
		require.Contains(t, env.plan(typed("cluster", "a=1")).body, "enter the name of the cluster", "and not everywhere")
		require.Contains(t, env.plan(typed("cluster", "a=1", "cluster", "nobody")).body, "nobody")
		require.Equal(t, http.StatusBadRequest, env.plan(typed("catalog", strings.Repeat("a=1\n", 20_000))).status, "too large")
		require.NotContains(t, env.get(podinfoVersion+"?layer=dev-apps&values=replicaCount%3D3").body, "replicaCount=3</textarea>", "an address has no values")
		for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, podinfoVersion+"/plan", typed("catalog", "a=1"), from...).status)
		}
		shared := env.plan(typed("layer/dev-apps", " ", "version", "6.10.0", "cluster", "cluster-0002"))
		require.Equal(t, podinfoVersion+"?layer=dev-apps&version=6.10.0", shared.header.Get("Location"), "without values, the address can be shared")
		require.Equal(t, podinfoVersion+"?version=6.10.0", env.get(podinfoVersion+"/plan?version=6.10.0").header.Get("Location"))
	})
	document := func(kind fleet.Kind, id string) string {
		doc, ok := env.replica.State().Get(kind, id)
		require.True(t, ok)
		return string(doc.Body)
	}
	rsp := env.make(typed("layer/dev-apps", "replicaCount=3\r\nui.message=Hello, <b>all</b>", "version", "6.10.0"))
	require.Equal(t, http.StatusSeeOther, rsp.status, rsp.body)
	for _, text := range []string{`"component_version":"6.10.0"`, `"replicaCount":"3"`, `"ui.message":"Hello, `} {
		require.Contains(t, document(fleet.KindLayer, "dev-apps"), text)
	}
	require.Equal(t, http.StatusSeeOther, env.make(typed("layer/dev-apps", "ui.message-")).status)
	require.NotContains(t, document(fleet.KindLayer, "dev-apps"), "ui.message")
	require.Equal(t, http.StatusSeeOther, env.make(typed("cluster", "replicaCount=4", "cluster", "cluster-0002")).status)

	rsp = env.make(typed("catalog", "replicaCount=2\nui.color=#fff", "version", "6.11.0"))
	require.Equal(t, http.StatusSeeOther, rsp.status, rsp.body)
	for _, text := range []string{`"component_version":"6.11.0"`, `"replicaCount":"2"`, `"ui.color":"#fff"`} {
		require.Contains(t, document(fleet.KindComponent, "podinfo"), text)
	}
	require.Equal(t, http.StatusSeeOther, env.make(typed("catalog", "ui.color-")).status)
	require.NotContains(t, document(fleet.KindComponent, "podinfo"), "ui.color")
	require.Contains(t, document(fleet.KindComponent, "podinfo"), "replicaCount", "other values stay")

	require.Equal(t, "/ui/rollouts/podinfo-values-dev-apps", env.make(typed("layer/dev-apps", "replicaCount=5", "strategy", "waves")).header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.Contains(t, env.plan(typed("layer/dev-apps", "ui.logo=6\nui.message=Hello, all\nui.color-", "version", "6.11.0")).body,
		"frs component set podinfo --layer dev-apps --component-version 6.11.0 --set ui.logo=6 --set &#39;ui.message=Hello, all&#39; --unset ui.color<")
}

// TestValuesOfStalePlans: values are changed once, only while the plan is still the same, and only with the rights of that time.
func TestValuesOfStalePlans(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("editor", "write")).status)
	hashOf := func(body string) string {
		t.Helper()
		found := planHashField.FindStringSubmatch(body)
		require.Len(t, found, 2, body)
		return found[1]
	}
	send := func(hash string) response {
		form := changeForm{}.form(hash)
		form.Set("values", "replicaCount=3")
		return env.send(env.client, http.MethodPost, podinfoVersion, form)
	}
	first := hashOf(env.plan(typed("catalog", "replicaCount=3")).body)
	env.edit(patched(fleet.KindComponent, "podinfo", `{"patches":{"replicaCount":"2"}}`))
	var second string
	env.unchanged(func() {
		stale := send(first)
		require.Equal(t, http.StatusPreconditionFailed, stale.status)
		require.Contains(t, stale.body, "nothing was done")
		require.Contains(t, stale.body, "replicaCount=3</textarea>", "the form keeps the values")
		second = hashOf(stale.body)
		other := changeForm{}.form(second)
		other.Set("values", "replicaCount=30")
		require.Equal(t, http.StatusPreconditionFailed, env.send(env.client, http.MethodPost, podinfoVersion, other).status, "not the values of the plan")
	})
	before := env.replica.State().Revision()
	require.Equal(t, http.StatusSeeOther, send(second).status)
	require.Equal(t, http.StatusPreconditionFailed, send(second).status, "twice")
	require.Equal(t, before+1, env.replica.State().Revision())

	third := hashOf(env.plan(typed("catalog", "replicaCount=4")).body)
	env.revoke("editor")
	env.unchanged(func() { require.Contains(t, send(third).header.Get("Location"), "/ui/sign-in") })
}

// TestVersionFile: the plan has the changed document as a file for apply, and none with masked values.
func TestVersionFile(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.edit(layerWithPodinfo)
	page := env.get(podinfoVersion + "?version=6.10.0&layer=dev-apps").body
	file := html.UnescapeString(regexp.MustCompile(`(?s)<pre class="yaml">(.*?)</pre>`).FindStringSubmatch(page)[1])
	require.Contains(t, file, "id: \"dev-apps\"\nkind: \"layer\"\n")
	require.Contains(t, file, `component_version: "6.10.0"`)
	require.NotContains(t, file, "revision")
	require.Contains(t, page, `<pre class="copied">frs component set podinfo --layer dev-apps --component-version 6.10.0</pre>`)
	const secret = "/ui/components/grafana/version?version=8.2.0&cluster=cluster-0001"
	page = env.get(secret).body
	require.NotContains(t, page, "hunter2")
	require.NotContains(t, page, `class="yaml"`, "masked values would be written")
	revealed := env.send(env.client, http.MethodPost, strings.Replace(secret, "version?", "version/plan?", 1)+"&reveal=true", url.Values{})
	require.Contains(t, revealed.body, `adminPassword: &#34;hunter2&#34;`)
	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("reader", "read")).status)
	require.Contains(t, env.get(podinfoVersion+"?version=6.10.0&layer=dev-apps").body, `class="yaml"`, "others can review the file of somebody who may only read")
}

// TestOwnStages: a rollout has the stages that were typed in, which the plan shows with their clusters and approvals.
func TestOwnStages(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	own := func(stages string) url.Values {
		return typed("catalog", "replicaCount=3", "strategy", "-", "stages", stages)
	}
	env.unchanged(func() {
		for stages, says := range map[string]string{
			" ": "enter the stages", "canary": "is not NAME=SELECTOR", "canary=id=cluster-0002:half": "after a colon", "<script>alert(1)</script>=*": "", "canary=tier in gold": "",
		} {
			rsp := env.plan(own(stages))
			require.Equal(t, http.StatusOK, rsp.status, stages)
			require.Contains(t, rsp.body, says, stages)
			require.NotContains(t, rsp.body, `name="plan_hash"`, stages)
			require.NotContains(t, rsp.body, "<script>alert", stages)
		}
	})
	const stages = "canary=id=cluster-0002\r\nprod=environment=prod:50%:approve"
	plan := env.plan(own(stages)).body
	require.Regexp(t, `canary</th><td class="right">1</td><td class="fill">by hand`, plan)
	require.Regexp(t, `prod</th><td class="right">1</td><td class="fill">after its approval`, plan)
	require.Contains(t, plan, "--stage canary=id=cluster-0002 --stage prod=environment=prod:50%:approve")
	require.Equal(t, "/ui/rollouts/podinfo-values", env.make(own(stages)).header.Get("Location"))
	made := env.rollout("podinfo-values")
	require.Len(t, made.Stages, 3)
	require.True(t, made.Stages[1].Approval)
	require.Equal(t, http.StatusSeeOther, env.plan(typed("catalog", "", "version", "6.10.0", "strategy", "-", "stages", stages)).status, "an address can have stages")
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
		a.Run(chromedp.SetValue("#scope", "layer/dev-apps", chromedp.ByQuery), chromedp.SetValue("#strategy", "waves", chromedp.ByQuery), chromedp.SendKeys("#version", "6.10.0", chromedp.ByQuery))
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
