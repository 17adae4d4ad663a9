package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var (
	descWebhookLag        = desc("webhook_lag_revisions", "Revisions that are not delivered to a webhook yet, as this process knows it; absent while it is suspended.", "webhook")
	descWebhookDeliveries = desc("webhook_deliveries_total", "Requests of this process to receivers of webhooks, by result: delivered or failed.", "result")
)

// collectWebhooks reports the delivery of webhooks.
func (s *Server) collectWebhooks(st *fleet.State, ch chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string)) {
	if s.cfg.Webhooks == nil {
		return
	}
	for _, w := range st.Webhooks() {
		if !w.Suspended {
			gauge(descWebhookLag, float64(max(0, st.Revision()-s.cfg.Webhooks.Delivery(w).Revision)), w.ID)
		}
	}
	stats := s.cfg.Webhooks.Stats()
	ch <- prometheus.MustNewConstMetric(descWebhookDeliveries, prometheus.CounterValue, float64(stats.Delivered), "delivered")
	ch <- prometheus.MustNewConstMetric(descWebhookDeliveries, prometheus.CounterValue, float64(stats.Failed), "failed")
}
