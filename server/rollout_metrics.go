package server

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var (
	descRolloutStage   = desc("rollout_stage", "Started stages of an open rollout.", "rollout")
	descRolloutWaiting = desc("rollout_waiting_seconds", "Seconds for which a rollout has been paused; for which an automatic rollout has waited, by its current reason: for soak and confirmations since the start, for all others since its soak was over.", "rollout", "reason")
)

// rolloutWaits are the reasons for which automatic rollouts wait, by the id of the rollout, as this process evaluated them last.
type rolloutWaits struct {
	mu    sync.Mutex
	known map[string]string
}

// observe records the reason for which a rollout waits; empty: it does not wait.
func (w *rolloutWaits) observe(id, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[string]string{}
	}
	if w.known[id] = reason; reason == "" {
		delete(w.known, id)
	}
}

// forgetMissing drops the reasons of rollouts that do not exist any more.
func (w *rolloutWaits) forgetMissing(st *fleet.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.known, func(id, _ string) bool { _, ok := st.Get(fleet.KindRollout, id); return !ok })
}

// get returns the reason for which a rollout waits; empty if none is known.
func (w *rolloutWaits) get(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[id]
}

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
