package server

import (
	"context"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
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
	meta := changeMeta(c, reasonOr(c, p.XChangeReason, "restored to revision %d", revision), p.DryRun)
	return s.answerBatch(c, meta, []api.Operation{op}, value(p.PlanHash), false)
}

func (s *Server) RevertRevision(c echo.Context, revision int64, p api.RevertRevisionParams) error {
	var req api.RevertRequest
	if len(requestBody(c)) > 0 {
		var err error
		if req, err = decodeBody[api.RevertRequest](c); err != nil {
			return err
		}
	}
	var ops []api.Operation
	for _, doc := range req.Documents {
		ops = append(ops, api.Operation{Op: "revert", Revision: revision, Prefer: req.Prefer, Kind: doc.Kind, Type: doc.Type, ID: doc.ID})
	}
	if len(ops) == 0 {
		ops = []api.Operation{{Op: "revert", Revision: revision, Prefer: req.Prefer}}
	}
	return s.answerBatch(c, changeMeta(c, reasonOr(c, p.XChangeReason, "reverted revision %d", revision), p.DryRun), ops, value(p.PlanHash), false)
}

// reasonOr returns the reason of a request, or one that names the revision. An override requires a reason of its own.
func reasonOr(c echo.Context, reason *string, format string, revision int64) string {
	header := c.Request().Header
	overrides := header.Get(response.HeaderOverrideFreeze) != "" || header.Get(response.HeaderOverridePolicy) != "" || header.Get(response.HeaderOverrideSource) != ""
	if text := value(reason); text != "" || overrides {
		return text
	}
	return fmt.Sprintf(format, revision)
}

// logReader reads the log for the operations of one request.
type logReader struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the request
	log     History
	refused error                             // of every read for a change; nil: it may read documents that are not visible
	changes map[fleet.Revision][]fleet.Change // cached: a revision does not change, and every attempt of a commit reads it again
	held    int                               // number of cached changes
}

// maxReverted is the limit of changes that one request may revert and read.
const maxReverted = 100_000

var (
	_ fleet.History         = (*logReader)(nil)
	_ fleet.DocumentHistory = (*logReader)(nil)
)

// pastOf returns the history for a change.
func (s *Server) pastOf(c echo.Context) *logReader {
	return &logReader{ctx: c.Request().Context(), log: s.cfg.History}
}

// limitTo refuses reads for an attempt of a change whose principal may not read the whole fleet. The rights may have changed since
// the previous attempt.
func (h *logReader) limitTo(tx *fleet.Tx) {
	h.refused = nil
	if !tx.ReadsEverything() {
		h.refused = errNeedsUnlimitedRead
	}
}

// Past implements [fleet.History].
func (h *logReader) Past(q fleet.PastQuery) (fleet.Documents, error) {
	if h.refused != nil {
		return nil, h.refused
	}
	return h.log.Past(h.ctx, q)
}

// DocumentLog implements [fleet.DocumentHistory].
func (h *logReader) DocumentLog(q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	return h.log.DocumentLog(h.ctx, q)
}

// Commit implements [fleet.History].
func (h *logReader) Commit(rev fleet.Revision) (fleet.Commit, error) {
	if h.refused != nil {
		return fleet.Commit{}, h.refused
	}
	found, err := h.log.Summaries(h.ctx, store.HistoryQuery{Among: []fleet.Revision{rev}, Limit: 1}, 0)
	if err != nil || len(found) == 0 {
		return fleet.Commit{}, err
	}
	return found[0].Commit, nil
}

// Changes implements [fleet.History].
func (h *logReader) Changes(rev fleet.Revision) ([]fleet.Change, error) {
	if h.refused != nil {
		return nil, h.refused
	}
	if changes, known := h.changes[rev]; known {
		return changes, nil
	}
	var all []fleet.Change
	for {
		page, err := h.log.Changes(h.ctx, rev, len(all), defaultChanges)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		if all = append(all, page...); h.held+len(all) > maxReverted {
			return nil, &fleet.Error{Code: fleet.CodeLimitExceeded, Detail: fmt.Sprintf("the revisions to revert changed more than %d documents: revert fewer at a time", maxReverted)}
		}
	}
	if h.changes == nil {
		h.changes = map[fleet.Revision][]fleet.Change{}
	}
	h.changes[rev], h.held = all, h.held+len(all)
	return all, nil
}
