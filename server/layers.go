package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ListLayers implements the operation of that name.
func (s *Server) ListLayers(c echo.Context, p api.ListLayersParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	return listDocuments(c, st.All(fleet.KindLayer), p.Limit, p.Offset)
}

// CreateLayer implements the operation of that name.
func (s *Server) CreateLayer(c echo.Context, p api.CreateLayerParams) error {
	return s.createDocument(c, fleet.KindLayer, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

// GetLayer implements the operation of that name.
func (s *Server) GetLayer(c echo.Context, id string, p api.GetLayerParams) error {
	return s.getDocument(c, fleet.KindLayer, id, readParams{p.IfNoneMatch, p.Revision})
}

// UpdateLayer implements the operation of that name.
func (s *Server) UpdateLayer(c echo.Context, id string, p api.UpdateLayerParams) error {
	return s.putDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

// PatchLayer implements the operation of that name.
func (s *Server) PatchLayer(c echo.Context, id string, p api.PatchLayerParams) error {
	return s.patchDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

// DeleteLayer implements the operation of that name.
func (s *Server) DeleteLayer(c echo.Context, id string, p api.DeleteLayerParams) error {
	return s.deleteDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{})
}

// GetLayerHistory implements the operation of that name.
func (s *Server) GetLayerHistory(c echo.Context, id string, p api.GetLayerHistoryParams) error {
	return s.history(c, fleet.KindLayer, id, p.Limit, p.Cursor)
}
