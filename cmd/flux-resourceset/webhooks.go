package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

// minWebhookKey is the minimum length of WEBHOOK_KEY, in characters: all signing secrets are derived from it.
const minWebhookKey = 32

// readWebhooks reads the settings of webhooks.
func (cfg *config) readWebhooks(c *cli.Context) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	w := &cfg.webhooks
	w.Key, w.PublicURL = c.String("webhook-key"), strings.TrimSuffix(c.String("public-url"), "/")
	if padded(w.Key) {
		problem("WEBHOOK_KEY %s", isPadded)
	} else if w.Key != "" && len(w.Key) < minWebhookKey {
		problem("WEBHOOK_KEY has less than %d characters: use the output of openssl rand -hex 32", minWebhookKey)
	}
	if w.Key != "" && w.PublicURL == "" {
		problem("WEBHOOK_KEY requires PUBLIC_URL: it is the source of events, and the beginning of their links")
	}
	if u, err := url.Parse(w.PublicURL); w.PublicURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		problem("PUBLIC_URL must be a URL such as https://fleet.example.com")
	}
	proxy, wrong := readProxy(c, "webhook-proxy", "WEBHOOK_PROXY")
	w.Proxy = proxy
	return append(problems, wrong...)
}

// newWebhooks returns the deliverer of events; nil: the mode makes no deliveries.
func newWebhooks(cfg config, tracker *clusterstatus.Tracker, replica *store.Replica, history webhooks.History, logger *slog.Logger) (*webhooks.Deliverer, error) {
	if cfg.mode != server.ModeCRUD {
		return nil, nil //nolint:nilnil // another process delivers
	}
	table, err := cfg.db.observations()
	if err != nil {
		return nil, err
	}
	w := cfg.webhooks
	w.Replica, w.History, w.Table, w.Alone, w.Logger = replica, history, table, !cfg.hasPeers(), logger
	w.Tracker, w.Cause = tracker, server.FailureCause
	return webhooks.New(w), nil
}
