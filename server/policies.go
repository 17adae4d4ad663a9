package server

import (
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) ListPolicies(c echo.Context, p api.ListPoliciesParams) error {
	return s.listKind(c, fleet.KindPolicy, p.Limit, p.Offset)
}

func (s *Server) CreatePolicy(c echo.Context, p api.CreatePolicyParams) error {
	return s.createDocument(c, fleet.KindPolicy, writeParams{nil, p.DryRun, p.XChangeReason, nil})
}

func (s *Server) GetPolicy(c echo.Context, id string, p api.GetPolicyParams) error {
	return s.getDocument(c, fleet.KindPolicy, id, readParams{p.IfNoneMatch, nil})
}

func (s *Server) UpdatePolicy(c echo.Context, id string, p api.UpdatePolicyParams) error {
	return s.putDocument(c, fleet.KindPolicy, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) PatchPolicy(c echo.Context, id string, p api.PatchPolicyParams) error {
	return s.patchDocument(c, fleet.KindPolicy, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) DeletePolicy(c echo.Context, id string, p api.DeletePolicyParams) error {
	return s.deleteDocument(c, fleet.KindPolicy, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}
