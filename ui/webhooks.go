package ui

import (
	"net/url"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// deliveryRow is a webhook with the state of its delivery.
type deliveryRow struct {
	api.Webhook

	Host  string // of the receiver; the rest of the address may be a secret
	Lag   int
	State string
	Class string // the state of clusters with the same color
}

type webhooksView struct {
	frame
	Rows    []deliveryRow
	Failing int
}

// showWebhooks shows the delivery of each webhook. Only administrators may read webhooks.
func showWebhooks(req *pageRequest) error {
	if !req.may("admin") { // the API answers a static token with 401, which would end the session
		return errNotAdmin
	}
	list, err := req.fleet.ListWebhooksWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	var view webhooksView
	for _, hook := range *list.JSON200 {
		row := deliveryRow{Webhook: hook, Lag: int(hook.Delivery.Lag)}
		if address, err := url.Parse(hook.URL); err == nil {
			row.Host = address.Host
		}
		switch {
		case hook.Suspended:
			row.State, row.Class = "Suspended", "never"
		case hook.Delivery.LastError != "":
			row.State, row.Class = "Failing", "failed"
			view.Failing++
		case hook.Delivery.Lag > 0:
			row.State, row.Class = "Delivering", "progressing"
		default:
			row.State, row.Class = "Up to date", "confirmed"
		}
		view.Rows = append(view.Rows, row)
	}
	return req.show("webhooks", "Webhooks", "definitions", &view)
}
