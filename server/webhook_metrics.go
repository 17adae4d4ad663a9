package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var (
	descWebhookLag        = desc("webhook_lag_revisions", "Revisions that are not delivered to a webhook yet, as this process knows it; absent while it is suspended.", "webhook")
	descWebhookDeliveries = desc("webhook_deliveries_total", "Requests of this process to receivers of webhooks, by result: delivered or failed.", "result")
)

// documentCollector reports metrics of single documents, with the name of the document as the first label. Not named: the names are
// empty, and each metric has one series with the largest value of all documents. So alerts work without a token.
type documentCollector struct {
	server *Server
	named  bool
}

// Describe implements prometheus.Collector.
func (*documentCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPinOverdue, descWebhookLag, descVersionsBehind, descSourceStopped} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *documentCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.server.cfg.Replica.State()
	if st == nil {
		return
	}
	largest := map[*prometheus.Desc]float64{}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		if c.named {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
			return
		}
		largest[d] = max(largest[d], v)
	}
	c.server.collectPins(st, gauge)
	c.server.collectWebhooks(st, gauge)
	c.server.collectVersions(st, gauge)
	c.server.collectSources(st, gauge)
	for d, v := range largest {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, "")
	}
}

// collectWebhooks reports the delivery of webhooks.
func (s *Server) collectWebhooks(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	if s.cfg.Webhooks == nil {
		return
	}
	for _, w := range st.Webhooks() {
		if !w.Suspended {
			gauge(descWebhookLag, float64(max(0, st.Revision()-s.cfg.Webhooks.Delivery(w).Revision)), w.ID)
		}
	}
}

func (s *Server) countDeliveries(ch chan<- prometheus.Metric) {
	if s.cfg.Webhooks == nil {
		return
	}
	stats := s.cfg.Webhooks.Stats()
	ch <- prometheus.MustNewConstMetric(descWebhookDeliveries, prometheus.CounterValue, float64(stats.Delivered), "delivered")
	ch <- prometheus.MustNewConstMetric(descWebhookDeliveries, prometheus.CounterValue, float64(stats.Failed), "failed")
}
