package server

import (
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
	req, err := decodeBody[api.BatchRequest](c)
	if err != nil {
		return err
	}
	res, results, err := s.runBatch(c, store.Meta{DryRun: true}, req.Operations, fleet.Guard{Off: true})
	if err != nil {
		return err
	}
	plan, err := res.Plan()
	if err != nil {
		return err
	}
	plan.Results = results
	response.AddWarnings(c, plan.Warnings)
	if req.PlanHash != "" && req.PlanHash != plan.PlanHash {
		return &fleet.Error{Code: fleet.CodeStale, Detail: "the effect differs from the plan with this plan_hash: make a new plan"}
	}
	answer, err := response.Compress(plan, requestOf(c).job.Interrupted)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(fleet.Revision(plan.BaseRevision)))
	return s.sendBuffered(c, answer)
}
