package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

var descFreezeOverdue = desc("freeze_overdue_seconds", "Seconds since the end of a pin that has not ended, because a person has to confirm what its end removes.", "freeze")

// endFreezes ends the pins whose until has passed. It logs each refusal once.
func (s *Server) endFreezes(ctx context.Context, st *fleet.State) {
	overdue := st.OverdueFreezes(s.cfg.Now())
	for id := range overdue {
		if err := s.endFreeze(ctx, id); err != nil && ctx.Err() == nil {
			s.freezeRefusals.set(ctx, s.cfg.Logger, "a pin cannot end", slog.String("freeze", id), err.Error())
		}
	}
	s.freezeRefusals.retain(func(id string) bool { _, known := overdue[id]; return known })
}

// endFreeze ends a freeze, unless another process has done so.
func (s *Server) endFreeze(ctx context.Context, id string) error {
	return s.automate(ctx, store.Meta{Actor: fleet.RolloutRunner, Reason: "the time of the pin is over"}, func(tx *fleet.Tx) error {
		if _, overdue := tx.Base().OverdueFreezes(s.cfg.Now())[id]; !overdue {
			return errNothingToDo
		}
		return tx.EndFreeze(id)
	})
}

// endRefusal returns the reason for which a person has to end a freeze whose until has passed; empty: the server can end it, or
// its until has not passed.
func (s *Server) endRefusal(st *fleet.State, id string) string {
	now := s.cfg.Now()
	if _, overdue := st.OverdueFreezes(now)[id]; !overdue {
		return ""
	}
	tx := st.Begin()
	tx.ClusterFilters(s.tracker.Filters())
	err := tx.EndFreeze(id)
	if err == nil {
		_, err = tx.Finish(fleet.Commit{At: now, Actor: fleet.RolloutRunner})
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// collectFreezes reports the pins whose until has passed.
func (s *Server) collectFreezes(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	for id, since := range st.OverdueFreezes(s.cfg.Now()) {
		gauge(descFreezeOverdue, since.Seconds(), id)
	}
}
