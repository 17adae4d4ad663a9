package server

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) RestoreRevision(c echo.Context, revision int64, p api.RestoreRevisionParams) error {
	op := api.Operation{Op: "restore", Revision: revision}
	if len(requestBody(c)) > 0 {
		req, err := decodeBody[api.RestoreRequest](c)
		if err != nil {
			return err
		}
		op.Kind, op.Type, op.ID = req.Kind, req.Type, req.ID
	}
	reason := value(p.XChangeReason)
	if reason == "" {
		reason = fmt.Sprintf("restored to revision %d", revision)
	}
	meta := changeMeta(c, reason, p.DryRun)
	return s.answerBatch(c, meta, []api.Operation{op}, value(p.PlanHash))
}
