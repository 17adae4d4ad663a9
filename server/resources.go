package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListResources(c echo.Context, typeID string, p api.ListResourcesParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if _, err := st.Find(fleet.KindResourceType, typeID); err != nil {
		return err
	}
	return listDocuments(c, st.All(fleet.ResourceKind(typeID)), p.Limit, p.Offset)
}

func (s *Server) CreateResource(c echo.Context, typeID string, p api.CreateResourceParams) error {
	return s.createDocument(c, fleet.ResourceKind(typeID), writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetResource(c echo.Context, typeID, id string, p api.GetResourceParams) error {
	return s.getDocument(c, fleet.ResourceKind(typeID), id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateResource(c echo.Context, typeID, id string, p api.UpdateResourceParams) error {
	return s.putDocument(c, fleet.ResourceKind(typeID), id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchResource(c echo.Context, typeID, id string, p api.PatchResourceParams) error {
	return s.patchDocument(c, fleet.ResourceKind(typeID), id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeleteResource(c echo.Context, typeID, id string, p api.DeleteResourceParams) error {
	return s.deleteDocument(c, fleet.ResourceKind(typeID), id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Cascade: value(p.Cascade)})
}

func (s *Server) AssignResource(c echo.Context, id, typeID, resourceID string, p api.AssignResourceParams) error {
	return s.assign(c, id, fleet.ResourceKind(typeID), resourceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignResource(c echo.Context, id, typeID, resourceID string, p api.UnassignResourceParams) error {
	return s.unassign(c, id, fleet.ResourceKind(typeID), resourceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) AssignLayerResource(c echo.Context, id, typeID, resourceID string, p api.AssignLayerResourceParams) error {
	return s.assignToLayer(c, id, fleet.ResourceKind(typeID), resourceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignLayerResource(c echo.Context, id, typeID, resourceID string, p api.UnassignLayerResourceParams) error {
	return s.unassignFromLayer(c, id, fleet.ResourceKind(typeID), resourceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetResourceHistory(c echo.Context, typeID, id string, p api.GetResourceHistoryParams) error {
	return s.history(c, fleet.ResourceKind(typeID), id, historyParams{limit: p.Limit, cursor: p.Cursor})
}

func (s *Server) PollResources(c echo.Context, dns, typeID string, p api.PollResourcesParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	kind, ok := st.PolledAt(typeID)
	if !ok {
		_, err := st.Find(fleet.KindResourceType, typeID)
		return err
	}
	return s.poll(c, kind, dns, readParams{p.IfNoneMatch, nil})
}
