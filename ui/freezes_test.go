package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestFreezesOnPages: the overview and the pages of the clusters that a freeze selects show it while it is active.
func TestFreezesOnPages(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.NotContains(t, env.get("/ui/").body, "Frozen by")
	env.call(http.MethodPost, "/freezes", `{"id":"year-end","selector":"id=cluster-0002","until":"2999-01-04T06:00:00Z","reason":"CHG-9 <script>alert(1)</script>"}`)
	env.call(http.MethodPost, "/freezes", `{"id":"later","all":true,"from":"2999-01-04T06:00:00Z","reason":"CHG-10"}`)
	overview := env.get("/ui/").body
	for _, want := range []string{"Frozen by", "year-end", "<code>id=cluster-0002</code>", "2999-01-04 06:00:00 UTC", "CHG-9 &lt;script&gt;", "static-write"} {
		require.Contains(t, overview, want)
	}
	require.Greater(t, strings.Index(overview, "Frozen by"), strings.Index(overview, "Needs attention"))
	require.NotContains(t, overview, "id=later&amp;kind=freeze", "it is not active")
	require.NotContains(t, overview, "End freeze", "changes are off")
	require.NotContains(t, overview, "Freeze all")
	require.Contains(t, env.get("/ui/clusters/cluster-0002").body, "Frozen by")
	require.NotContains(t, env.get("/ui/clusters/cluster-0003").body, "Frozen by")
	require.Contains(t, env.get("/ui/freezes/create-all").body, "frs freeze --all")
	require.Equal(t, http.StatusNotFound, env.get("/ui/freezes/nothing/end").status)
	require.Equal(t, http.StatusNotFound, env.get("/ui/freezes/create-all?environment=nowhere").status, "it must not become the form for all clusters")
}

// TestWindowsOnPages: maintenance windows are on the pages of their clusters. They are no event, so the overview and the header of all
// pages leave them out.
func TestWindowsOnPages(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	env.call(http.MethodPost, "/freezes", `{"id":"hours","selector":"id=cluster-0002","reason":"office hours","allow":[{"days":["tue","wed","thu"],"from":"10:00","to":"16:00","tz_variable":"timezone"}],"block":[{"from":"12:00","to":"13:00"}]}`)
	env.call(http.MethodPost, "/freezes", `{"id":"nights","all":true,"reason":"quiet nights","block":[{"days":["fri"],"from":"12:00","to":"00:00"}]}`)
	overview := env.get("/ui/").body
	require.NotContains(t, overview, "office hours")
	require.NotContains(t, overview, "Stopped")
	require.NotContains(t, overview, "quiet nights")
	page := env.get("/ui/clusters/cluster-0002").body
	require.Regexp(t, `Changed only <code>tue-thu 10:00-16:00 \$\{vars.timezone\}</code>, and not <code>12:00-13:00 UTC</code> by <a [^>]*>hours</a>`, page)
	require.Regexp(t, `Frozen <code>fri 12:00-00:00 UTC</code> by <a [^>]*>nights</a>`, page)
	require.NotContains(t, env.get("/ui/clusters/cluster-0003").body, "Changed only")
}

// TestFreezeForms: the forms create and end the freeze of all clusters, with a reason, and refuse what changed since the form.
func TestFreezeForms(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	submit := func(address, hash, reason string) response {
		t.Helper()
		return env.send(env.client, http.MethodPost, address, url.Values{"plan_hash": {html.UnescapeString(hash)}, "reason": {reason}, "confirm": {"all clusters"}})
	}
	const create, end = "/ui/freezes/create-all", "/ui/freezes/all/end"
	require.Contains(t, env.get("/ui/").body, create)
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, submit(create, env.planHash(create), "").status, "without a reason")
		untyped := env.send(env.client, http.MethodPost, create, url.Values{"plan_hash": {html.UnescapeString(env.planHash(create))}, "reason": {"outage"}, "confirm": {"all"}})
		require.Equal(t, http.StatusBadRequest, untyped.status)
		require.Contains(t, untyped.body, "Type all clusters to confirm.")
	})
	made := submit(create, env.planHash(create), "outage of the registry")
	require.Equal(t, http.StatusSeeOther, made.status, made.body)
	require.Equal(t, "/ui/", made.header.Get("Location"))
	overview := env.get("/ui/").body
	require.Contains(t, overview, "outage of the registry")
	require.Contains(t, overview, end)
	require.NotContains(t, overview, create, "it exists")
	for _, page := range []string{"/ui/", "/ui/clusters", "/ui/changes/3", "/ui/nothing"} {
		body := env.get(page).body
		require.Equal(t, 1, strings.Count(body, end), page)
		require.Contains(t, body, "Stopped: all clusters", page)
		require.Contains(t, body, "outage of the registry", page)
		require.Contains(t, body, "static-write", page)
	}
	require.Contains(t, env.get("/ui/?wall=1").body, "Frozen by", "without a header")
	require.Contains(t, env.get(create).body, "exists already")
	env.unchanged(func() { require.Equal(t, http.StatusConflict, submit(create, "new", "again").status) })
	require.Contains(t, env.get("/ui/clusters/cluster-0003").body, end)

	stale := env.planHash(end)
	env.call(http.MethodDelete, "/freezes/all", "")
	env.call(http.MethodPost, "/freezes", `{"id":"all","all":true,"reason":"another outage"}`)
	env.unchanged(func() { require.Equal(t, http.StatusPreconditionFailed, submit(end, stale, "it is over").status) })
	ended := submit(end, env.planHash(end), "it is over")
	require.Equal(t, http.StatusSeeOther, ended.status, ended.body)
	overview = env.get("/ui/").body
	require.NotContains(t, overview, "Frozen by")
	require.Contains(t, overview, "it is over")
}

// TestNewFreeze: a freeze with windows or for a time is created from a form, checked by the API before its plan is shown.
func TestNewFreeze(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	require.Contains(t, env.get("/ui/definitions/freezes").body, "/ui/freezes/create")
	address := func(fields ...string) string {
		query := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			query.Set(fields[i], fields[i+1])
		}
		return "/ui/freezes/create?" + query.Encode()
	}
	env.unchanged(func() {
		require.NotContains(t, env.get("/ui/freezes/create").body, "plan_hash")
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, "/ui/freezes/create", changeForm{}.form("new")).status)
		for _, refused := range []struct{ address, says string }{
			{address("id", "hours"), "enter a name and the clusters"},
			{address("selector", "*"), "enter a name and the clusters"},
			{address("id", "hours", "selector", "tier in"), ""},
			{address("id", "not a name", "selector", "*"), ""},
			{address("id", "hours", "selector", "*", "until", "tomorrow"), "is not a time"},
			{address("id", "hours", "selector", "*", "allow", "monday 10-12"), "is no day"},
			{address("id", "hours", "selector", "*", "allow", "10:00-12:00 Nowhere/Else"), "Nowhere/Else"},
			{address("id", "hours", "selector", "*", "block", "25:00-26:00"), ""},
			{address("id", `"><script>alert(1)</script>`, "selector", `"><script>alert(1)</script>`, "allow", "</textarea><script>alert(1)</script>"), ""},
			{address("id", strings.Repeat("x", 10_000), "selector", strings.Repeat("y", 10_000), "block", strings.Repeat("z", 10_000)), ""},
		} {
			page := env.get(refused.address)
			require.Equal(t, http.StatusOK, page.status, refused.address)
			require.Contains(t, page.body, `class="problem"`, refused.address)
			require.Contains(t, page.body, refused.says)
			require.NotContains(t, page.body, "<script>alert")
			require.NotContains(t, page.body, "plan_hash", refused.address)
			require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, refused.address, changeForm{}.form("new")).status, refused.address)
		}
	})
	hours := address("id", "prod-hours", "selector", "environment=prod", "allow", "tue-thu 10:00-16:00 Europe/Berlin\r\nfri 9:00-12:00", "block", "wed 12:00-13:00")
	page := env.get(hours).body
	require.Contains(t, page, "changes are permitted within tue-thu 10:00-16:00 Europe/Berlin; fri 09:00-12:00 UTC, and refused within wed 12:00-13:00 UTC")
	require.Regexp(t, `It selects 2 clusters now; changes of [02] of them are refused now.`, page)
	require.Contains(t, page, "frs freeze create prod-hours --selector environment=prod --allow &#39;tue-thu 10:00-16:00 Europe/Berlin&#39; --allow &#39;fri 9:00-12:00&#39; --block &#39;wed 12:00-13:00&#39; --reason REASON")
	env.unchanged(func() {
		require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, hours, changeForm{}.form("new"), "Origin", "https://evil.example").status)
	})
	made := env.send(env.client, http.MethodPost, hours, changeForm{}.form(env.planHash(hours)))
	require.Equal(t, "/ui/definitions/freezes/prod-hours", made.header.Get("Location"), made.body)
	require.Contains(t, env.get("/ui/clusters/cluster-0003").body, "Changed only <code>tue-thu 10:00-16:00 Europe/Berlin; fri 09:00-12:00 UTC</code>")
	require.Contains(t, env.get(hours).body, "A freeze with the name prod-hours exists already.")
	env.unchanged(func() {
		require.Equal(t, http.StatusConflict, env.send(env.client, http.MethodPost, hours, changeForm{}.form("new")).status, "twice")
	})

	all := address("id", "year-end", "selector", "*", "from", "2999-01-01T00:00", "until", "2999-01-04T06:00")
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, all, changeForm{}.form(env.planHash(all))).status, "all clusters have to be typed")
	})
	form := changeForm{}.form(env.planHash(all))
	form.Set("confirm", "all clusters")
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, all, form).status)

	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.NotContains(t, env.get("/ui/definitions/freezes").body, "/ui/freezes/create\"")
	require.Contains(t, env.get(address("id", "x", "selector", "*", "until", "2999-01-04T06:00")).body, "Read-only. To apply this change: <code class=\"command\">frs freeze create x --until 2999-01-04T06:00:00Z --all --reason REASON")
	env.unchanged(func() {
		require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, all, form).status)
	})
}

// TestNewFreezeInBrowser: the form of a freeze fits the screen and is accessible.
func TestNewFreezeInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("create maintenance windows", func() {
		a.follow(`nav a[href="/ui/definitions"]`)
		a.follow(`main a[href="/ui/freezes/create"]`)
		env.looksGood(a.Browser, "freeze-empty")
		a.Run(chromedp.SendKeys("#id", "prod-hours", chromedp.ByQuery), chromedp.SendKeys("#selector", "environment=prod", chromedp.ByQuery), chromedp.SetValue("#allow", "tue-thu 10:00-16:00 Europe/Berlin", chromedp.ByQuery))
		a.follow(".filter button")
		a.sees("main", "It selects 15 clusters now")
		env.looksGood(a.Browser, "freeze-plan")
		a.Run(chromedp.SendKeys("#reason", "CHG-9: office hours", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/definitions/freezes/prod-hours")
	})
	require.Empty(t, a.Complaints())
}

// TestStopOfEnvironment: only the clusters of the environment whose name was typed are frozen.
func TestStopOfEnvironment(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	env.signIn(writeToken)
	const create = "/ui/freezes/create-all?environment=prod"
	require.Contains(t, env.get("/ui/freezes/create-all").body, strings.ReplaceAll(create, "&", "&amp;"))
	form := url.Values{"plan_hash": {html.UnescapeString(env.planHash(create))}, "reason": {"INC-7"}, "confirm": {"all clusters"}}
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, create, form).status)
	})
	form.Set("confirm", "prod")
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, create, form).status)
	page := env.get("/ui/clusters").body
	require.Contains(t, page, "Stopped: environment=prod")
	require.Contains(t, page, "/ui/freezes/stop-prod/end")
	require.Contains(t, page, `href="/ui/freezes/create-all"`, "the others can be stopped too")
	env.call(http.MethodPatch, "/clusters/cluster-0000", `{"cluster_name":"renamed"}`)
}

// TestPinsOnPages: the overview and the page of a pinned cluster show the pin, and the form that unpins it is a plan of its effect.
func TestPinsOnPages(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	until := env.now().Add(time.Hour).UTC().Format(time.RFC3339)
	env.call(http.MethodPatch, "/clusters/cluster-0002", `{"pinned":{"reason":"INC-7 <script>alert(1)</script>","until":"`+until+`"}}`)
	env.call(http.MethodPatch, "/clusters/cluster-0002", `{"cluster_name":"renamed"}`)
	for _, page := range []string{"/ui/", "/ui/clusters/cluster-0002"} {
		require.Contains(t, env.get(page).body, "Pinned: <a", page)
		require.Contains(t, env.get(page).body, "INC-7 &lt;script&gt;", page)
		require.NotContains(t, env.get(page).body, "without a person", page)
	}
	require.NotContains(t, env.get("/ui/clusters/cluster-0003").body, "Pinned:")
	env.advance(2 * time.Hour)
	require.Contains(t, env.get("/ui/").body, "it cannot be unpinned without a person")
	const end = "/ui/clusters/cluster-0002/unpin"
	require.Contains(t, env.get("/ui/").body, end)
	require.Contains(t, env.get(end).body, "On 1 cluster:")
	stale := html.UnescapeString(env.planHash(end))
	env.call(http.MethodPatch, "/clusters/cluster-0002", `{"cluster_name":"again"}`)
	env.unchanged(func() {
		require.Equal(t, http.StatusPreconditionFailed, env.send(env.client, http.MethodPost, end, url.Values{"plan_hash": {stale}, "reason": {"over"}}).status)
	})
	ended := env.send(env.client, http.MethodPost, end, url.Values{"plan_hash": {html.UnescapeString(env.planHash(end))}, "reason": {"over"}})
	require.Equal(t, http.StatusSeeOther, ended.status, ended.body)
	require.NotContains(t, env.get("/ui/").body, "Pinned:")
}

// TestFreezeInBrowser: the emergency stop takes two clicks and a reason, and the pages fit the screen.
func TestFreezeInBrowser(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 60, "")
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("freeze all clusters", func() {
		a.follow(`.top .stop`)
		a.Run(chromedp.SendKeys("#reason", "outage of the registry", chromedp.ByQuery), chromedp.SendKeys("#confirm", "all clusters", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/")
		require.Contains(t, a.Text(".stopped"), "outage of the registry")
		require.Equal(t, 2, a.clicks)
	})
	env.call(http.MethodPost, "/freezes", `{"id":"year-end","selector":"environment=prod","until":"2999-01-04T06:00:00Z","reason":"CHG-2026: the freeze at the end of the year"}`)
	pages := map[string]string{"overview": "/ui/", "cluster": "/ui/clusters/cluster-0003", "end": "/ui/freezes/all/end", "stop": "/ui/freezes/create-all?environment=prod"}
	for _, style := range []struct {
		name   string
		action chromedp.Action
	}{{"", light}, {"dark-", dark}, {"phone-", chromedp.Tasks{light, phone}}} {
		a.Run(style.action)
		screenshots(t, a.Browser, env, "freeze-"+style.name, pages)
	}
	a.task("end the freeze", func() {
		a.Run(chromedp.Navigate(env.http.URL+"/ui/"), chromedp.WaitReady("main", chromedp.ByQuery))
		a.follow(`.stopped a[href="/ui/freezes/all/end"]`)
		a.Run(chromedp.SendKeys("#reason", "it is over", chromedp.ByQuery))
		a.follow(".decide button")
		require.NotContains(t, a.Text("body"), "Stopped")
	})
	require.Empty(t, a.Complaints())
}
