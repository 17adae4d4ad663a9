package server

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListLayers(c echo.Context, p api.ListLayersParams) error {
	if p.View == nil {
		return s.listKind(c, fleet.KindLayer, p.Limit, p.Offset)
	}
	st, err := s.state(c)
	if err != nil {
		return err
	}
	return listViews(c, st.All(fleet.KindLayer), p.Limit, p.Offset, st.LayersWithCounts())
}

func (s *Server) CreateLayer(c echo.Context, p api.CreateLayerParams) error {
	return s.createDocument(c, fleet.KindLayer, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetLayer(c echo.Context, id string, p api.GetLayerParams) error {
	if p.View != nil {
		return s.view(c, fleet.KindLayer, id, p.Revision, p.IfNoneMatch, (*fleet.State).LayerView)
	}
	return s.getDocument(c, fleet.KindLayer, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateLayer(c echo.Context, id string, p api.UpdateLayerParams) error {
	return s.putDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchLayer(c echo.Context, id string, p api.PatchLayerParams) error {
	return s.patchDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeleteLayer(c echo.Context, id string, p api.DeleteLayerParams) error {
	return s.deleteDocument(c, fleet.KindLayer, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{})
}

func (s *Server) GetLayerHistory(c echo.Context, id string, p api.GetLayerHistoryParams) error {
	return s.history(c, fleet.KindLayer, id, historyParams{limit: p.Limit, cursor: p.Cursor})
}

// assignToLayer and unassignFromLayer change one entry in one of a layer's lists.
func (s *Server) assignToLayer(c echo.Context, layer string, kind fleet.Kind, id string, p writeParams) error {
	return s.update(c, fleet.KindLayer, layer, p, func(tx *fleet.Tx) error {
		_, err := tx.AssignToLayer(layer, kind, id, requestBody(c))
		return err
	})
}

func (s *Server) unassignFromLayer(c echo.Context, layer string, kind fleet.Kind, id string, p writeParams) error {
	return s.update(c, fleet.KindLayer, layer, p, func(tx *fleet.Tx) error {
		_, err := tx.UnassignFromLayer(layer, kind, id)
		return err
	})
}

// view answers with a view of a document that depends on other documents too, so its ETag changes with any of them.
func (s *Server) view(c echo.Context, kind fleet.Kind, id string, revision *int64, ifNoneMatch *string, view func(*fleet.State, *fleet.Document) any) error {
	if revision != nil {
		return fleet.Invalid([]fleet.Problem{{Detail: "query parameter view: not supported for an older revision"}})
	}
	st, doc, err := s.find(c, kind, id)
	if err != nil {
		return err
	}
	nameManager(c, st, doc)
	head := st.Head()
	etag := fmt.Sprintf("\"fleet-%d-%x\"", head.Revision, head.ID[:4])
	return writeUnlessMatch(c, ifNoneMatch, etag, func() any { return view(st, doc) })
}
