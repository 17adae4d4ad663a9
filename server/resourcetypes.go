package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListResourceTypes(c echo.Context, p api.ListResourceTypesParams) error {
	return s.listKind(c, fleet.KindResourceType, p.Limit, p.Offset)
}

func (s *Server) CreateResourceType(c echo.Context, p api.CreateResourceTypeParams) error {
	return s.createDocument(c, fleet.KindResourceType, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetResourceType(c echo.Context, id string, p api.GetResourceTypeParams) error {
	return s.getDocument(c, fleet.KindResourceType, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateResourceType(c echo.Context, id string, p api.UpdateResourceTypeParams) error {
	return s.putDocument(c, fleet.KindResourceType, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchResourceType(c echo.Context, id string, p api.PatchResourceTypeParams) error {
	return s.patchDocument(c, fleet.KindResourceType, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeleteResourceType(c echo.Context, id string, p api.DeleteResourceTypeParams) error {
	return s.deleteDocument(c, fleet.KindResourceType, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Cascade: value(p.Cascade)})
}

func (s *Server) GetResourceTypeHistory(c echo.Context, id string, p api.GetResourceTypeHistoryParams) error {
	return s.history(c, fleet.KindResourceType, id, historyParams{limit: p.Limit, cursor: p.Cursor})
}
