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
	WebhookStandard = "standard"
	WebhookSlack    = "slack"
	WebhookTeams    = "teams"
)

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

	// These are of no commit.
	EventClustersFailing   = "fleet.clusters.failing"
	EventClustersRecovered = "fleet.clusters.recovered"
)

// webhookEvents are the types that a webhook can select.
var webhookEvents = []string{
	EventRevision, EventRolloutCreated, EventRolloutStageStarted, EventRolloutStageApproved, EventRolloutStageSkipped, EventRolloutPaused, EventRolloutWaiting, EventRolloutCompleted,
	EventRolloutAborted, EventFreezeStarted, EventFreezeEnded, EventSourceHeld, EventSourceFailed, EventClustersFailing, EventClustersRecovered,
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
	bound: func(any) int { return 0 },
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
	return len(w.Events) == 0 || slices.Contains(w.Events, event)
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
	c.oneOf("/format", w.Format, "", WebhookStandard, WebhookSlack, WebhookTeams)
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
	if w.Selector != "" && len(c.next.clustersWhere(w.SelectsCluster)) == 0 {
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
