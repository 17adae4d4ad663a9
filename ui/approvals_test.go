package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// approvedRollout creates a rollout of grafana with stages that need approvals.
func (env *testEnv) approvedRollout(settings string) {
	env.t.Helper()
	env.call(http.MethodPost, "/rollouts", `{"id":"grafana-8.2"`+settings+`,"operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],`+
		`"stages":[{"name":"one","cluster_ids":["cluster-0002"],"approval":true},{"name":"rest","all":true,"approval":true}]}`)
}

// TestApprovalsToGive: the page lists what waits for an approval, two clicks from the overview, with who asked, the policies and whether the
// visitor may give it, and the approvals that were given.
func TestApprovalsToGive(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	editor := env.issueToken("editor", "write")
	const page, approve = "/ui/approvals", "/ui/rollouts/grafana-8.2/approve?stage=one"
	require.NotContains(t, env.get("/ui/").body, page)
	require.Contains(t, env.get(page).body, "No rollout and no source waits")
	env.policy("by-two", "approve", "effect.count == 0", `'changes ' + string(effect.count) + ' clusters <script>alert(1)</script>'`)
	env.approvedRollout("")
	require.Contains(t, env.get("/ui/").body, `<a href="/ui/approvals">1 approval</a> is needed`)
	own := env.get(page).body
	require.Contains(t, own, "You created it: another person must approve it.")
	require.NotContains(t, own, approve)
	require.NotContains(t, own, "<script>alert")

	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("reader", "read")).status)
	require.NotContains(t, env.get("/ui/").body, page, "a reader can approve nothing")
	require.Contains(t, env.get(page).body, "Your token may not approve it.")

	require.Equal(t, http.StatusSeeOther, env.signIn(editor).status)
	body := env.get(page).body
	for _, want := range []string{"1 approval is needed", "Stage one of rollout grafana-8.2", "<bdi>static-write</bdi>", `by-two</a>: <bdi>changes 1 clusters &lt;script&gt;`, `href="` + approve} {
		require.Contains(t, body, want)
	}
	done := env.send(env.client, http.MethodPost, approve, url.Values{"plan_hash": {env.planHash(approve)}, "reason": {"CHG-8: reviewed"}})
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
	body = env.get(page).body
	require.Contains(t, body, "No rollout and no source waits")
	require.Contains(t, body, "<bdi>rollout:grafana-8.2:one</bdi>")
	require.Contains(t, body, "CHG-8: reviewed")
	require.NotContains(t, env.get("/ui/").body, page)
}

// TestApproveStageAgain: an approval that does not count any more can be given again, with the reason, also of a stage that the server starts.
func TestApproveStageAgain(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	editor := env.issueToken("editor", "write")
	env.policy("by-two", "approve", "effect.count == 0", `'needs a second person'`)
	env.approvedRollout("")
	const page, approve = "/ui/rollouts/grafana-8.2", "/ui/rollouts/grafana-8.2/approve?stage=one"
	const again, ended = "Approve stage one…", "which does not count: a policy was changed since"
	give := func() {
		t.Helper()
		require.Equal(t, http.StatusSeeOther, env.signIn(editor).status)
		done := env.send(env.client, http.MethodPost, approve, url.Values{"plan_hash": {env.planHash(approve)}, "reason": {"CHG-8"}})
		require.Equal(t, http.StatusSeeOther, done.status, done.body)
	}
	give()
	body := env.get(page).body
	require.NotContains(t, body, again, "it would not count for the approver")
	require.Contains(t, body, "which does not count: the approver makes the change")
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	require.Contains(t, env.get(page).body, "approved by token:editor")
	require.NotContains(t, env.get(page).body, "does not count")

	env.call(http.MethodPatch, "/policies/by-two", `{"description":"changed since"}`)
	for _, header := range [][]string{nil, {"X-Refresh", "true"}} {
		body = env.get(page, header...).body
		require.Contains(t, body, again)
		require.Contains(t, body, ended)
	}
	give()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	require.NotContains(t, env.get(page).body, again)
	start := page + "/start?stage=one"
	done := env.send(env.client, http.MethodPost, start, url.Values{"plan_hash": {env.planHash(start)}, "reason": {"CHG-8"}})
	require.Equal(t, http.StatusSeeOther, done.status, done.body)

	// A server starts the stage, and is refused.
	env.call(http.MethodPost, "/rollouts/grafana-8.2/abort", "")
	env.call(http.MethodDelete, "/rollouts/grafana-8.2", "")
	env.approvedRollout(`,"advance":"automatic","start_at":"` + env.now().Add(time.Minute).Format(time.RFC3339) + `"`)
	give()
	env.call(http.MethodPatch, "/policies/by-two", `{"description":"changed again"}`)
	env.advance(2 * time.Minute)
	env.api.AdvanceRollouts(t.Context())
	require.Equal(t, "paused", env.rollout("grafana-8.2").State)
	body = env.get(page).body
	require.Contains(t, body, again)
	require.Contains(t, body, ended)
	require.Contains(t, env.get("/ui/approvals").body, approve)
	give()
	env.call(http.MethodPost, "/rollouts/grafana-8.2/resume", "")
	env.api.AdvanceRollouts(t.Context())
	require.Equal(t, 1, env.rollout("grafana-8.2").Started)
}

// TestApproveForAnother: the plan of a refused change has an address, at which a second person sees its effect and approves it.
func TestApproveForAnother(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	editor := env.issueToken("editor", "write")
	env.policy("by-two", "approve", "effect.count == 0", `'needs a second person'`)
	require.Equal(t, http.StatusSeeOther, env.signIn(editor).status)
	const address = newVersion + "&approve_for=token%3Aeditor"
	require.Contains(t, env.get(newVersion).body, `href="/ui/components/podinfo/version?approve_for=token%3Aeditor&amp;version=6.10.0"`)
	require.NotContains(t, env.get(address).body, "Approve for", "it is the visitor's own change")

	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("reader", "read")).status)
	require.NotContains(t, env.get(address).body, `<button class="primary`)

	secret := env.createToken(`{"name":"lead","role":"scoped"}`)
	env.call(http.MethodPost, "/access", `{"id":"leads","subjects":[{"token":"lead"}],"may":["read","plan","approve"]}`)
	require.Equal(t, http.StatusSeeOther, env.signIn(secret).status)
	page := env.get(address).body
	require.Contains(t, page, `type="submit">Approve for token:editor</button>`)
	require.Contains(t, page, "On 8 clusters: 0 added, 8 changed")
	require.NotContains(t, env.get(newVersion+"&approve_for=%3Cscript%3Ealert(1)").body, "<script>alert")
	rollout := env.get(address + "&strategy=-&stages=one%3Denvironment%3Ddev")
	require.Equal(t, http.StatusBadRequest, rollout.status)
	require.Contains(t, rollout.body, "this change cannot be approved for another person")
	hash := env.planHash(address)
	env.unchanged(func() {
		require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, address, url.Values{"plan_hash": {hash}}).status, "without a reason")
		require.NotEqual(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, newVersion, changeForm{}.form(hash)).status, "the change itself")
		outdated := env.send(env.client, http.MethodPost, address, changeForm{}.form(strings.Repeat("0", len(hash))))
		require.Equal(t, http.StatusPreconditionFailed, outdated.status)
		require.Contains(t, outdated.body, "nothing was approved. This is the new plan.")
	})
	done := env.send(env.client, http.MethodPost, address, changeForm{}.form(hash))
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
	require.Equal(t, "/ui/approvals", done.header.Get("Location"))
	require.Contains(t, env.get("/ui/approvals").body, "<bdi>token:editor</bdi>")

	require.Equal(t, http.StatusSeeOther, env.signIn(editor).status)
	require.Contains(t, env.get("/ui/approvals").body, `<bdi>token:editor</bdi> <span class="chip">you</span>`)
	done = env.send(env.client, http.MethodPost, newVersion, changeForm{}.form(env.planHash(newVersion)))
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
	require.Equal(t, "6.10.0", env.componentVersion("podinfo"))
}

// TestRulesBesidePolicies: the list of policies has the other rules that may refuse a change, also without a policy.
func TestRulesBesidePolicies(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, readToken)
	require.Contains(t, env.get("/ui/definitions").body, `href="/ui/definitions/change-policies"`)
	env.call(http.MethodPost, "/freezes", `{"id":"year-end","all":true,"reason":"CHG-9"}`)
	page := env.get("/ui/definitions/change-policies").body
	for _, want := range []string{"removal-budget", "Removals of more than 50 installed things within an hour.", "protected-environments", "year-end</a>", "CHG-9"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, env.get("/ui/definitions/freezes").body, "removal-budget")
}

// TestApprovalsInBrowser: a second person finds the approval from the overview with two clicks, and gives it; the pages fit the screen and are
// accessible.
func TestApprovalsInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.policy("by-two", "approve", "effect.count == 0", `'changes ' + string(effect.count) + ' clusters'`)
	env.approvedRollout("")
	env.call(http.MethodPost, "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":"token:ci"}`, strings.Repeat("9f", 16)))
	a := &user{Browser: signInBrowserAs(t, env, env.issueToken("lead", "write"), true), env: env}
	a.start()
	a.follow(`a[href="/ui/approvals"]`)
	a.sees("main", "Stage one of rollout grafana-8.2", "static-write", "changes 1 clusters", "token:ci")
	env.looksGood(a.Browser, "approvals")
	a.follow(".actions .primary")
	a.sees("main", "On 1 cluster: 0 added, 1 changed, 0 removed.")
	a.Run(chromedp.SendKeys("#reason", "CHG-9", chromedp.ByQuery))
	a.follow(".decide button.primary")
	a.At("/ui/rollouts/grafana-8.2")
	a.Run(chromedp.Navigate(env.http.URL+"/ui/definitions/change-policies"), chromedp.WaitReady("main", chromedp.ByQuery))
	a.sees("main", "removal-budget")
	env.looksGood(a.Browser, "rules")
	require.Empty(t, a.Complaints())
}
