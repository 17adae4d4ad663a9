package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

func (s *Server) ListFreezes(c echo.Context, p api.ListFreezesParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	now := time.Now()
	return listViews(c, st.All(fleet.KindFreeze), p.Limit, p.Offset, func(d *fleet.Document) any { return st.FreezeView(d, now) })
}

func (s *Server) GetFreeze(c echo.Context, id string, p api.GetFreezeParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	return answerFreeze(c, st, id, http.StatusOK)
}

func (s *Server) CreateFreeze(c echo.Context, p api.CreateFreezeParams) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	var id string
	res, err := s.commit(c, fleet.KindFreeze, "", writeParams{nil, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		doc, err := tx.CreateObject(fleet.KindFreeze, body)
		if err == nil {
			id = doc.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	if value(p.DryRun) {
		return answerFreeze(c, res.State, id, http.StatusOK)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/freezes/"+id)
	return answerFreeze(c, res.State, id, http.StatusCreated)
}

func (s *Server) PatchFreeze(c echo.Context, id string, p api.PatchFreezeParams) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	res, err := s.commit(c, fleet.KindFreeze, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		_, err := tx.PatchObject(fleet.KindFreeze, id, body)
		return err
	})
	if err != nil {
		return err
	}
	return answerFreeze(c, res.State, id, http.StatusOK)
}

func (s *Server) DeleteFreeze(c echo.Context, id string, p api.DeleteFreezeParams) error {
	var deleted *fleet.Document
	res, err := s.commit(c, fleet.KindFreeze, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		var err error
		deleted, err = tx.Delete(fleet.KindFreeze, id, fleet.DeleteOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, res.State.FreezeView(deleted, time.Now()))
}

// answerFreeze answers with a freeze, its state now and the number of its clusters.
func answerFreeze(c echo.Context, st *fleet.State, id string, status int) error {
	doc, err := st.Find(fleet.KindFreeze, id)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, status, st.FreezeView(doc, time.Now()))
}
