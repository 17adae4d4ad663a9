package server

import (
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

func (s *Server) ListPlatformComponents(c echo.Context, p api.ListPlatformComponentsParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	docs := st.All(fleet.KindComponent)
	if p.ComponentVersion != nil {
		docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool { return d.Component().ComponentVersion != *p.ComponentVersion })
	}
	return listDocuments(c, docs, p.Limit, p.Offset)
}

func (s *Server) CreatePlatformComponent(c echo.Context, p api.CreatePlatformComponentParams) error {
	return s.createDocument(c, fleet.KindComponent, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetPlatformComponent(c echo.Context, id string, p api.GetPlatformComponentParams) error {
	return s.getDocument(c, fleet.KindComponent, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdatePlatformComponent(c echo.Context, id string, p api.UpdatePlatformComponentParams) error {
	return s.putDocument(c, fleet.KindComponent, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchPlatformComponent(c echo.Context, id string, p api.PatchPlatformComponentParams) error {
	return s.patchDocument(c, fleet.KindComponent, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeletePlatformComponent(c echo.Context, id string, p api.DeletePlatformComponentParams) error {
	return s.deleteDocument(c, fleet.KindComponent, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Cascade: value(p.Cascade)})
}

func (s *Server) AssignPlatformComponent(c echo.Context, id, componentID string, p api.AssignPlatformComponentParams) error {
	return s.assign(c, id, fleet.KindComponent, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignPlatformComponent(c echo.Context, id, componentID string, p api.UnassignPlatformComponentParams) error {
	return s.unassign(c, id, fleet.KindComponent, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) AssignLayerPlatformComponent(c echo.Context, id, componentID string, p api.AssignLayerPlatformComponentParams) error {
	return s.assignToLayer(c, id, fleet.KindComponent, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignLayerPlatformComponent(c echo.Context, id, componentID string, p api.UnassignLayerPlatformComponentParams) error {
	return s.unassignFromLayer(c, id, fleet.KindComponent, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetPlatformComponentHistory(c echo.Context, id string, p api.GetPlatformComponentHistoryParams) error {
	if p.View != nil {
		return s.servedHistory(c, fleet.DocumentName{Kind: fleet.KindComponent, ID: id}, historyParams{p.Since, p.Until, p.Limit, p.Cursor})
	}
	return s.history(c, fleet.KindComponent, id, historyParams{p.Since, p.Until, p.Limit, p.Cursor})
}

func (s *Server) GetPlatformComponentUsage(c echo.Context, id string, _ api.GetPlatformComponentUsageParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	usage, err := st.Usage(id)
	if err != nil {
		return err
	}
	for _, v := range usage.Variants {
		usage.Environments = slices.AppendSeq(usage.Environments, maps.Keys(v.Environments))
	}
	slices.SortFunc(usage.Environments, s.cfg.Replica.Rules().CompareEnvironments)
	usage.Environments = slices.Compact(usage.Environments)
	return response.WriteJSON(c, http.StatusOK, usage)
}

func (s *Server) PollPlatformComponents(c echo.Context, dns string, p api.PollPlatformComponentsParams) error {
	return s.poll(c, fleet.KindComponent, dns, readParams{p.IfNoneMatch, nil})
}
