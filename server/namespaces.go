package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListNamespaces(c echo.Context, p api.ListNamespacesParams) error {
	return s.listKind(c, fleet.KindNamespace, p.Limit, p.Offset)
}

func (s *Server) CreateNamespace(c echo.Context, p api.CreateNamespaceParams) error {
	return s.createDocument(c, fleet.KindNamespace, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetNamespace(c echo.Context, id string, p api.GetNamespaceParams) error {
	return s.getDocument(c, fleet.KindNamespace, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateNamespace(c echo.Context, id string, p api.UpdateNamespaceParams) error {
	return s.putDocument(c, fleet.KindNamespace, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) PatchNamespace(c echo.Context, id string, p api.PatchNamespaceParams) error {
	return s.patchDocument(c, fleet.KindNamespace, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, false)
}

func (s *Server) DeleteNamespace(c echo.Context, id string, p api.DeleteNamespaceParams) error {
	return s.deleteDocument(c, fleet.KindNamespace, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Cascade: value(p.Cascade)})
}

func (s *Server) AssignNamespace(c echo.Context, id, namespaceID string, p api.AssignNamespaceParams) error {
	return s.assign(c, id, fleet.KindNamespace, namespaceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignNamespace(c echo.Context, id, namespaceID string, p api.UnassignNamespaceParams) error {
	return s.unassign(c, id, fleet.KindNamespace, namespaceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) AssignLayerNamespace(c echo.Context, id, namespaceID string, p api.AssignLayerNamespaceParams) error {
	return s.assignToLayer(c, id, fleet.KindNamespace, namespaceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) UnassignLayerNamespace(c echo.Context, id, namespaceID string, p api.UnassignLayerNamespaceParams) error {
	return s.unassignFromLayer(c, id, fleet.KindNamespace, namespaceID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetNamespaceHistory(c echo.Context, id string, p api.GetNamespaceHistoryParams) error {
	return s.history(c, fleet.KindNamespace, id, historyParams{limit: p.Limit, cursor: p.Cursor})
}

func (s *Server) PollNamespaces(c echo.Context, dns string, p api.PollNamespacesParams) error {
	return s.poll(c, fleet.KindNamespace, dns, readParams{p.IfNoneMatch, nil})
}
