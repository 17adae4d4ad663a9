package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

var descPinOverdue = desc("pin_overdue_seconds", "Seconds since the end of the pin of a cluster that the server cannot unpin, because a person has to confirm what that removes.", "cluster")

// endPins unpins the clusters whose until has passed. It logs each refusal once.
func (s *Server) endPins(ctx context.Context, st *fleet.State) {
	overdue := st.OverduePins(s.cfg.Now())
	for id := range overdue {
		if err := s.endPin(ctx, id); err != nil && ctx.Err() == nil {
			s.pinRefusals.refuse(ctx, s.cfg.Logger, "a pin cannot end", slog.String("cluster", id), err.Error())
		}
	}
	s.pinRefusals.retain(func(id string) bool { _, known := overdue[id]; return known })
}

// endPin unpins a cluster, unless another process has done so.
func (s *Server) endPin(ctx context.Context, id string) error {
	return s.automate(ctx, store.Meta{Actor: fleet.RolloutRunner, Reason: "the time of the pin is over"}, func(tx *fleet.Tx) error {
		if _, overdue := tx.Base().OverduePins(s.cfg.Now())[id]; !overdue {
			return errNothingToDo
		}
		return tx.EndPin(id)
	})
}

// collectPins reports the pins whose until has passed.
func (s *Server) collectPins(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	for id, since := range st.OverduePins(s.cfg.Now()) {
		gauge(descPinOverdue, since.Seconds(), id)
	}
}
