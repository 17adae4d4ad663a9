package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// PlanSource answers with the effect of the held artifact of a source. An artifact that the last check did not keep is downloaded again.
func (s *Server) PlanSource(c echo.Context, id string, _ api.PlanSourceParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	plan, err := s.planHeldArtifact(requestOf(c).job.Context(), st, id)
	if err != nil {
		return err
	}
	response.AddWarnings(c, plan.Warnings)
	return s.sendBuffered(c, plan)
}

// planHeldArtifact returns the effect of the held artifact of a source on a State.
func (s *Server) planHeldArtifact(ctx context.Context, st *fleet.State, id string) (api.Plan, error) {
	doc, err := st.Find(fleet.KindSource, id)
	if err != nil {
		return api.Plan{}, err
	}
	held := st.SourceState(id).Held
	switch {
	case held == nil:
		return api.Plan{}, &fleet.Error{Code: fleet.CodeConflict, Detail: fmt.Sprintf("no artifact of source %q is held", id)}
	case s.cfg.ArtifactReader == nil:
		return api.Plan{}, errNoArtifactReader
	case doc.Source().Suspended:
		return api.Plan{}, errSuspendedSource
	}
	check := s.sources.check(id)
	for _, free := range []chan struct{}{check.running, s.sources.slots} {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-ctx.Done():
			return api.Plan{}, ctx.Err()
		}
	}
	artifact, err := s.readArtifact(ctx, doc, held.Digest, check)
	refusal, refused := errors.AsType[*fleet.Error](err)
	switch {
	case ctx.Err() != nil:
		return api.Plan{}, ctx.Err()
	case err != nil && !refused:
		return api.Plan{}, &fleet.Error{Code: fleet.CodeConflict, Detail: "the held artifact cannot be read: " + s.masker.Tokens(err.Error())}
	}
	var plan api.Plan
	if !refused {
		plan, err = s.planArtifact(ctx, st, id, artifact)
		refusal, refused = errors.AsType[*fleet.Error](err)
	}
	if refused {
		return api.Plan{}, &fleet.Error{Code: fleet.CodeConflict, Detail: "no approval admits the held artifact: " + s.masker.Tokens(artifactMessage(refusal))}
	}
	if err != nil {
		return api.Plan{}, err
	}
	if held.PlanHash != plan.PlanHash {
		plan.Warnings = append(plan.Warnings, "the fleet has changed since the artifact was held, and its effect too: it can be approved after the next check; reconcile source NAME makes it at once")
	}
	for _, d := range artifact.Documents {
		_, err := st.Find(d.Kind, d.ID)
		if _, _, managed := st.Manager(d.Kind, d.ID); err == nil && !managed {
			plan.Adopted = append(plan.Adopted, api.SourceDocument{Kind: string(d.Kind), ID: d.ID, File: d.File})
		}
	}
	return plan, nil
}

// planArtifact returns the effect of an artifact on a State, as an approval makes it.
func (s *Server) planArtifact(ctx context.Context, st *fleet.State, id string, a fleet.FollowedArtifact) (api.Plan, error) {
	tx := st.Begin()
	tx.UseContext(ctx)
	tx.ClusterFilters(s.tracker.Filters())
	tx.Approvers(s.approverRights)
	tx.Guard(fleet.Guard{Off: true})
	if _, err := s.applyArtifact(tx, id, a, false); err != nil {
		return api.Plan{}, err
	}
	res, err := tx.Finish(fleet.Commit{At: s.commitTime(), Actor: fleet.SourceActor(id)})
	if err != nil {
		return api.Plan{}, err
	}
	return res.Plan()
}
