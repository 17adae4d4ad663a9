package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// rolloutInterval is the time between two evaluations of the rollouts.
const rolloutInterval = 10 * time.Second

// RunRollouts advances automatic rollouts, and counts the clusters by state, until ctx ends. Any number of processes may run it: each step is decided again on
// the State that its commit is based on, so the process whose commit is late finds nothing to do.
func (s *Server) RunRollouts(ctx context.Context) {
	s.every(ctx, rolloutInterval, func() {
		s.survive(ctx, "advancing rollouts", func() { s.AdvanceRollouts(ctx) })
		s.survive(ctx, "counting clusters by state", s.CountClusters)
	})
}

// AdvanceRollouts unpins the clusters whose until has passed, and makes at most one step of each automatic rollout. It makes no steps
// while this process does not know the status of all clusters, while clocks differ, or while it does not follow the store.
func (s *Server) AdvanceRollouts(ctx context.Context) {
	st, _, problem := s.cfg.Replica.StateForReads()
	s.visible.clear(st)
	if st == nil || problem != nil || s.statusWait() != "" {
		return
	}
	s.endPins(ctx, st)
	anyOpen := false
	for _, d := range st.All(fleet.KindRollout) {
		_, open := fleet.RolloutStages(d)
		anyOpen = anyOpen || open
		s.survive(ctx, "rollout "+d.ID, func() {
			if err := s.advanceRollout(ctx, st, d.ID); err != nil && ctx.Err() == nil {
				s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a rollout cannot advance", slog.String("rollout", d.ID), slog.Any("error", err))
			}
		})
	}
	s.rolloutWaits.retain(func(id string) bool { return st.Has(fleet.KindRollout, id) })
	if !anyOpen {
		s.rolloutInputs.clear()
	}
}

// advanceRollout makes the next step of a rollout, if it has one. A step that the guard refuses, since it removes more than
// was confirmed, pauses the rollout, and so does one that a policy refuses.
func (s *Server) advanceRollout(ctx context.Context, st *fleet.State, id string) (err error) {
	if d, ok := st.Get(fleet.KindRollout, id); !ok || !fleet.Advances(d) {
		s.rolloutWaits.set(id, "")
		return nil
	}
	ctx, span := s.span(ctx, "evaluate rollout", attribute.String("fleet.rollout", id))
	defer func() { endSpan(span, err) }()
	step, err := s.rolloutStep(ctx, st, id)
	span.SetAttributes(attribute.String("fleet.rollout.action", step.Action), attribute.String("fleet.rollout.stage", step.Stage), attribute.String("fleet.rollout.waiting", step.Reason))
	if err == nil {
		s.rolloutWaits.set(id, step.Reason)
	}
	if err != nil || step.Action == "" {
		return err
	}
	err = s.commitStep(ctx, id, "")
	refused, ok := errors.AsType[*fleet.Error](err)
	switch {
	case ok && refused.Code == fleet.CodeConfirm:
		return s.commitStep(ctx, id, fleet.PausedByGuard+": "+refused.Detail)
	case ok && refused.Code == fleet.CodePolicy:
		return s.commitStep(ctx, id, fleet.PausedByPolicy+": "+refused.Detail)
	case ok && refused.Code == fleet.CodeOutOfScope:
		return s.commitStep(ctx, id, fleet.PausedByRights+": "+refused.Detail)
	}
	return err
}

// commitStep decides on the State that the commit is based on, and commits the step. pauseBecause replaces a step by a pause.
func (s *Server) commitStep(ctx context.Context, id, pauseBecause string) (err error) {
	ctx, span := s.span(ctx, "commit rollout step", attribute.String("fleet.rollout", id))
	defer func() { endSpan(span, err) }()
	return s.automate(ctx, store.Meta{Actor: fleet.RolloutRunner}, func(tx *fleet.Tx) error {
		step, err := s.rolloutStep(ctx, tx.Base(), id)
		if err != nil {
			return err
		}
		if step.Action == "" {
			return errNothingToDo
		}
		if pauseBecause != "" {
			step = fleet.RolloutStep{Action: fleet.RolloutPause, Message: pauseBecause}
		}
		if step.Action != fleet.RolloutPause {
			s.onBehalfOf(tx, rolloutPrincipal(tx.Base(), id))
		}
		return tx.StepRollout(id, step)
	})
}

// rolloutStep returns the next step of a rollout in a State. Every step but a pause needs a principal that may make it.
func (s *Server) rolloutStep(ctx context.Context, st *fleet.State, id string) (fleet.RolloutStep, error) {
	d, ok := st.Get(fleet.KindRollout, id)
	if !ok {
		return fleet.RolloutStep{}, nil
	}
	if !fleet.Advances(d) {
		return fleet.RolloutStep{}, nil
	}
	_, counts, err := s.rolloutProgress(ctx, st, d)
	if err != nil {
		return fleet.RolloutStep{}, err
	}
	now := s.cfg.Now()
	step, err := st.WaitForFreezes(ctx, id, fleet.NextStep(d, counts, now), now)
	if err != nil {
		return fleet.RolloutStep{}, err
	}
	if p := rolloutPrincipal(st, id); step.Action != "" && step.Action != fleet.RolloutPause && !s.mayChange(p, st) {
		step = fleet.RolloutStep{Action: fleet.RolloutPause, Message: "no authorized principal: " + p.name + " may no longer change the fleet"}
	}
	return step, nil
}
