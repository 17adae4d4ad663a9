package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var (
	descRolloutStage   = desc("rollout_stage", "Started stages of an open rollout.", "rollout")
	descRolloutWaiting = desc("rollout_waiting_seconds", "Seconds for which a rollout has been paused; for which an automatic rollout has waited, by its current reason: for soak and confirmations since the start, for all others since its soak was over.", "rollout", "reason")
)

// collectRollouts reports the open rollouts.
func (s *Server) collectRollouts(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	now := s.cfg.Now()
	for _, d := range st.All(fleet.KindRollout) {
		started, paused, open := fleet.RolloutPhase(d)
		if !open {
			continue
		}
		gauge(descRolloutStage, float64(started), d.ID)
		reason := "paused"
		if !paused {
			reason = s.rolloutWaits.get(d.ID)
		}
		if reason != "" && (paused || fleet.Advances(d)) {
			gauge(descRolloutWaiting, max(0, now.Sub(fleet.RolloutWaitingSince(d, reason)).Seconds()), d.ID, reason)
		}
	}
}
