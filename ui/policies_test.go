package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// policy adds a policy.
func (env *testEnv) policy(id, action, rule, message string) {
	env.t.Helper()
	env.call(http.MethodPost, "/policies", fmt.Sprintf(`{"id":%q,"action":%q,"rule":%q,"message":%q}`, id, action, rule, message))
}

const newVersion = podinfoVersion + "?version=6.10.0"

// TestFreezeRefuses: a freeze that refuses a change is shown once, as a policy is, in place of the button.
func TestFreezeRefuses(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.call(http.MethodPost, "/freezes", `{"id":"year-end","selector":"id=cluster-0002","until":"2999-01-04T06:00:00Z","reason":"CHG-9 <script>alert(1)</script>"}`)
	page := env.get(newVersion).body
	require.Regexp(t, `class="note bad policy"><span>Freeze <a href="/ui/definitions/freezes/year-end">year-end</a> refuses the change: <bdi>CHG-9 &lt;script&gt;alert\(1\)&lt;/script&gt;</bdi> \(1 cluster\), until <time [^>]*>2999-01-04 06:00:00 UTC<`, page)
	require.NotContains(t, page, "would be refused")
	require.NotContains(t, page, `name="plan_hash"`)
	require.Contains(t, page, "frs component set podinfo --component-version 6.10.0 --override-freeze year-end --reason")
	rollout := env.get(newVersion + "&strategy=waves").body
	require.Regexp(t, `class="note warn policy"><span>Freeze [^:]* would refuse it at once; each stage is judged when it starts: `, rollout)
	require.Contains(t, rollout, `<button class="primary " type="submit">Create rollout</button>`)
	env.unchanged(func() {
		rsp := env.send(env.client, http.MethodPost, newVersion, changeForm{}.form("x"))
		require.Equal(t, http.StatusConflict, rsp.status)
		require.NotContains(t, rsp.body, "T06:00:00Z<")
	})
	other := env.get(podinfoVersion + "?version=6.10.0&cluster=cluster-0003").body
	require.Contains(t, other, `name="plan_hash"`)
	nobody := env.get(podinfoVersion + "?version=6.10.0&cluster=nobody").body
	require.Contains(t, nobody, `<p class="note bad refusal" role="status">there is no cluster &#34;nobody&#34;</p>`)
	require.NotContains(t, nobody, "/operations/")
}

// TestPolicyRefuses: the plan shows a policy that refuses in place of the button, once, and whoever may override it can.
func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.policy("few", "deny", "effect.count <= 2", `'changes ' + string(effect.count) + ' clusters <script>alert(1)</script>'`)
	env.policy("many", "warn", "effect.count <= 1", `'rather use a rollout'`)
	page := env.get(newVersion).body
	require.Regexp(t, `Policy <a href="/ui/definitions/change-policies/few">few</a> refuses the change: <bdi>changes \d clusters &lt;script&gt;`, page)
	require.Regexp(t, `many</a> warns: <bdi>rather use a rollout</bdi> \(\d clusters\)`, page)
	require.Less(t, strings.Index(page, "few</a>"), strings.Index(page, "many</a>"))
	require.Equal(t, 1, strings.Count(page, "rather use a rollout"))
	require.Equal(t, 1, strings.Count(page, "changes 8 clusters"))
	require.NotContains(t, page, "would be refused")
	require.NotContains(t, page, `<button class="primary " type="submit">`)
	require.Contains(t, page, "Override the policy")
	require.Contains(t, page, `component_version: &#34;6.10.0&#34;`, "the file, which others can review")
	require.NotContains(t, page, "frs approve", "an approval changes nothing")

	hash := env.planHash(newVersion)
	send := func(override string) response {
		form := changeForm{}.form(hash)
		form.Set("override", override)
		return env.send(env.client, http.MethodPost, newVersion, form)
	}
	env.unchanged(func() {
		for _, override := range []string{"", "many", "nothing", "few\nX-Other: a", strings.Repeat("x", 5000), `<script>alert(1)</script>`} {
			rsp := send(override)
			require.GreaterOrEqual(t, rsp.status, 400, override)
			require.Less(t, rsp.status, 500, override)
			require.NotContains(t, rsp.body, "<script>alert", override)
		}
	})
	rollout := env.get(newVersion + "&strategy=waves").body
	require.Contains(t, rollout, "would refuse it at once; each stage is judged when it starts")
	require.Contains(t, rollout, `<button class="primary " type="submit">Create rollout</button>`)

	// The rights count, when the plan is shown and when the change is made.
	secret := env.createToken(`{"name":"ops","role":"scoped"}`)
	env.call(http.MethodPost, "/access", `{"id":"ops","subjects":[{"token":"ops"}],"may":["read","plan","write"]}`)
	require.Equal(t, http.StatusSeeOther, env.signIn(secret).status)
	require.NotContains(t, env.get(newVersion).body, `name="override"`)
	env.unchanged(func() { require.Contains(t, []int{403, 422}, send("few").status) })
	env.call(http.MethodPatch, "/access/ops", `{"may":["read","plan","write","override_policy"]}`)
	require.Contains(t, env.get(newVersion).body, `name="override"`)
	done := send("few")
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
	require.Contains(t, env.get(done.header.Get("Location")).body, "override policy/few")
}

// TestPolicyOfOthersOnPlan: the plan of a team names the policies that it fails, and nothing else of policies.
func TestPolicyOfOthersOnPlan(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.call(http.MethodPost, "/policies", `{"id":"few","description":"zebra","rule":"effect.count == 0 || 'zebra' == ''","message":"'changes ' + string(effect.count)","match":{"selector":"environment notin (zebra)"},"action":"deny"}`)
	env.call(http.MethodPost, "/policies", `{"id":"zebra-warns","rule":"effect.clusters.all(c, c.id != 'zebra')","action":"warn"}`)
	env.call(http.MethodPost, "/access", `{"id":"ops","subjects":[{"token":"ops"}],"may":["read","plan","write"],"on":{"selector":"id=cluster-0002"}}`)
	require.Equal(t, http.StatusSeeOther, env.signIn(env.createToken(`{"name":"ops","role":"scoped"}`)).status)
	page := env.get(newVersion + "&scope=cluster&cluster=cluster-0002").body
	require.Contains(t, page, "few")
	require.Contains(t, page, "changes 1")
	require.NotContains(t, page, "zebra")
}

// TestPolicyOfReasons: a policy that reads the reason refuses a plan without one; the form checks the reason, and then offers the change.
func TestPolicyOfReasons(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.policy("ticket", "deny", `change.reason.matches('CHG-[0-9]+')`, `'the reason must name a ticket'`)
	check := func(reason string) response {
		return env.send(env.client, http.MethodPost, newVersion, url.Values{"plan_hash": {env.planHash(newVersion)}, "reason": {reason}, "check": {"policies"}})
	}
	env.unchanged(func() {
		require.Contains(t, env.get(newVersion).body, "Check with this reason")
		require.Contains(t, check("no").body, "the reason must name a ticket")
		require.Contains(t, check(`CHG-1 "><script>alert(1)</script>`).body, `type="submit">Change podinfo</button>`)
		require.NotContains(t, check(`"><script>alert(1)</script>`).body, "<script>alert")
		require.Equal(t, http.StatusBadRequest, check("").status)
	})
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, newVersion, changeForm{}.form(planHashField.FindStringSubmatch(check("CHG-8").body)[1])).status)
}

// TestPolicyThatNeedsApproval: the plan has the command for a second person.
func TestPolicyThatNeedsApproval(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.policy("by-two", "approve", "effect.count == 0", `'needs a second person'`)
	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("editor", "write")).status)
	page := env.get(newVersion).body
	require.Contains(t, page, "frs approve "+env.planHash(newVersion)+" --for token:editor</code>")
	require.NotContains(t, page, `type="submit">Change podinfo</button>`)
	require.NotContains(t, page, `name="override"`, "a token of role write may not")
	env.call(http.MethodPost, "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":"token:editor"}`, env.planHash(newVersion)))
	page = env.get(newVersion).body
	require.Contains(t, page, "which <bdi>static-write</bdi> has approved for you")
	require.Contains(t, page, `type="submit">Change podinfo</button>`)
	require.NotContains(t, page, "frs approve")
	env.policy("never", "deny", "effect.count == 0", `'never'`)
	require.NotContains(t, env.get(newVersion).body, "frs approve", "the other policy refuses it all the same")
}

// TestPlanInBrowser: a plan of values with policies that refuse, and one with stages of its own, fit the screen and are accessible, and the form
// shows the fields of its scope only.
func TestPlanInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.edit(createStrategy)
	env.edit(layerWithPodinfo)
	env.policy("few", "deny", "effect.count <= 2", `'changes ' + string(effect.count) + ' clusters; use a rollout with smaller stages'`)
	env.policy("by-two", "approve", "effect.count <= 1", `'needs a second person'`)
	env.policy("many", "warn", "effect.count <= 1", `'changes more than one cluster'`)
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	visible := func(selector string) (shown bool) {
		a.Run(chromedp.Evaluate(`document.querySelector("`+selector+`").offsetParent !== null`, &shown))
		return shown
	}
	set := func(selector, value string) chromedp.Action {
		return chromedp.SetValue(selector, value, chromedp.ByQuery)
	}
	a.start()
	a.Run(chromedp.Navigate(env.http.URL+podinfoVersion), chromedp.WaitReady("main", chromedp.ByQuery))
	require.False(t, visible("#cluster"))
	require.False(t, visible("#stages"))
	a.Run(set("#scope", "cluster"))
	require.True(t, visible("#cluster"))
	a.Run(set("#scope", "catalog"), set("#values", "replicaCount=3\nui.message=Hello"))
	a.follow(".filter button")
	a.sees("main", "few refuses the change: changes 60 clusters", "by-two refuses", "many warns")
	a.Click(".decide summary")
	a.Click(".copies summary")
	a.sees(".copies", "--set replicaCount=3")
	env.looksGood(a.Browser, "policies")
	a.Run(set("#strategy", "-"))
	require.True(t, visible("#stages"))
	a.Run(set("#stages", "canary=id=cluster-0002\nhalf=environment!=prod:50%\nprod=environment=prod:approve"))
	a.follow(".filter button")
	a.sees("main", "prod\t15\tafter its approval", "rest\t")
	env.looksGood(a.Browser, "own-stages")
	a.Run(chromedp.SendKeys("#reason", "CHG-9", chromedp.ByQuery))
	a.follow(".decide button.primary")
	a.At("/ui/rollouts/podinfo-values")
	a.sees(".stages", "needs approval")
	require.Empty(t, a.Complaints())
}
