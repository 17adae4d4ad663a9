package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

func (s *Server) GetPatches(c echo.Context, id, componentID string, p api.GetPatchesParams) error {
	st, doc, err := s.find(c, fleet.KindCluster, id)
	if err != nil {
		return err
	}
	if !st.HasComponent(doc, componentID) {
		return &fleet.Error{Code: fleet.CodeNotFound, Detail: "component \"" + componentID + "\" is not assigned to this cluster"}
	}
	return writeUnlessMatch(c, p.IfNoneMatch, doc.ETag(), func() any { return doc.OwnedPatches(componentID) })
}

func (s *Server) PatchPatches(c echo.Context, id, componentID string, p api.PatchPatchesParams) error {
	opt := fleet.PatchOptions{Manager: value(p.FieldManager), Force: value(p.Force)}
	return s.changePatches(c, id, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, func(tx *fleet.Tx) error {
		_, err := tx.PatchValues(id, componentID, requestBody(c), opt)
		return err
	})
}

func (s *Server) ApplyPatches(c echo.Context, id, componentID string, p api.ApplyPatchesParams) error {
	opt := fleet.PatchOptions{Manager: value(p.FieldManager), Force: value(p.Force)}
	return s.changePatches(c, id, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, func(tx *fleet.Tx) error {
		_, err := tx.ApplyValues(id, componentID, requestBody(c), opt)
		return err
	})
}

func (s *Server) RelinquishPatches(c echo.Context, id, componentID string, p api.RelinquishPatchesParams) error {
	opt := fleet.PatchOptions{Manager: value(p.FieldManager), Retain: value(p.Retain)}
	return s.changePatches(c, id, componentID, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, func(tx *fleet.Tx) error {
		_, err := tx.Relinquish(id, componentID, opt)
		return err
	})
}

func (s *Server) changePatches(c echo.Context, cluster, component string, p writeParams, change func(*fleet.Tx) error) error {
	res, err := s.commit(c, fleet.KindCluster, cluster, p, change)
	if err != nil {
		return err
	}
	doc, err := res.State.Find(fleet.KindCluster, cluster)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, doc.OwnedPatches(component))
}
