package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListAccess(c echo.Context, p api.ListAccessParams) error {
	return s.listKind(c, fleet.KindAccess, p.Limit, p.Offset)
}

func (s *Server) GetAccess(c echo.Context, id string, p api.GetAccessParams) error {
	return s.getDocument(c, fleet.KindAccess, id, readParams{p.IfNoneMatch, nil})
}

func (s *Server) CreateAccess(c echo.Context, p api.CreateAccessParams) error {
	return s.createDocument(c, fleet.KindAccess, writeParams{nil, p.DryRun, p.XChangeReason, nil})
}

func (s *Server) PatchAccess(c echo.Context, id string, p api.PatchAccessParams) error {
	return s.patchDocument(c, fleet.KindAccess, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) DeleteAccess(c echo.Context, id string, p api.DeleteAccessParams) error {
	return s.deleteDocument(c, fleet.KindAccess, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}
