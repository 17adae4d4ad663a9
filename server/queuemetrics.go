package server

import "github.com/prometheus/client_golang/prometheus"

// queueCollector reports the numbers of waiting, running and stuck jobs.
type queueCollector struct{ server *Server }

var descJobs = desc("work_jobs", "Jobs of each queue that wait for their turn, are running, or are stuck: still running more than 10 s after they were canceled.", "work", "state")

// Describe implements prometheus.Collector.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descJobs }

// Collect implements prometheus.Collector.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	for name, q := range c.server.queues {
		if q.limits.concurrent == 0 {
			continue
		}
		st := q.state()
		for state, n := range map[string]int{"waiting": st.waiting, "working": st.running, "stuck": st.stuck} {
			ch <- prometheus.MustNewConstMetric(descJobs, prometheus.GaugeValue, float64(n), name, state)
		}
	}
}
