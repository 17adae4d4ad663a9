package webhooks

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// maxAlertText is the number of characters of the first line of an alert: the limit of Opsgenie. PagerDuty permits more.
const maxAlertText = 130

// pagerMessage returns the body that triggers or resolves an alert, and sets the address of m, which differs from that of the webhook: the key
// of the integration is not in the address of a request. Both events of an alert have the same deduplication key.
//
// https://developer.pagerduty.com/docs/send-alert-event, https://docs.opsgenie.com/docs/alert-api
func (d *Deliverer) pagerMessage(w *fleet.Webhook, e event, m *message) any {
	to, key := w.Pager()
	dedup := fmt.Sprintf("flux-resourceset-%x", sha256.Sum256([]byte(d.cfg.PublicURL+"\n"+w.ID+"\n"+e.subject)))[:49]
	lines := e.lines()
	text := lines[0]
	if runes := []rune(text); len(runes) > maxAlertText {
		text = string(runes[:maxAlertText-1]) + "…"
	}
	body := map[string]any{}
	switch {
	case w.Format == fleet.WebhookPagerDuty:
		body = map[string]any{"routing_key": key, "event_action": "resolve", "dedup_key": dedup}
		if !e.resolves {
			severity := "error"
			if e.Type == fleet.EventTest {
				severity = "info"
			}
			body["event_action"] = "trigger"
			body["client"], body["client_url"] = "flux-resourceset", e.link
			body["payload"] = map[string]any{
				"summary": text, "source": d.cfg.PublicURL, "severity": severity, "timestamp": e.Time.UTC().Format(time.RFC3339), "component": e.subject, "class": e.Type,
				"custom_details": map[string]any{"details": lines},
			}
		}
	case e.resolves:
		to = to.JoinPath(dedup, "close")
		query := to.Query()
		query.Set("identifierType", "alias")
		to.RawQuery = query.Encode()
		body["source"], body["note"] = "flux-resourceset", text
	default:
		body = map[string]any{
			"message": text, "alias": dedup, "description": strings.Join(lines, "\n"), "source": "flux-resourceset", "entity": e.subject,
			"details": map[string]string{"type": e.Type, "link": e.link},
		}
		if e.Type == fleet.EventTest {
			body["priority"] = "P5"
		}
	}
	m.url = to.String()
	if w.Format == fleet.WebhookOpsgenie {
		m.apiKey = key
	}
	return body
}
