package ui_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// createRollout creates a rollout of grafana with the stages canary, half and rest.
func (env *testEnv) createRollout(id string) {
	env.t.Helper()
	env.call(http.MethodPost, "/rollouts", fmt.Sprintf(`{"id":%q,"description":%q,`+
		`"operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],`+
		`"stages":[{"name":"canary","cluster_ids":["cluster-0002"]},{"name":"half","selector":"environment!=prod","percent":50}]}`, id, env.text))
}

// act runs an action on a rollout through the API.
func (env *testEnv) act(id, action string) {
	env.t.Helper()
	env.call(http.MethodPost, "/rollouts/"+id+"/"+action, "")
}

func (env *testEnv) rollout(id string) api.Rollout {
	env.t.Helper()
	var out api.Rollout
	require.NoError(env.t, json.Unmarshal(env.call(http.MethodGet, "/rollouts/"+id, "").Body.Bytes(), &out))
	return out
}

// alter changes the rollouts in the answers of the API, so that a page shows every status.
func alter(change func(*api.Rollout)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			list := r.URL.Path == "/rollouts"
			if r.Method != http.MethodGet || !list && !strings.HasPrefix(r.URL.Path, "/rollouts/") {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			var all []api.Rollout
			var one api.Rollout
			body := rec.Body.Bytes()
			if rec.Code == http.StatusOK && list {
				_ = json.Unmarshal(body, &all)
				for i := range all {
					change(&all[i])
				}
				body, _ = json.Marshal(all) //nolint:errchkjson // as it was read
			} else if rec.Code == http.StatusOK {
				_ = json.Unmarshal(body, &one)
				change(&one)
				body, _ = json.Marshal(one) //nolint:errchkjson // as it was read
			}
			rec.Header().Del("Content-Length")
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body)
		})
	}
}

// inEveryState gives the first stage of a rollout clusters in every state.
func inEveryState(text string) func(*api.Rollout) {
	return func(r *api.Rollout) {
		r.Complete = true
		if r.Started == 0 {
			return
		}
		until := time.Date(2026, 1, 2, 3, 34, 5, 0, time.UTC)
		r.Waiting = &api.RolloutWaiting{Reason: "confirmations", Message: "confirmations of stage canary: 1,180 of 1,286", Stage: "canary", Until: &until}
		r.Stages[0].Progress = &api.RolloutProgress{Affected: 1300, Confirmed: 1180, Pending: 60, Behind: 12, Unknown: 8, Failed: 26, Offline: 14}
		for i := range 20 {
			r.Stages[0].Progress.Failures = append(r.Stages[0].Progress.Failures, api.RolloutFailure{
				ClusterID: clusterID(i), Failure: api.Failure{Severity: "error", Reason: failures[i%3].reason, ID: "grafana", Message: failures[i%3].message + text},
			})
		}
	}
}

// TestRolloutPages: the list, the page of a rollout and the overview show state, progress, failures and the plan of the next stage.
func TestRolloutPages(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.wrapAPI = alter(inEveryState(env.text))
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	require.Contains(t, env.get("/ui/rollouts").body, "No rollouts")
	env.createRollout("grafana-8.2")
	const page = "/ui/rollouts/grafana-8.2"

	proposed := env.get(page).body
	require.Contains(t, proposed, "Next stage: canary")
	require.Contains(t, proposed, "On 1 cluster: 0 added, 1 changed, 0 removed.")
	require.Contains(t, proposed, "<del>&#34;8.1.0&#34;</del>")
	require.Contains(t, proposed, page+"/start?stage=canary")
	require.NotContains(t, proposed, page+"/back")
	require.NotContains(t, proposed, "<script>alert")
	overview := env.get("/ui/").body
	require.Contains(t, overview, page, "an open rollout is on the overview")
	require.Less(t, strings.Index(overview, `<section class="rollouts">`), strings.Index(overview, page), "below what needs attention")
	require.NotContains(t, overview, "rollout needs attention")

	env.act("grafana-8.2", "start")
	started := env.get(page).body
	for _, want := range []string{"Failing clusters", "UpgradeFailed", clusterID(19), "And 6 more clusters", "confirmations of stage canary", "2026-01-02 03:34:05 UTC", "Next stage: half", "/back?stage=canary", "/skip?stage=half"} {
		require.Contains(t, started, want)
	}
	const takeBack = `class="button primary" href="/ui/rollouts/grafana-8.2/back?stage=canary"`
	require.Contains(t, started, takeBack, "clusters failed")
	require.NotContains(t, proposed, takeBack)
	require.Contains(t, env.get("/ui/rollouts").body, "confirmations of stage canary")
	overview = env.get("/ui/").body
	require.Greater(t, strings.Index(overview, page), strings.Index(overview, "Needs attention"), "clusters failed")
	require.Less(t, strings.Index(overview, page), strings.LastIndex(overview, "/ui/clusters/cluster-"), "rollouts are first")
	require.NotContains(t, env.get(page, "X-Refresh", "true").body, "Next stage", "a refresh makes no plan")

	env.act("grafana-8.2", "pause")
	paused := env.get(page).body
	require.Contains(t, paused, "is paused: resume it first")
	require.Contains(t, paused, page+"/resume")
	require.Contains(t, paused, takeBack, "rather than resume it")
	require.NotContains(t, paused, page+"/start\"")
	env.act("grafana-8.2", "abort")
	aborted := env.get(page).body
	require.NotContains(t, aborted, page+"/")
	require.NotContains(t, env.get("/ui/").body, page+`"`, "it is no longer open")
	require.Contains(t, env.get("/ui/rollouts").body, "aborted")
	require.Contains(t, env.get("/ui/changes/4").body, page)
	require.Equal(t, http.StatusNotFound, env.get("/ui/rollouts/nothing").status)

	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	env.createRollout("again")
	require.NotContains(t, env.get("/ui/rollouts/again").body, "/pause")
	require.Contains(t, env.get("/ui/rollouts/again/start?stage=canary").body, "frs rollout start again --stage canary")
}

// TestRolloutGate: the gate of the stages is shown once, and a stage with another gate shows its own.
func TestRolloutGate(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	env.call(http.MethodPost, "/rollouts", `{"id":"gated","advance":"automatic","operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],`+
		`"gate":{"soak":"30m"},"stages":[{"name":"one","cluster_ids":["cluster-0002"]},{"name":"two","cluster_ids":["cluster-0003"],"gate":{"soak":"24h"}},{"name":"rest","all":true}]}`)
	page := env.get("/ui/rollouts/gated").body
	require.Equal(t, 1, strings.Count(page, "after 30m; deadline"))
	require.Equal(t, 1, strings.Count(page, "after 24h; deadline"))
}

// TestRolloutActions: each action runs with the plan that was shown, and a form for a stage never changes another one.
func TestRolloutActions(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	env.createRollout("grafana-8.2")
	submit := func(address string) response {
		t.Helper()
		return env.send(env.client, http.MethodPost, address, url.Values{"plan_hash": {env.planHash(address)}, "reason": {"CHG-8: as we agreed"}, "confirm": {""}})
	}
	const page = "/ui/rollouts/grafana-8.2"
	stale := page + "/start?stage=canary"
	hash := env.planHash(stale)
	for _, step := range []struct {
		action, state string
		started       int
	}{
		{"/start?stage=canary", "running", 1},
		{"/back?stage=canary", "paused", 0},
		{"/resume", "proposed", 0},
		{"/start?stage=canary", "running", 1},
		{"/pause", "paused", 1},
		{"/resume", "running", 1},
		{"/skip?stage=half", "running", 2},
		{"/start?stage=rest", "running", 3},
		{"/complete", "completed", 3},
	} {
		done := submit(page + step.action)
		require.Equal(t, http.StatusSeeOther, done.status, "%s: %s", step.action, done.body)
		require.Equal(t, page, done.header.Get("Location"))
		now := env.rollout("grafana-8.2")
		require.Equal(t, step.state, now.State, step.action)
		require.Equal(t, step.started, now.Started, step.action)
		if now.State == "proposed" { // the plan that was shown first is true again
			continue
		}
		env.unchanged(func() {
			refused := env.send(env.client, http.MethodPost, stale, url.Values{"plan_hash": {hash}, "reason": {"again"}})
			require.Contains(t, []int{http.StatusConflict, http.StatusPreconditionFailed}, refused.status, step.action)
		})
	}
	component, _ := env.replica.State().Get(fleet.KindComponent, "grafana")
	require.Contains(t, string(component.Body), "8.2.0")
	require.Contains(t, env.get(page).body, "CHG-8: as we agreed")
}

// TestRolloutApproval: a stage with approval offers its approval, then its start.
func TestRolloutApproval(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	env.call(http.MethodPost, "/rollouts", `{"id":"grafana-8.2","operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],`+
		`"stages":[{"name":"all","all":true,"approval":true}]}`)
	const page = "/ui/rollouts/grafana-8.2"
	labels := map[string]string{"approve": "Approve stage all…", "start": "Start stage all…"}
	for _, action := range []string{"approve", "start"} {
		body := env.get(page).body
		for other, label := range labels {
			require.Equal(t, other == action, strings.Contains(body, label), "%s before %s", other, action)
		}
		address := page + "/" + action + "?stage=all"
		if action == "approve" {
			require.Contains(t, body, "needs an approval")
			require.Contains(t, body, `<span class="faint">needs approval</span>`)
			require.Contains(t, body, "On 7 clusters: 0 added, 7 changed, 0 removed.")
			form := env.get(address).body
			require.Contains(t, form, "Effect on clusters when the stage starts")
			require.Contains(t, form, "On 7 clusters: 0 added, 7 changed, 0 removed.")
			require.NotContains(t, form, "would be refused")
			start := env.get(page + "/start?stage=all").body
			require.Contains(t, start, "would be refused")
			require.Contains(t, start, address)
			require.NotContains(t, start, "plan_hash")
		}
		done := env.send(env.client, http.MethodPost, address, url.Values{"plan_hash": {env.planHash(address)}, "reason": {"CHG-8"}, "confirm": {""}})
		require.Equal(t, http.StatusSeeOther, done.status, "%s: %s", action, done.body)
	}
	require.Equal(t, "started", env.rollout("grafana-8.2").Stages[0].State)
	require.Contains(t, env.get(page).body, "approved by static-write")
}

// TestRolloutInBrowser: a stage is started with a few clicks, and the pages fit the screen with clusters in every state.
func TestRolloutInBrowser(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 2000, "")
	env.wrapAPI = alter(inEveryState(""))
	env.createRollout("grafana-8.2")
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("start the first stage of a rollout", func() {
		a.follow(`.rollouts a[href="/ui/rollouts/grafana-8.2"]`)
		a.follow(`.actions .primary`)
		require.Contains(t, a.Text("main"), "On 1 cluster: 0 added, 1 changed, 0 removed.")
		a.Screenshot("page-rollout-start.png")
		a.Run(chromedp.SendKeys("#reason", "CHG-9: grafana 8.2", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/rollouts/grafana-8.2")
		require.Contains(t, a.Text(".stages"), "started")
		require.Contains(t, a.Text("main"), "CHG-9: grafana 8.2")
		require.Contains(t, a.Text(".stages"), "Failing\n26")
	})
	pages := map[string]string{"overview": "/ui/", "list": "/ui/rollouts", "page": "/ui/rollouts/grafana-8.2", "back": "/ui/rollouts/grafana-8.2/back?stage=canary"}
	for _, style := range []struct {
		name   string
		action chromedp.Action
	}{{"", light}, {"dark-", dark}, {"phone-", chromedp.Tasks{light, phone}}, {"phone-dark-", dark}} {
		a.Run(style.action)
		screenshots(t, a.Browser, env, "rollout-"+style.name, pages)
	}
	require.Empty(t, a.Complaints())
}
