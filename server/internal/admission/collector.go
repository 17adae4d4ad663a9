package admission

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Queues)(nil)

var descJobs = prometheus.NewDesc("flux_resourceset_work_jobs", "Jobs of each queue that wait for their turn, are running, or are stuck: still running more than 10 s after they were canceled.", []string{"work", "state"}, nil)

// Describe implements prometheus.Collector.
func (s *Queues) Describe(ch chan<- *prometheus.Desc) { ch <- descJobs }

// Collect implements prometheus.Collector: the numbers of waiting, running and stuck jobs.
func (s *Queues) Collect(ch chan<- prometheus.Metric) {
	for name, q := range s.byName {
		if q.limits.concurrent == 0 {
			continue
		}
		st := q.state()
		for state, n := range map[string]int{"waiting": st.waiting, "working": st.running, "stuck": st.stuck} {
			ch <- prometheus.MustNewConstMetric(descJobs, prometheus.GaugeValue, float64(n), name, state)
		}
	}
}
