package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

var descFreezeOverdue = desc("freeze_overdue_seconds", "Seconds since the end of a freeze of mode snapshot that has not ended, because a person has to confirm what its end removes.", "freeze")

// endFreezes ends the freezes of mode snapshot whose until has passed. It logs each refusal once.
func (s *Server) endFreezes(ctx context.Context, st *fleet.State) {
	refusals := map[string]string{}
	for id := range st.OverdueFreezes(s.cfg.Now()) {
		if err := s.endFreeze(ctx, id); err != nil && ctx.Err() == nil {
			refusals[id] = err.Error()
		}
	}
	logged := s.freezeRefusals.Swap(&refusals)
	for id, message := range refusals {
		if logged == nil || (*logged)[id] != message {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a freeze cannot end", slog.String("freeze", id), slog.String("error", message))
		}
	}
}

// endFreeze ends a freeze, unless another process has done so.
func (s *Server) endFreeze(ctx context.Context, id string) error {
	res, err := s.cfg.Replica.Update(ctx, store.Meta{Actor: fleet.RolloutRunner, Reason: "the time of the freeze is over"}, func(tx *fleet.Tx) error {
		if _, overdue := tx.Base().OverdueFreezes(s.cfg.Now())[id]; !overdue {
			return errNoStep
		}
		tx.UseContext(ctx)
		tx.ClusterFilters(s.tracker.Filters())
		return tx.EndFreeze(id)
	})
	switch {
	case errors.Is(err, errNoStep):
		return nil
	case err == nil:
		s.metrics.committed(res.Commit.Changes)
	}
	return err
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

// collectFreezes reports the freezes of mode snapshot whose until has passed.
func (s *Server) collectFreezes(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	for id, since := range st.OverdueFreezes(s.cfg.Now()) {
		gauge(descFreezeOverdue, since.Seconds(), id)
	}
}
