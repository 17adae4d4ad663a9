package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListStrategies(c echo.Context, p api.ListStrategiesParams) error {
	return s.listKind(c, fleet.KindStrategy, p.Limit, p.Offset)
}

func (s *Server) CreateStrategy(c echo.Context, p api.CreateStrategyParams) error {
	return s.createDocument(c, fleet.KindStrategy, writeParams{nil, p.DryRun, p.XChangeReason, nil})
}

func (s *Server) GetStrategy(c echo.Context, id string, p api.GetStrategyParams) error {
	return s.getDocument(c, fleet.KindStrategy, id, readParams{p.IfNoneMatch, nil})
}

func (s *Server) UpdateStrategy(c echo.Context, id string, p api.UpdateStrategyParams) error {
	return s.putDocument(c, fleet.KindStrategy, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) DeleteStrategy(c echo.Context, id string, p api.DeleteStrategyParams) error {
	return s.deleteDocument(c, fleet.KindStrategy, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}
