package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
)

var descVersionsBehind = desc("component_versions_behind", "Known versions of a component that are newer than the stored one, up to the candidate of its version policy. The highest number of several policies; only for policies with a range.", "component")

// versionsBehind caches the metric, which takes an evaluation of each policy.
type versionsBehind struct {
	mu    sync.Mutex
	at    time.Time
	known map[string]int
}

// versionsBehindAge is the age from which the metric is computed again.
const versionsBehindAge = 30 * time.Second

// collectVersions reports how far components are behind.
func (s *Server) collectVersions(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	b, now := &s.versionsBehind, s.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || now.Sub(b.at) >= versionsBehindAge || now.Before(b.at) {
		b.at, b.known = now, map[string]int{}
		for _, doc := range st.All(fleet.KindComponent) {
			p := doc.Component()
			for target, policy := range p.VersionPolicies {
				if policy.Range != "" {
					b.known[doc.ID] = max(b.known[doc.ID], s.versionsBehindOf(st, doc.ID, target, now))
				}
			}
		}
	}
	for component, n := range b.known {
		if st.Has(fleet.KindComponent, component) {
			gauge(descVersionsBehind, float64(n), component)
		}
	}
}

// versionsBehindOf counts the versions from the stored one to the candidate.
func (s *Server) versionsBehindOf(st *fleet.State, component, target string, now time.Time) (n int) {
	report := fleet.EvaluateVersions(st, component, target, s.knownVersions(st)(component), now)
	if report.Chart == nil || report.Chart.Candidate == nil {
		return 0
	}
	for _, r := range report.Chart.Reasons {
		if !r.Withdrawn && knownversions.Compare(r.Version, report.Chart.Stored) > 0 && knownversions.Compare(r.Version, report.Chart.Candidate.Version) <= 0 {
			n++
		}
	}
	return n
}
