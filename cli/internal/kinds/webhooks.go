package kinds

import (
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Webhooks are receivers of events.
var Webhooks = Kind{
	API: "webhook", Schema: "Webhook", Name: "webhook", Plural: "webhooks", Title: "webhook",
	View: render.View{
		Header: []string{"ID", "STATE", "REVISION", "LAG", "STATUS", "URL", "EVENTS", "KINDS", "SELECTOR", "FORMAT", "ERROR"}, Narrow: 6,
		Row: render.RowOf(func(d api.Webhook) []string {
			status := ""
			if d.Delivery.LastStatus > 0 {
				status = strconv.Itoa(d.Delivery.LastStatus)
			}
			return []string{
				d.ID, webhookState(d), strconv.FormatInt(d.Delivery.Revision, 10), strconv.FormatInt(d.Delivery.Lag, 10), status, d.URL,
				strings.Join(d.Events, ","), strings.Join(d.Kinds, ","), d.Selector, d.Format, d.Delivery.LastError,
			}
		}),
	},
	List: "webhooks", Calls: conn.Calls{Path: "/webhooks"},
}

// webhookState returns the state of a webhook in one word.
func webhookState(d api.Webhook) string {
	switch {
	case d.Suspended:
		return "suspended"
	case d.Delivery.LastError != "":
		return "failing"
	case d.Delivery.Lag > 0:
		return "delivering"
	}
	return "current"
}
