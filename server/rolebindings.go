package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListRoleBindings(c echo.Context, p api.ListRoleBindingsParams) error {
	return s.listKind(c, fleet.KindRoleBinding, p.Limit, p.Offset)
}

func (s *Server) CreateRoleBinding(c echo.Context, p api.CreateRoleBindingParams) error {
	return s.createDocument(c, fleet.KindRoleBinding, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetRoleBinding(c echo.Context, id string, p api.GetRoleBindingParams) error {
	return s.getDocument(c, fleet.KindRoleBinding, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateRoleBinding(c echo.Context, id string, p api.UpdateRoleBindingParams) error {
	return s.putDocument(c, fleet.KindRoleBinding, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchRoleBinding(c echo.Context, id string, p api.PatchRoleBindingParams) error {
	return s.patchDocument(c, fleet.KindRoleBinding, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeleteRoleBinding(c echo.Context, id string, p api.DeleteRoleBindingParams) error {
	return s.deleteDocument(c, fleet.KindRoleBinding, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Cascade: value(p.Cascade)})
}

func (s *Server) AssignRoleBinding(c echo.Context, id, rolebindingID string, p api.AssignRoleBindingParams) error {
	return s.assign(c, id, fleet.KindRoleBinding, rolebindingID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignRoleBinding(c echo.Context, id, rolebindingID string, p api.UnassignRoleBindingParams) error {
	return s.unassign(c, id, fleet.KindRoleBinding, rolebindingID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) AssignLayerRoleBinding(c echo.Context, id, rolebindingID string, p api.AssignLayerRoleBindingParams) error {
	return s.assignToLayer(c, id, fleet.KindRoleBinding, rolebindingID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignLayerRoleBinding(c echo.Context, id, rolebindingID string, p api.UnassignLayerRoleBindingParams) error {
	return s.unassignFromLayer(c, id, fleet.KindRoleBinding, rolebindingID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetRoleBindingHistory(c echo.Context, id string, p api.GetRoleBindingHistoryParams) error {
	return s.history(c, fleet.KindRoleBinding, id, historyParams{limit: p.Limit, cursor: p.Cursor})
}

func (s *Server) PollRoleBindings(c echo.Context, dns string, p api.PollRoleBindingsParams) error {
	return s.poll(c, fleet.KindRoleBinding, dns, readParams{p.IfNoneMatch, nil})
}
