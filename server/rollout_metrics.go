package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var (
	descRolloutStage   = desc("rollout_stage", "Started stages of an open rollout.", "rollout")
	descRolloutWaiting = desc("rollout_waiting_seconds", "Seconds for which an automatic rollout has waited for the same reason, since this process first observed it; for which any rollout has been paused.", "rollout", "reason")
)

// rolloutWaits are the current waits of automatic rollouts, as this process observed them. Rollouts do not store the begin of
// a wait.
type rolloutWaits struct {
	mu    sync.Mutex
	known map[string]rolloutWait // by the id of the rollout
}

type rolloutWait struct {
	reason string
	since  time.Time
}

// observe records the reason for which a rollout waits; empty: it does not wait.
func (w *rolloutWaits) observe(id, reason string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case reason == "":
		delete(w.known, id)
	case w.known[id].reason != reason:
		if w.known == nil {
			w.known = map[string]rolloutWait{}
		}
		w.known[id] = rolloutWait{reason, now}
	}
}

// get returns the wait of a rollout; the zero value if none is known.
func (w *rolloutWaits) get(id string) rolloutWait {
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
		if paused {
			gauge(descRolloutWaiting, max(0, now.Sub(d.UpdatedAt).Seconds()), d.ID, "paused")
		} else if wait := s.rolloutWaits.get(d.ID); wait.reason != "" && fleet.Advances(d) {
			gauge(descRolloutWaiting, max(0, now.Sub(wait.since).Seconds()), d.ID, wait.reason)
		}
	}
}
