package fleet

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

const (
	maxWebhooks      = 64
	maxWebhookKinds  = 50
	maxWebhookEvents = 20
	maxWebhookURL    = 2048
)

// The formats of webhooks.
const (
	WebhookStandard  = "standard"
	WebhookSlack     = "slack"
	WebhookTeams     = "teams"
	WebhookPagerDuty = "pagerduty"
	WebhookOpsgenie  = "opsgenie"
)

// pagerKeys are the parameters of a URL that have the key of a pager's integration. Queries of URLs are never shown.
var pagerKeys = map[string]string{WebhookPagerDuty: "routing_key", WebhookOpsgenie: "api_key"}

// pagerEvents are the types of events that pagers receive: those that trigger an alert, and those that resolve one.
var pagerEvents = map[string]bool{
	EventRolloutPaused: true, EventRolloutStageStarted: false, EventRolloutCompleted: false, EventRolloutAborted: false,
	EventSourceHeld: true, EventSourceFailed: true, EventSourceReady: false, EventClustersFailing: true, EventClustersRecovered: false,
}

// Types of events that webhooks receive.
const (
	EventRevision = "fleet.revision"
	EventGap      = "fleet.gap"  // revisions that are not delivered
	EventTest     = "fleet.test" // on request

	EventRolloutCreated       = "fleet.rollout.created"
	EventRolloutStageStarted  = "fleet.rollout.stage_started"
	EventRolloutStageApproved = "fleet.rollout.stage_approved"
	EventRolloutStageSkipped  = "fleet.rollout.stage_skipped"
	EventRolloutPaused        = "fleet.rollout.paused"
	EventRolloutWaiting       = "fleet.rollout.waiting_for_approval"
	EventRolloutCompleted     = "fleet.rollout.completed"
	EventRolloutAborted       = "fleet.rollout.aborted"

	EventFreezeStarted = "fleet.freeze.started"
	EventFreezeEnded   = "fleet.freeze.ended"

	EventSourceHeld   = "fleet.source.held"
	EventSourceFailed = "fleet.source.failed"
	EventSourceReady  = "fleet.source.ready" // after one of these

	// These are of no commit.
	EventClustersFailing   = "fleet.clusters.failing"
	EventClustersRecovered = "fleet.clusters.recovered"
)

// webhookEvents are the types that a webhook can select.
var webhookEvents = []string{
	EventRevision, EventRolloutCreated, EventRolloutStageStarted, EventRolloutStageApproved, EventRolloutStageSkipped, EventRolloutPaused, EventRolloutWaiting, EventRolloutCompleted,
	EventRolloutAborted, EventFreezeStarted, EventFreezeEnded, EventSourceHeld, EventSourceFailed, EventSourceReady, EventClustersFailing, EventClustersRecovered,
}

// Webhook is the value of a webhook's document.
type Webhook struct {
	ID         string     `json:"id"`
	URL        string     `json:"url"`
	Kinds      []Kind     `json:"kinds,omitempty"`  // empty: all except tokens
	Events     []string   `json:"events,omitempty"` // empty: all
	Selector   string     `json:"selector,omitempty"`
	Format     string     `json:"format,omitempty"` // empty: standard
	Generation int64      `json:"generation"`       // of the signing secret
	RotatedAt  *time.Time `json:"rotated_at,omitempty"`
	Suspended  bool       `json:"suspended"`
	// After is the revision after which delivery starts: the one of the creation, or of the last replay.
	After Revision `json:"after"`
	// Replays counts the replays, so that two with the same After differ.
	Replays int64 `json:"replays,omitempty"`

	selector Selector
	// unknown: the document has a field that this version does not know. The field may restrict the events.
	unknown bool
}

var webhookKind = kindRules{
	name:       KindWebhook,
	noun:       "webhook",
	collection: "webhooks",
	empty:      func() any { return new(Webhook) },
	normalize:  normalizeWebhook,
	complete: func(value any, body json.RawMessage) error {
		w := value.(*Webhook)
		w.unknown = hasUnknownField(body, &Webhook{})
		var err error
		if w.selector, err = ParseSelector(w.Selector); err != nil {
			return fmt.Errorf("/selector: %w", err)
		}
		return nil
	},
	check: func(c *checker, d *Document) { checkWebhook(c, d.Webhook()) },
	view:  func(d *Document) any { return d.Webhook().view(d) },
}

// normalizeWebhook omits fields with their default values.
func normalizeWebhook(obj map[string]any) {
	if obj["format"] == WebhookStandard {
		delete(obj, "format")
	}
	if obj["selector"] == "" {
		delete(obj, "selector")
	}
	for _, field := range []string{"kinds", "events"} {
		if list, ok := obj[field].([]any); ok && len(list) == 0 {
			delete(obj, field)
		}
	}
	if _, ok := obj["suspended"]; !ok {
		obj["suspended"] = false
	}
}

// Webhook returns the document as a webhook; it must be one. The result must not be changed.
func (d *Document) Webhook() *Webhook { return d.value.(*Webhook) }

// Webhooks returns all webhooks, sorted by id.
func (s *State) Webhooks() []*Webhook {
	var out []*Webhook
	for _, d := range s.All(KindWebhook) {
		out = append(out, d.Webhook())
	}
	return out
}

// Known reports whether this version knows all fields of the webhook. A process delivers no events to others: an unknown field may
// restrict them.
func (w *Webhook) Known() bool { return !w.unknown }

// Selects reports whether the webhook selects events of a type.
func (w *Webhook) Selects(event string) bool {
	if _, pager := pagerKeys[w.Format]; pager {
		_, ok := pagerEvents[event]
		return ok
	}
	return len(w.Events) == 0 || slices.Contains(w.Events, event)
}

// Triggers reports whether an event triggers an alert of a pager. Other events resolve it.
func Triggers(event string) bool {
	triggers, known := pagerEvents[event]
	return triggers || !known
}

// Pager returns the URL of a pager without the key of its integration, and this key; empty: the webhook is not for a pager, or has no key.
func (w *Webhook) Pager() (address *url.URL, key string) {
	address, err := url.Parse(w.URL)
	if parameter := pagerKeys[w.Format]; err == nil && parameter != "" {
		query := address.Query()
		key = strings.Join(query[parameter], "")
		query.Del(parameter)
		address.RawQuery = query.Encode()
	}
	return address, key
}

// SelectsKind reports whether the webhook selects changes of documents of a kind.
func (w *Webhook) SelectsKind(kind Kind) bool {
	if len(w.Kinds) == 0 {
		return kind != KindToken && kind != KindBudget
	}
	return slices.Contains(w.Kinds, kind)
}

// SelectsCluster reports whether the webhook selects events about a cluster.
func (w *Webhook) SelectsCluster(c *api.Cluster) bool { return w.selector.Matches(c) }

// view returns a webhook as the API shows it, without the state of its delivery.
func (w *Webhook) view(d *Document) *api.Webhook {
	view := &api.Webhook{
		ID: w.ID, URL: w.DisplayURL(), Events: w.Events, Selector: w.Selector, Format: w.format(), Generation: w.Generation, RotatedAt: w.RotatedAt,
		Suspended: w.Suspended, After: int64(w.After), Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	for _, kind := range w.Kinds {
		view.Kinds = append(view.Kinds, string(kind))
	}
	return view
}

func (w *Webhook) format() string {
	if w.Format == "" {
		return WebhookStandard
	}
	return w.Format
}

// hiddenQuery stands for the query of a URL that is shown.
const hiddenQuery = "?…"

// DisplayURL returns the URL without its query, which may be a secret.
func (w *Webhook) DisplayURL() string {
	if base, _, has := strings.Cut(w.URL, "?"); has {
		return base + hiddenQuery
	}
	return w.URL
}

// withoutURL returns a webhook's body for the history, which more people may read than the webhook: the path of a URL may be a
// secret too.
func withoutURL(body json.RawMessage) (json.RawMessage, error) {
	if body == nil {
		return nil, nil
	}
	obj, err := ParseObject(body)
	if err != nil {
		return nil, fmt.Errorf("a webhook of the log: %w", err)
	}
	text, _ := obj["url"].(string)
	obj["url"] = "…"
	if u, err := url.Parse(text); err == nil {
		obj["url"] = u.Scheme + "://" + u.Host + "/…"
	}
	return jsontext.Canonical(obj)
}

var webhookKindPattern = regexp.MustCompile(`^[a-z_]+(/[a-z0-9-]+)?$`)

// checkWebhook checks a webhook's document.
func checkWebhook(c *checker, w *Webhook) {
	c.dnsSubdomain("/id", w.ID)
	c.text("/url", w.URL, maxWebhookURL)
	if problem := checkWebhookURL(w.URL); problem != "" {
		c.problem("/url", "%s", problem)
	}
	c.oneOf("/format", w.Format, "", WebhookStandard, WebhookSlack, WebhookTeams, WebhookPagerDuty, WebhookOpsgenie)
	if parameter := pagerKeys[w.Format]; parameter != "" {
		if _, key := w.Pager(); key == "" {
			c.problem("/url", "must have the key of the integration as its query %s=KEY", parameter)
		}
		if len(w.Events) > 0 {
			c.problem("/events", "format %s receives the events that trigger and resolve alerts: select with kinds", w.Format)
		}
	}
	c.atMost("/kinds", len(w.Kinds), maxWebhookKinds, "kinds")
	for i, kind := range w.Kinds[:min(len(w.Kinds), maxWebhookKinds)] {
		if !webhookKindPattern.MatchString(string(kind)) {
			c.problem(fmt.Sprintf("/kinds/%d", i), "%q is not a kind of documents", kind)
		}
	}
	c.atMost("/events", len(w.Events), maxWebhookEvents, "events")
	for i, event := range w.Events[:min(len(w.Events), maxWebhookEvents)] {
		c.oneOf(fmt.Sprintf("/events/%d", i), event, webhookEvents...)
	}
	if w.Selector != "" && !c.next.hasCluster(w.SelectsCluster) {
		c.warn("webhook %q matches no cluster", w.ID)
	}
	if w.unknown {
		c.problem("", "it has a field that this version does not know")
	}
	if n := len(c.next.docs[KindWebhook]); n > maxWebhooks {
		c.problem("", "there would be %d webhooks; at most %d are possible", n, maxWebhooks)
	}
}

// checkWebhookURL returns the problem of a URL, or "".
func checkWebhookURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || !slices.Contains([]string{"http", "https"}, u.Scheme):
		return "must be a URL such as https://hooks.example.com/fleet"
	case u.User != nil:
		return "must not have user information: the signature authenticates the sender"
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must not have a fragment"
	case strings.HasSuffix(text, hiddenQuery):
		return "must have its whole query: ?… replaces it in responses"
	}
	return ""
}
