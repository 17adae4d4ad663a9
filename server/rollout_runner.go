package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// rolloutInterval is the time between two evaluations of the rollouts.
const rolloutInterval = 10 * time.Second

// RunRollouts advances automatic rollouts, and counts the clusters by state, until ctx ends. Any number of processes may run it: each step is decided again on
// the State that its commit is based on, so the process whose commit is late finds nothing to do.
func (s *Server) RunRollouts(ctx context.Context) {
	tick := time.NewTicker(rolloutInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.AdvanceRollouts(ctx)
			s.CountClusters()
		}
	}
}

// statusWait returns the reason for which rollouts must wait, because this process is passive, or the status of clusters is not
// reliable now; empty: they need not wait.
func (s *Server) statusWait() string {
	switch stats := s.tracker.Stats(); {
	case !s.cfg.Replica.MayAct():
		return "this process is passive: its store is a copy that no operator has accepted, PASSIVE is true, or the store has not answered yet"
	case !stats.Complete:
		return "the status of all clusters is not known yet"
	case stats.ClocksDiffer:
		return "the clock of a process differed from the clock of the database by more than ten seconds, within the last ten minutes: the order of polls and receipts is not certain"
	}
	return ""
}

// AdvanceRollouts ends the freezes whose until has passed, and makes at most one step of each automatic rollout. It makes no steps
// while this process does not know the status of all clusters, while clocks differ, or while it does not follow the store.
func (s *Server) AdvanceRollouts(ctx context.Context) {
	st, _, problem := s.cfg.Replica.StateForReads()
	s.visible.clear(st)
	if st == nil || problem != nil || s.statusWait() != "" {
		return
	}
	s.endFreezes(ctx, st)
	anyOpen := false
	for _, d := range st.All(fleet.KindRollout) {
		_, open := fleet.RolloutStages(d)
		anyOpen = anyOpen || open
		if err := s.advanceRollout(ctx, st, d.ID); err != nil && ctx.Err() == nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a rollout cannot advance", slog.String("rollout", d.ID), slog.Any("error", err))
		}
	}
	s.rolloutWaits.forgetMissing(st)
	if !anyOpen {
		s.rolloutInputs.clear()
	}
}

// errNoStep ends an update that has nothing to do.
var errNoStep = errors.New("the rollout has no step to make")

// advanceRollout makes the next step of a rollout, if it has one. A step that the guard refuses, since it removes more than
// was confirmed, pauses the rollout.
func (s *Server) advanceRollout(ctx context.Context, st *fleet.State, id string) (err error) {
	if d, ok := st.Get(fleet.KindRollout, id); !ok || !fleet.Advances(d) {
		s.rolloutWaits.observe(id, "")
		return nil
	}
	ctx, span := s.span(ctx, "evaluate rollout", attribute.String("fleet.rollout", id))
	defer func() { endSpan(span, err) }()
	step, err := s.rolloutStep(ctx, st, id)
	span.SetAttributes(attribute.String("fleet.rollout.action", step.Action), attribute.String("fleet.rollout.stage", step.Stage), attribute.String("fleet.rollout.waiting", step.Reason))
	if err == nil {
		s.rolloutWaits.observe(id, step.Reason)
	}
	if err != nil || step.Action == "" {
		return err
	}
	err = s.commitStep(ctx, id, "")
	refused, ok := errors.AsType[*fleet.Error](err)
	switch {
	case ok && refused.Code == fleet.CodeConfirm:
		return s.commitStep(ctx, id, "the next step removes more than was confirmed: "+refused.Detail)
	case ok && refused.Code == fleet.CodeOutOfScope:
		return s.commitStep(ctx, id, "the principal of the rollout may no longer make the next step: "+refused.Detail)
	}
	return err
}

// commitStep decides on the State that the commit is based on, and commits the step. pauseBecause replaces a step by a pause.
func (s *Server) commitStep(ctx context.Context, id, pauseBecause string) (err error) {
	ctx, span := s.span(ctx, "commit rollout step", attribute.String("fleet.rollout", id))
	defer func() { endSpan(span, err) }()
	meta := store.Meta{Actor: fleet.RolloutRunner}
	res, err := s.cfg.Replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		step, err := s.rolloutStep(ctx, tx.Base(), id)
		if err != nil {
			return err
		}
		if step.Action == "" || s.statusWait() != "" {
			return errNoStep
		}
		if pauseBecause != "" {
			step = fleet.RolloutStep{Action: fleet.RolloutPause, Message: pauseBecause}
		}
		tx.UseContext(ctx)
		tx.ClusterFilters(s.tracker.Filters())
		if step.Action != fleet.RolloutPause {
			s.limitToPrincipal(tx, id)
		}
		return tx.StepRollout(id, step)
	})
	switch {
	case errors.Is(err, errNoStep):
		return nil
	case err == nil:
		s.metrics.committed(res.Commit.Changes)
		span.SetAttributes(attribute.String("fleet.revision", response.FormatRevision(res.State.Revision())))
	}
	return err
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
	if step.Action != "" && step.Action != fleet.RolloutPause && !s.mayAdvance(d, st) {
		step = fleet.RolloutStep{Action: fleet.RolloutPause, Message: "no authorized principal: " + fleet.RolloutPrincipal(d) + " may no longer change the fleet"}
	}
	return step, nil
}

// mayAdvance reports whether the principal of a rollout may change the fleet at all. [Server.limitToPrincipal] limits a step to
// the rights of its access documents.
func (s *Server) mayAdvance(d *fleet.Document, st *fleet.State) bool {
	rights := s.rightsOfPrincipal(d, st)
	return s.auth.MayStill(fleet.RolloutPrincipal(d), auth.Write, st) || rights.Include(fleet.RightWrite) || rights.Include(fleet.RightPushVersion)
}

// rightsOfPrincipal returns the rights that access documents grant to the principal of a rollout now. The rollout records the
// identity, so the rights do not depend on a session.
func (s *Server) rightsOfPrincipal(d *fleet.Document, st *fleet.State) fleet.Rights {
	if identity := fleet.RolloutIdentity(d); identity != nil {
		return s.auth.RightsOfIdentity(identity, st)
	}
	return s.auth.RightsOf(fleet.RolloutPrincipal(d), st)
}

// limitToPrincipal limits a step to the rights of the rollout's principal, unless its role permits all changes. An unknown
// principal has no rights.
func (s *Server) limitToPrincipal(tx *fleet.Tx, id string) {
	d, ok := tx.Base().Get(fleet.KindRollout, id)
	switch {
	case !ok:
		tx.LimitTo(fleet.Rights{}, false)
	case !s.auth.MayStill(fleet.RolloutPrincipal(d), auth.Write, tx.Base()):
		tx.LimitTo(s.rightsOfPrincipal(d, tx.Base()), false)
	}
}
