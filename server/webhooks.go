package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

func (s *Server) ListWebhooks(c echo.Context, p api.ListWebhooksParams) error {
	return s.listKind(c, fleet.KindWebhook, p.Limit, p.Offset)
}

func (s *Server) GetWebhook(c echo.Context, id string, _ api.GetWebhookParams) error {
	return s.getViewed(c, fleet.KindWebhook, id)
}

func (s *Server) CreateWebhook(c echo.Context, p api.CreateWebhookParams) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	if err := s.webhooksUsable(); err != nil {
		return err
	}
	return s.createDocumentBy(c, fleet.KindWebhook, writeParams{nil, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) (*fleet.Document, error) {
		return s.checkedWebhook(tx.CreateWebhook(body))
	})
}

func (s *Server) UpdateWebhook(c echo.Context, id string, p api.UpdateWebhookParams) error {
	return s.changeWebhook(c, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, (*fleet.Tx).PutWebhook)
}

func (s *Server) PatchWebhook(c echo.Context, id string, p api.PatchWebhookParams) error {
	return s.changeWebhook(c, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, (*fleet.Tx).PatchWebhook)
}

func (s *Server) changeWebhook(c echo.Context, id string, p writeParams, change func(tx *fleet.Tx, id string, body map[string]any) (*fleet.Document, error)) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	return s.update(c, fleet.KindWebhook, id, p, func(tx *fleet.Tx) error {
		doc, err := change(tx, id, body)
		if _, sets := body["url"]; sets || err != nil {
			_, err = s.checkedWebhook(doc, err)
		}
		return err
	})
}

func (s *Server) DeleteWebhook(c echo.Context, id string, p api.DeleteWebhookParams) error {
	return s.deleteDocument(c, fleet.KindWebhook, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}

func (s *Server) GetWebhookHistory(c echo.Context, id string, p api.GetWebhookHistoryParams) error {
	return s.history(c, fleet.KindWebhook, id, historyParams{limit: p.Limit, cursor: p.Cursor})
}

func (s *Server) RotateWebhook(c echo.Context, id string, p api.RotateWebhookParams) error {
	return s.update(c, fleet.KindWebhook, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		return tx.RotateWebhook(id, s.commitTime())
	})
}

func (s *Server) ReplayWebhook(c echo.Context, id string, p api.ReplayWebhookParams) error {
	return s.update(c, fleet.KindWebhook, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		return tx.ReplayWebhook(id, fleet.Revision(p.After))
	})
}

func (s *Server) GetWebhookSecret(c echo.Context, id string, _ api.GetWebhookSecretParams) error {
	_, doc, err := s.find(c, fleet.KindWebhook, id)
	if err != nil {
		return err
	}
	if err := s.webhooksUsable(); err != nil {
		return err
	}
	secret, _ := s.cfg.Webhooks.Secret(doc.Webhook())
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return response.WriteJSON(c, http.StatusOK, api.WebhookSecret{Secret: secret, Generation: doc.Webhook().Generation})
}

func (s *Server) TestWebhook(c echo.Context, id string, _ api.TestWebhookParams) error {
	_, doc, err := s.find(c, fleet.KindWebhook, id)
	if err != nil {
		return err
	}
	if err := s.webhooksUsable(); err != nil {
		return err
	}
	r, err := s.cfg.Webhooks.Test(c.Request().Context(), doc.Webhook())
	if errors.Is(err, webhooks.ErrNotRunning) {
		return &fleet.Error{Code: fleet.CodeConflict, Detail: err.Error()}
	}
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, api.WebhookTest{Delivered: r.Error == "", Status: r.Status, Error: s.masker.Tokens(r.Error), DurationMs: r.Duration.Milliseconds()})
}

// webhooksUsable returns an error if the configuration lacks a setting that webhooks require.
func (s *Server) webhooksUsable() error {
	problem := "this server does not deliver webhooks"
	if s.cfg.Webhooks != nil {
		problem = s.cfg.Webhooks.Problem()
	}
	if problem != "" {
		return &fleet.Error{Code: fleet.CodeConflict, Detail: problem}
	}
	return nil
}

// webhookProblems returns the problems of the URL that an operation gives a webhook, as the routes of webhooks find them.
func (s *Server) webhookProblems(op api.Operation, body map[string]any, at string) []fleet.Problem {
	text, given := body["url"].(string)
	if op.Kind != string(fleet.KindWebhook) || !given {
		return nil
	}
	wrong := s.webhooksUsable()
	if wrong == nil {
		wrong = s.cfg.Webhooks.CheckURL(text)
	}
	if wrong == nil {
		return nil
	}
	return []fleet.Problem{{Pointer: at + "/url", Detail: wrong.Error()}}
}

// checkedWebhook returns an error if the configuration does not allow the URL of a webhook.
func (s *Server) checkedWebhook(doc *fleet.Document, err error) (*fleet.Document, error) {
	if err != nil || s.cfg.Webhooks == nil {
		return doc, err
	}
	if wrong := s.cfg.Webhooks.CheckURL(doc.Webhook().URL); wrong != nil {
		return nil, fleet.Invalid([]fleet.Problem{{Pointer: "/url", Detail: wrong.Error()}})
	}
	return doc, nil
}

// webhookView returns a webhook as the API shows it, with the state of its delivery.
func (s *Server) webhookView(st *fleet.State, doc *fleet.Document) any {
	view := doc.View().(*api.Webhook)
	view.Delivery.Revision = view.After
	if s.cfg.Webhooks != nil {
		d := s.cfg.Webhooks.Delivery(doc.Webhook())
		view.Delivery = api.WebhookDelivery{
			Revision: int64(d.Revision), Attempts: d.Attempts, NextAttemptAt: d.NextAt, LastStatus: d.Status, LastError: s.masker.Tokens(d.Error), LastAt: d.At,
		}
	}
	view.Delivery.Lag = max(0, int64(st.Revision())-view.Delivery.Revision)
	return view
}
