package ui_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

const newCluster = "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev"

// TestAddCluster: the form keeps what was entered, says what is refused, and leads to what connects the cluster.
func TestAddCluster(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	empty := env.get("/ui/add/cluster").body
	require.NotContains(t, empty, "plan_hash")
	require.Contains(t, empty, `<option value="uat">`)
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, "/ui/add/cluster", changeForm{}.form("x")).status)
		for query, says := range map[string]string{
			"?id=new-01&dns=new-01.example.com":                                       "",
			"?id=cluster-0001&dns=new-01.example.com&environment=dev":                 "cluster-0001",
			"?id=new-01&dns=cluster-0001.k8s.example.com&environment=dev":             "cluster-0001",
			"?id=new-01&dns=new-01.example.com&environment=moon":                      "moon",
			"?id=New+01&dns=new-01.example.com&environment=dev":                       "",
			"?id=new-01&dns=no_dns&environment=dev":                                   "",
			"?id=new-01&dns=n.example.com&environment=dev&labels=gold":                "is not KEY=VALUE",
			"?id=new-01&dns=n.example.com&environment=dev&labels=a%3D1,a%3D2":         "is not KEY=VALUE",
			"?id=new-01&dns=n.example.com&environment=dev&labels=%2C":                 "is not KEY=VALUE",
			"?id=new-01&dns=n.example.com&environment=dev&labels=-a-%3D1":             "",
			"?id=" + hostile + "&dns=n.example.com&environment=dev":                   "",
			"?id=new-01&dns=" + hostile + "&environment=dev":                          "",
			"?id=new-01&dns=n.example.com&environment=" + hostile:                     "",
			"?id=new-01&dns=n.example.com&environment=dev&labels=" + hostile:          "",
			"?id=new-01&dns=n.example.com&environment=dev&labels=a%3D" + hostile:      "",
			"?id=%E2%80%AEx&dns=n.example.com&environment=dev":                        "",
			"?id=" + strings.Repeat("x", 3000) + "&dns=n.example.com&environment=dev": "",
		} {
			rsp := env.get("/ui/add/cluster" + query)
			require.Equal(t, http.StatusOK, rsp.status, query)
			require.Contains(t, rsp.body, `id="dns"`, "the form stays: %s", query)
			require.Contains(t, rsp.body, says, query)
			require.NotContains(t, rsp.body, `name="plan_hash"`, query)
			require.NotContains(t, rsp.body, "<img", query)
			require.NotContains(t, rsp.body, "\u202e", query)
		}
	})
	plan := env.get(newCluster + "&labels=tier%3Dgold").body
	require.Contains(t, plan, "namespace team-red", "of the layer that selects it")
	done := env.send(env.client, http.MethodPost, newCluster+"&labels=tier%3Dgold", changeForm{}.form(env.planHash(newCluster+"&labels=tier%3Dgold")))
	require.Equal(t, "/ui/clusters/new-01/connect", done.header.Get("Location"), done.body)

	env.signIn(readToken)
	require.Contains(t, env.get(newCluster).body, "exists")
	require.Contains(t, env.get(strings.ReplaceAll(newCluster, "new-01", "new-02")+"&labels=a%3Db").body, "frs cluster create new-02 --dns new-02.k8s.example.com --environment dev --label a=b")
	for _, page := range []string{"/ui/", "/ui/clusters"} {
		require.NotContains(t, env.get(page).body, "Add a cluster…", "a token that may not")
	}
}

// hostile is markup in a query.
var hostile = url.QueryEscape(`"><img src=x onerror=alert(1)>`)

// TestConnectingManifests: they are complete, for this cluster and the address of this page, have no token, and are the same objects as
// those of the chart.
func TestConnectingManifests(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindResourceType, []byte(`{"id":"certificates","schema":{"type":"object","additionalProperties":false,"properties":{}},"template":"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: << inputs.id >>\n  namespace: flux-system\n"}`))
		return err
	})
	insecure := manifestsOf(t, env.get("/ui/clusters/cluster-0002/connect").body)
	for _, object := range insecure {
		if resourceset.Text(object, "kind") == resourceset.ProviderKind {
			require.Equal(t, true, object["spec"].(map[string]any)["insecure"], "without TLS")
		}
	}
	env.http.Close()
	env.http = httptest.NewTLSServer(env.page("", true))
	t.Cleanup(env.http.Close)
	env.client.Transport = env.http.Client().Transport
	env.signIn(readToken)
	page := env.get("/ui/clusters/cluster-0002/connect")
	require.Equal(t, http.StatusOK, page.status)
	objects := manifestsOf(t, page.body)
	names := map[string]int{}
	for _, object := range objects {
		kind := resourceset.Text(object, "kind")
		names[kind]++
		if kind != resourceset.ProviderKind {
			continue
		}
		name := resourceset.Text(object, "metadata", "name")
		require.Equal(t, env.http.URL+"/api/v2/flux/clusters/cluster-0002.k8s.example.com/"+name, resourceset.Text(object, "spec", "url"))
		require.NotContains(t, object["spec"], "insecure")
	}
	require.Equal(t, map[string]int{"ConfigMap": 1, "ResourceSet": 4, "ResourceSetInputProvider": 4}, names)
	require.Equal(t, "cluster-0002.k8s.example.com", resourceset.Text(objects[0], "data", "CLUSTER_DNS"))
	require.NotContains(t, page.body, "${", "placeholders")
	require.Equal(t, http.StatusNotFound, env.get("/ui/clusters/nobody/connect").status)
}

// manifestsOf returns the objects on a page.
func manifestsOf(t *testing.T, page string) []resourceset.Object {
	t.Helper()
	_, text, found := strings.Cut(page, `<pre class="yaml" tabindex="0">`)
	require.True(t, found)
	text, _, _ = strings.Cut(text, "</pre>")
	objects, err := resourceset.ParseObjects(html.UnescapeString(text))
	require.NoError(t, err)
	return objects
}

// TestAddClusterInBrowser: on an empty fleet and on others, a cluster is added with three clicks, and the view says when it polls.
func TestAddClusterInBrowser(t *testing.T) {
	t.Parallel()
	env := setupEmpty(t)
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	add := func(name string) {
		t.Helper()
		a.task("add a cluster", func() {
			a.addCluster(name)
			require.LessOrEqual(t, a.clicks, 3)
			a.sees("h1", "Waiting for the first poll of "+name)
			a.sees("main", "frs bootstrap "+name+" --poll-url "+env.http.URL)
		})
	}
	a.start()
	a.sees("main", "Bring your fleet", "frs import flux dumps/", "Add a cluster")
	require.Empty(t, violations(t, a.Browser))
	a.Screenshot("page-first-use.png")
	add("first")
	a.Screenshot("page-connect.png")
	require.Empty(t, violations(t, a.Browser))
	env.confirmAll()
	a.Run(chromedp.Evaluate(`refresh()`, nil), chromedp.Poll(`document.querySelector("h1").textContent === "first is connected"`, nil))
	add("second")
	a.Run(dark, phone)
	require.Empty(t, violations(t, a.Browser))
	screenshots(t, a.Browser, env, "phone-dark-", map[string]string{"connect": "/ui/clusters/second/connect", "add": newCluster})
	require.Empty(t, violations(t, a.Browser))
	require.Empty(t, a.Complaints())
}

// addCluster adds a cluster, from the overview.
func (a *user) addCluster(name string) {
	a.T.Helper()
	a.follow(`main a[href="/ui/add/cluster"]`)
	a.Run(chromedp.SendKeys("#id", name, chromedp.ByQuery), chromedp.SendKeys("#dns", name+".k8s.example.com", chromedp.ByQuery), chromedp.SendKeys("#environment", "dev", chromedp.ByQuery))
	a.follow(".filter button")
	a.Run(chromedp.SendKeys("#reason", "CHG-10: "+name, chromedp.ByQuery))
	a.follow(".decide button")
	a.At("/ui/clusters/" + name + "/connect")
}
