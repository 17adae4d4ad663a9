package server

import (
	"cmp"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func (s *Server) Plan(c echo.Context, p api.PlanParams) error {
	if _, err := s.state(c); err != nil {
		return err
	}
	req, err := decodeBody[api.PlanRequest](c)
	if err != nil {
		return err
	}
	res, results, batch, err := s.runPlan(c, req)
	if err != nil {
		return err
	}
	limited := requestOf(c).limited
	if limited != nil {
		res = limited.shown
	}
	plan, err := res.Plan()
	if err != nil {
		return err
	}
	if limited != nil {
		whole, err := limited.whole.Plan()
		if err != nil {
			return err
		}
		if plan.PlanHash != whole.PlanHash { // a commit with this hash would change more than the plan shows
			return errHiddenEffects
		}
		plan.Policies, plan.Warnings = fleet.FailedPolicies(whole, plan)
	}
	plan.Results = results
	if batch != nil && value(p.Return) == "documents" {
		if err := s.addDocuments(c, batch, req.Operations, res.State, results); err != nil { // as the caller may see them
			return err
		}
	}
	response.AddWarnings(c, plan.Warnings)
	if req.PlanHash != "" && req.PlanHash != plan.PlanHash {
		return &fleet.Error{Code: fleet.CodeStale, Detail: "the effect differs from the plan with this plan_hash: make a new plan"}
	}
	if req.Rendered != nil {
		if plan.Rendered, err = s.renderPlan(c, res, plan, *req.Rendered); err != nil {
			return err
		}
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(fleet.Revision(plan.BaseRevision)))
	return s.sendBuffered(c, plan)
}

// runPlan runs the operations of a plan, or an action on a rollout, without committing the change. An action has no batch.
func (s *Server) runPlan(c echo.Context, req api.PlanRequest) (fleet.Result, []api.OperationResult, *fleet.Batch, error) {
	meta := store.Meta{DryRun: true}
	switch {
	case req.Rollout == "" && (req.Action != "" || req.Stage != ""), (len(req.Operations) > 0) == (req.Rollout != ""):
		return fleet.Result{}, nil, nil, fleet.Invalid([]fleet.Problem{{Detail: "exactly one of operations and rollout is required; action and stage are for rollout"}})
	case len(req.Operations) > 0:
		return s.runBatch(c, meta, req.Operations, fleet.Guard{Off: true})
	}
	res, err := s.transact(c, meta, func(tx *fleet.Tx) error {
		tx.Guard(fleet.Guard{Off: true})
		tx.UseContext(requestOf(c).job.Context())
		return tx.PlanRollout(req.Rollout, cmp.Or(req.Action, fleet.RolloutStart), req.Stage)
	})
	return res, []api.OperationResult{}, nil, err
}
