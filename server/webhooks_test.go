package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

// withWebhooks returns a world that delivers events, with the requests that its receiver gets.
func withWebhooks(t *testing.T) (w *world, url string, requests chan *http.Request) {
	t.Helper()
	requests = make(chan *http.Request, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r }))
	t.Cleanup(receiver.Close)
	w, _ = delivering(t)
	return w, receiver.URL, requests
}

// delivering returns a world that delivers events, and the configuration of its server, for another process.
func delivering(t *testing.T) (w *world, used server.Config) {
	t.Helper()
	var d *webhooks.Deliverer
	w = setupWith(t, options{configure: func(cfg *server.Config) {
		d = webhooks.New(webhooks.Config{
			Replica: cfg.Replica, History: cfg.History.(webhooks.History), Key: strings.Repeat("k", 32), PublicURL: "https://fleet.example.com",
			AllowHTTP: true, AllowPrivate: true, Alone: true, Now: cfg.Now,
		})
		cfg.Webhooks = d
		cfg.ClusterStatus = clusterstatus.NewTracker(clusterstatus.Config{})
		used = *cfg
	}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w, used
}

// TestWebhooksOfPolicies: no receiver learns the text of a policy, which may name any cluster, and one of some clusters learns nothing of changes
// of others: refusals, overrides, approvals, and rollouts that a policy pauses.
func TestWebhooksOfPolicies(t *testing.T) {
	t.Parallel()
	w, cfg := delivering(t)
	bodies := map[string]chan string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies[r.URL.Path[1:]] <- string(body)
	}))
	t.Cleanup(receiver.Close)
	for id, limits := range map[string]string{"web": `,"selector":"team=web"`, "pager": `,"selector":"team=web","format":"pagerduty"`, "chat": `,"selector":"team=web","format":"slack"`, "all": ``} {
		bodies[id] = make(chan string, 100)
		w.create("/webhooks", `{"id":"`+id+`","url":"`+receiver.URL+`/`+id+`?routing_key=`+strings.Repeat("0", 32)+`"`+limits+`}`)
	}
	for _, team := range []string{"web", "zebra"} {
		w.create("/platform_components", `{"id":"`+team+`-app","component_path":"a","oci_url":"https://charts.example.com","component_version":"1.0.0"}`)
		w.create("/clusters", `{"id":"`+team+`-01","cluster_dns":"`+team+`.example.com","environment":"dev","labels":{"team":"`+team+`"},"platform_components":[{"id":"`+team+`-app"},{"id":"podinfo"}]}`)
	}
	received := func(id string) (all []string) { // by a webhook, until the newest revision
		head := w.revision()
		require.Eventually(t, func() bool {
			return w.get("/webhooks/" + id).json()["delivery"].(map[string]any)["revision"] == float64(head)
		}, 30*time.Second, 5*time.Millisecond)
		for len(bodies[id]) > 0 {
			all = append(all, <-bodies[id])
		}
		return all
	}
	for id := range bodies {
		received(id)
	}

	// Changes of the other team.
	w.post("/policies", `{"id":"zebra-rule","description":"zebra","rule":"effect.clusters.all(c, c.id != 'zebra-01')","message":"'zebra-01 stays'","action":"approve"}`).want(201)
	other := func(version string, headers ...string) *answer {
		return w.patch("/platform_components/zebra-app", `{"component_version":"`+version+`"}`, headers...)
	}
	refused := other("1.1.0")
	refused.problem(422, "policy")
	ci := bearer(w.issue(`{"name":"ci","role":"write"}`).secret)
	var needed api.Problem
	require.NoError(t, json.Unmarshal(other("1.1.0", ci...).problem(422, "policy").body, &needed))
	w.post("/approvals", `{"plan_hash":"`+needed.PlanHash+`","subject":"token:ci","reason":"zebra"}`).want(201)
	other("1.1.0", ci...).want(200)
	other("1.2.0", "X-Fleet-Override-Policy", "zebra-rule", "X-Change-Reason", "zebra").want(200)
	for _, id := range []string{"web", "pager", "chat"} {
		require.Empty(t, received(id), id)
	}
	require.NotEmpty(t, received("all"))

	// A rollout that reaches both teams.
	w.create("/rollouts", `{"id":"both","advance":"automatic","gate":{"confirmed":"0%","soak":"1m"},"start_at":"`+w.clock.Now().Format(time.RFC3339)+`",
		"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"9.9.9"}}],"stages":[{"name":"all","all":true}]}`)
	runner, err := server.New(cfg)
	require.NoError(t, err)
	runner.AdvanceRollouts(t.Context())
	paused := w.get("/rollouts/both").json()
	require.Contains(t, paused["paused_because"], "zebra-01 stays")
	for id := range bodies {
		all := strings.Join(received(id), "\n")
		require.Contains(t, all, "a policy refuses the next step", id)
		require.NotContains(t, all, "zebra", id)
		require.NotContains(t, all, "another person can approve", id)
	}
}

// TestWebhooks: every operation of webhooks.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	w, url, requests := withWebhooks(t)
	body := `{"id":"log","url":"` + url + `/PATHSECRET/x?key=hidden","kinds":["namespace"]}`
	w.unchanged(func() {
		w.post("/webhooks?dry_run=true", body).want(200)
		w.post("/webhooks", `{"id":"log","url":"https://user:pw@hooks.example.com/"}`).problem(400, "validation_error")
		w.post("/webhooks", `{"id":"log","url":"http://169.254.169.254/"}`).problem(400, "validation_error")
		w.post("/webhooks", `{"id":"a/b","url":"https://hooks.example.com/"}`).problem(400, "validation_error")
		w.post("/webhooks", `{"id":"log","url":"https://hooks.example.com/","generation":7}`).problem(400, "validation_error")
	})
	w.create("/webhooks", body)
	w.post("/webhooks", body).problem(409, "conflict")
	got := w.get("/webhooks/log").want(200)
	require.Equal(t, url+"/PATHSECRET/x?…", got.json()["url"])
	w.patch("/webhooks/log", `{"suspended":false}`, "If-Match", `"other"`).problem(412, "stale")
	w.create("/namespaces", `{"id":"one"}`)
	sent := <-requests
	require.Equal(t, []string{"hidden", "/PATHSECRET/x"}, []string{sent.URL.Query().Get("key"), sent.URL.Path})
	require.Eventually(t, func() bool {
		d := w.get("/webhooks/log").json()["delivery"].(map[string]any)
		return d["lag"] == 0.0 && d["last_status"] == 200.0
	}, 30*time.Second, 5*time.Millisecond)
	anonymous := string(w.get("/metrics", "Authorization", "").want(200).body)
	require.Contains(t, anonymous, `flux_resourceset_webhook_lag_revisions{webhook=""} 0`)
	require.NotContains(t, anonymous, `"log"`)
	require.Contains(t, string(w.get("/metrics").want(200).body), `flux_resourceset_webhook_lag_revisions{webhook="log"} 0`)

	secret := w.get("/webhooks/log/secret", "Authorization", "Bearer "+writeToken).want(200)
	require.Equal(t, "no-store", secret.header.Get("Cache-Control"))
	require.True(t, strings.HasPrefix(secret.json()["secret"].(string), "whsec_"))
	require.Equal(t, 2.0, w.post("/webhooks/log/rotate", "").want(200).json()["generation"])
	w.put("/webhooks/log", `{"url":"`+url+`/PATHSECRET/x?…","format":"slack"}`).want(200)
	w.patch("/webhooks/log", `{"kinds":null}`).want(200)
	w.post("/webhooks/log/replay?after=999", "").problem(400, "validation_error")
	w.post("/webhooks/log/replay", "").problem(400, "validation_error")
	require.Equal(t, 1.0, w.post("/webhooks/log/replay?after=1", "").want(200).json()["after"])
	<-requests
	require.Equal(t, true, w.post("/webhooks/log/test", "").want(200).json()["delivered"])
	require.Len(t, w.get("/webhooks").want(200).list(), 1)
	require.Len(t, w.get("/webhooks/log/history").want(200).list(), 5)
	for rev := 1; rev <= w.revision(); rev++ {
		text := string(w.get("/revisions/" + strconv.Itoa(rev)).want(200).body)
		require.NotContains(t, text, "hidden")
		require.NotContains(t, text, "PATHSECRET")
	}
	w.delete("/webhooks/log").want(200)
	w.get("/webhooks/log").problem(404, "not_found")
	w.get("/webhooks/log/secret").problem(404, "not_found")
	w.post("/webhooks/log/test", "").problem(404, "not_found")
}

// TestWebhooksWithoutKey: nothing is created, and the error names the setting.
func TestWebhooksWithoutKey(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(cfg *server.Config) {
		cfg.Webhooks = webhooks.New(webhooks.Config{Replica: cfg.Replica, History: cfg.History.(webhooks.History)})
	}})
	w.unchanged(func() {
		refused := w.post("/webhooks", `{"id":"log","url":"https://hooks.example.com/"}`)
		refused.problem(409, "conflict")
		require.Contains(t, string(refused.body), "WEBHOOK_KEY")
	})
}
