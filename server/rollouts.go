package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

func (s *Server) ListRollouts(c echo.Context, p api.ListRolloutsParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	docs := response.Page(c, st.All(fleet.KindRollout), p.Limit, p.Offset)
	views := make([]any, len(docs))
	for i, d := range docs {
		if views[i], err = s.rolloutView(requestOf(c).job.Context(), st, d, true); err != nil {
			return err
		}
	}
	return streamList(c, response.List{N: len(views), Item: func(i int) any { return views[i] }})
}

func (s *Server) GetRollout(c echo.Context, id string, p api.GetRolloutParams) error {
	st, doc, err := s.find(c, fleet.KindRollout, id)
	if err != nil {
		return err
	}
	view, err := s.rolloutView(requestOf(c).job.Context(), st, doc, false)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, view)
}

func (s *Server) CreateRollout(c echo.Context, p api.CreateRolloutParams) error {
	req, err := decodeBody[api.RolloutCreate](c)
	if err != nil {
		return err
	}
	if err := fleet.Invalid(s.misshapenDocuments(req.Operations, operationBodies(requestOf(c).body, len(req.Operations)))); err != nil {
		return err
	}
	past := s.pastOf(c)
	var batch *fleet.Batch
	res, err := s.commit(c, fleet.KindRollout, req.ID, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash}, func(tx *fleet.Tx) error {
		past.limitTo(tx)
		var err error
		batch, err = tx.CreateRollout(newRollout(req), past)
		return err
	})
	if err != nil {
		if batch != nil {
			err = batch.Locate(req.Operations, err)
		}
		return err
	}
	if value(p.DryRun) || len(res.Commit.Changes) == 0 { // it existed with this change
		return s.answerRollout(c, res.State, req.ID, http.StatusOK)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/rollouts/"+req.ID)
	return s.answerRollout(c, res.State, req.ID, http.StatusCreated)
}

// answerRollout answers a write with the rollout and its status. Without the status if it cannot be computed, for example at
// the deadline of the request: an error would tell the client that the change was not made, and a retry would start the next
// stage.
func (s *Server) answerRollout(c echo.Context, st *fleet.State, id string, status int) error {
	doc, err := st.Find(fleet.KindRollout, id)
	if err != nil {
		return err
	}
	view, err := s.rolloutView(requestOf(c).job.Context(), st, doc, false)
	if err != nil {
		view = s.viewOf(st, doc)
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, status, view)
}

// newRollout returns the request as package fleet takes it.
func newRollout(req api.RolloutCreate) fleet.NewRollout {
	n := fleet.NewRollout{
		ID: req.ID, Strategy: req.Strategy, Description: req.Description, Operations: req.Operations,
		RolloutSettings: fleet.RolloutSettings{Advance: req.Advance, Gate: req.Gate, OnFailure: req.OnFailure, Windows: req.Windows, StartAt: req.StartAt},
	}
	for _, s := range req.Stages {
		n.Stages = append(n.Stages, fleet.RolloutStage{Name: s.Name, ClusterIDs: s.ClusterIds, Selector: s.Selector, All: s.All, Percent: s.Percent, Count: s.Count, Gate: s.Gate, Approval: s.Approval, StartAt: s.StartAt})
	}
	return n
}

func (s *Server) ChangeRollout(c echo.Context, id, action string, p api.ChangeRolloutParams) error {
	stage := value(p.Stage)
	res, err := s.commit(c, fleet.KindRollout, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, func(tx *fleet.Tx) error {
		if stage == "" { // if another process commits first, this concerns the same stage or nothing
			stage = tx.RolloutStage(id, action)
		}
		_, err := tx.ChangeRollout(id, action, stage)
		return err
	})
	if err != nil {
		return err
	}
	return s.answerRollout(c, res.State, id, http.StatusOK)
}

func (s *Server) DeleteRollout(c echo.Context, id string, p api.DeleteRolloutParams) error {
	return s.deleteDocument(c, fleet.KindRollout, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}
