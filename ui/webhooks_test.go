package ui_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// withWebhooks makes the API list webhooks in all states of delivery, with a text from outside.
func withWebhooks(text string) func(http.Handler) http.Handler {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := at.Add(10 * time.Minute)
	hooks := []api.Webhook{
		{ID: "change-log", URL: "https://hooks.example.com/services/PATHSECRET", Delivery: api.WebhookDelivery{Revision: 3, LastStatus: 204, LastAt: &at}},
		{ID: "chat", URL: "https://chat.example.com/x", Delivery: api.WebhookDelivery{
			Revision: 1, Lag: 2, Attempts: 3, LastStatus: 503, LastError: "the receiver answered 503 Service Unavailable " + text, LastAt: &at, NextAttemptAt: &later,
		}},
		{ID: "deployments", URL: "https://ci.example.com/x", Delivery: api.WebhookDelivery{Revision: 2, Lag: 1}},
		{ID: "old", URL: "https://old.example.com/x", Suspended: true},
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/webhooks" {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(hooks)
		})
	}
}

// TestWebhookDeliveries: administrators see the delivery of each webhook, without the secret in its address.
func TestWebhookDeliveries(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.signIn(env.issueToken("reader", "read"))
	require.Equal(t, http.StatusForbidden, env.get("/ui/webhooks").status)
	env.signIn(readToken)
	require.Equal(t, http.StatusForbidden, env.get("/ui/webhooks").status)
	require.Equal(t, http.StatusOK, env.get("/ui/").status, "the session continues: the API answers a static token with 401")
	env.signIn(env.issueToken("ops", "admin"))
	require.Contains(t, env.get("/ui/webhooks").body, "No webhooks")
	env.wrapAPI = withWebhooks(htmlPayload)
	env.enableChanges()
	env.signIn(env.issueToken("ops-2", "admin"))
	page := env.get("/ui/webhooks").body
	for _, want := range []string{
		"1 webhook fails", "503 Service Unavailable &lt;script&gt;", "3 failed attempts", "2 revisions behind", `<a href="/ui/changes/1">revision 1</a>`,
		"2026-01-02 03:14:05 UTC", "HTTP 503", "Up to date", "Delivering", "Suspended", "hooks.example.com",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "PATHSECRET")
	require.Contains(t, env.get("/ui/definitions").body, `href="/ui/webhooks"`)
}

// TestWebhooksInBrowser: the table fits the screen.
func TestWebhooksInBrowser(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 3, "")
	env.wrapAPI = withWebhooks("")
	b := signInBrowserAs(t, env, writeToken, true)
	pages := map[string]string{"webhooks": "/ui/webhooks"}
	screenshots(t, b, env, "", pages)
	b.Run(dark)
	screenshots(t, b, env, "dark-", pages)
	b.Run(chromedp.Tasks{light, phone})
	screenshots(t, b, env, "phone-", pages)
	b.Run(emulation.SetDeviceMetricsOverride(320, 640, 2, true))
	screenshots(t, b, env, "narrow-", pages)
	require.Empty(t, b.Complaints())
}
