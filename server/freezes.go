package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListFreezes(c echo.Context, p api.ListFreezesParams) error {
	return s.listKind(c, fleet.KindFreeze, p.Limit, p.Offset)
}

func (s *Server) GetFreeze(c echo.Context, id string, _ api.GetFreezeParams) error {
	return s.getViewed(c, fleet.KindFreeze, id)
}

func (s *Server) CreateFreeze(c echo.Context, p api.CreateFreezeParams) error {
	return s.createDocument(c, fleet.KindFreeze, writeParams{nil, p.DryRun, p.XChangeReason, nil})
}

func (s *Server) PatchFreeze(c echo.Context, id string, p api.PatchFreezeParams) error {
	return s.patchDocument(c, fleet.KindFreeze, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) DeleteFreeze(c echo.Context, id string, p api.DeleteFreezeParams) error {
	return s.deleteDocument(c, fleet.KindFreeze, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}
