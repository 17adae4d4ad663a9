package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// statusClientGone is the status that proxies log for a client that disconnected.
const statusClientGone = 499

// domainStatus has the statuses of the codes of package fleet.
var domainStatus = map[fleet.Code]int{
	fleet.CodeInvalid:         http.StatusBadRequest,
	fleet.CodeNotFound:        http.StatusNotFound,
	fleet.CodeConflict:        http.StatusConflict,
	fleet.CodeInUse:           http.StatusConflict,
	fleet.CodeProtected:       http.StatusConflict,
	fleet.CodeFieldConflict:   http.StatusConflict,
	fleet.CodeConfirm:         http.StatusConflict,
	fleet.CodeRevertConflict:  http.StatusConflict,
	fleet.CodeObjectConflict:  http.StatusConflict,
	fleet.CodeInRollout:       http.StatusConflict,
	fleet.CodeFrozen:          http.StatusConflict,
	fleet.CodeManagedBySource: http.StatusConflict,
	fleet.CodePinned:          http.StatusConflict,
	fleet.CodeSecondPerson:    http.StatusConflict,
	fleet.CodeOutOfScope:      http.StatusForbidden,
	fleet.CodeStale:           http.StatusPreconditionFailed,
	fleet.CodeLimitExceeded:   http.StatusUnprocessableEntity,
	fleet.CodeNotStageable:    http.StatusUnprocessableEntity,
	fleet.CodePolicy:          http.StatusUnprocessableEntity,
	fleet.CodeSecretValue:     http.StatusUnprocessableEntity,
	fleet.CodeUnresolved:      http.StatusInternalServerError,
	fleet.CodeMissingVariable: http.StatusUnprocessableEntity,
}

// httpCodes has the codes of the statuses that the router and net/http return.
var httpCodes = map[int]string{
	http.StatusBadRequest:            "validation_error",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusNotFound:              "not_found",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType:  "unsupported_media_type",
}

// toPublic is the only place that turns errors into HTTP.
func toPublic(c echo.Context, err error) *httperror.Error {
	var (
		public  *httperror.Error
		domain  *fleet.Error
		router  *echo.HTTPError
		unclear *store.OutcomeError
		large   *http.MaxBytesError
	)
	switch {
	case errors.As(err, &public):
		return public
	case errors.As(err, &domain):
		p := &httperror.Error{Status: domainStatus[domain.Code], Code: string(domain.Code), Detail: domain.Detail, Problems: domain.Problems, Approval: domain.Approval}
		if domain.ETag != "" {
			p.Headers = map[string]string{"ETag": domain.ETag}
		}
		return p
	case errors.As(err, &unclear):
		return &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "outcome_unknown",
			Detail: fmt.Sprintf("the store did not confirm the commit, which may have happened: look for commit %s in the history before you repeat the change", unclear.Commit.ID),
		}
	case errors.Is(err, store.ErrCompacted):
		return &httperror.Error{Status: http.StatusNotFound, Code: "not_found", Detail: "the revision was removed: the history is limited to HISTORY_RETENTION"}
	case errors.Is(err, store.ErrReadOnly):
		return toPublic(c, errReadOnly(true))
	case errors.Is(err, store.ErrQuarantined):
		return &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable",
			Detail: "the store's history is quarantined: it is neither served to clusters nor changed until an operator accepts it; see /ready",
		}
	case errors.Is(err, store.ErrReplaced): // no Retry-After: an operator has to act first
		return &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable",
			Detail: "the store's history was replaced: changes are refused until an operator accepts it or restores the previous one; see /ready",
		}
	case errors.Is(err, poll.ErrBehind):
		return tryAgain("store_unavailable", "another server has served this cluster a newer revision: try again, or use another server")
	case errors.Is(err, store.ErrTooOld):
		return tryAgain("store_unavailable", "the store has not confirmed this server's copy of the fleet within MAX_STALENESS, or STATE_MAX_AGE after a start: try again, or use another server")
	case errors.Is(err, store.ErrContended):
		return tryAgain("contended", "too many concurrent commits, or one that locked the store for too long: the change was not committed; try again")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return tryAgain("store_unavailable", "the store is unavailable: try again")
	case errors.As(err, &large):
		return openapi.TooLarge(0)
	case errors.As(err, &router):
		code, ok := httpCodes[router.Code]
		if !ok {
			break
		}
		return &httperror.Error{Status: router.Code, Code: code, Detail: routerDetail(c, router)}
	}
	return &httperror.Error{
		Status: http.StatusInternalServerError, Code: "internal_error",
		Detail: fmt.Sprintf("internal error: the log of the server has the cause under request id %s", requestID(c)),
	}
}

// tryAgain returns the error of a request that may succeed when it is repeated.
func tryAgain(code, detail string) *httperror.Error {
	return &httperror.Error{Status: http.StatusServiceUnavailable, Code: code, Detail: detail, Headers: map[string]string{"Retry-After": "1"}}
}

func routerDetail(c echo.Context, err *echo.HTTPError) string {
	switch err.Code {
	case http.StatusBadRequest: // a parameter of a poll that the generated handler could not parse
		return fmt.Sprint(err.Message)
	case http.StatusNotFound:
		return fmt.Sprintf("there is nothing at %s; the API is described at /openapi.yaml and /docs/", c.Request().URL.Path)
	case http.StatusMethodNotAllowed:
		return fmt.Sprintf("%s is not a method of this path", c.Request().Method)
	}
	return http.StatusText(err.Code)
}

// handleError writes an error as problem+json. The cause of an internal error goes to the log, never to the caller.
func (s *Server) handleError(err error, c echo.Context) {
	if isClientGone(c, err) {
		c.Response().Status = statusClientGone // for the log and the metrics only
		return
	}
	if c.Response().Committed {
		s.cfg.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "an answer was cut off", slog.Any("error", err))
		return
	}
	p := toPublic(c, err)
	r := requestOf(c)
	r.audited.code, r.audited.stalePlan = p.Code, p.Code == string(fleet.CodeStale) && p.Headers["ETag"] == "" && len(p.Problems) == 0
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelError
		switch {
		case errors.Is(err, store.ErrNotLoaded), errors.Is(err, store.ErrTooOld), errors.Is(err, store.ErrQuarantined):
			level = slog.LevelDebug // every poll until there is a fleet; the Replica logs the reason
		case p.Status == http.StatusServiceUnavailable:
			level = slog.LevelWarn
		}
		s.cfg.Logger.LogAttrs(c.Request().Context(), level, "request failed",
			slog.String("request_id", requestID(c)), slog.String("method", c.Request().Method),
			slog.String("route", c.Path()), slog.String("code", p.Code), slog.Any("error", err))
		if p.Code == string(fleet.CodeUnresolved) {
			s.metrics.unresolved.Inc()
		}
	}
	h := c.Response().Header()
	for k, v := range p.Headers {
		h.Set(k, v)
	}
	if p.Status == http.StatusMethodNotAllowed && h.Get(echo.HeaderAllow) == "" {
		h.Set(echo.HeaderAllow, s.operations.Allow(s.cfg.Mode == ModeCRUD, c.Path()))
	}
	detail := s.masker.Tokens(p.Detail)
	body := api.Problem{
		Type: "about:blank", Title: http.StatusText(p.Status), Status: p.Status, Detail: detail,
		Instance: s.masker.Path(c.Request().URL), Error: p.Code, Message: detail, OldestRevision: int64(p.Oldest),
		PlanHash: p.Approval.PlanHash, Subject: p.Approval.Subject,
	}
	for i, problem := range p.Problems {
		if i == openapi.MaxProblems {
			body.Errors = append(body.Errors, api.FieldProblem{Detail: "further problems are omitted"})
			break
		}
		field := api.FieldProblem{Pointer: s.masker.Tokens(problem.Pointer), Detail: s.masker.Tokens(problem.Detail)}
		if slices.Contains([]string{string(fleet.CodeRevertConflict), string(fleet.CodeFrozen), string(fleet.CodePinned), string(fleet.CodeManagedBySource), string(fleet.CodeOutOfScope), string(fleet.CodePolicy)}, p.Code) { // the request does not name the documents
			field.Kind, field.ID = string(problem.Kind), s.masker.Tokens(problem.ID)
		}
		body.Errors = append(body.Errors, field)
	}
	h.Set(echo.HeaderContentType, "application/problem+json")
	if c.Request().Method == http.MethodHead {
		c.Response().WriteHeader(p.Status)
		return
	}
	if err := response.WriteJSON(c, p.Status, body); err != nil {
		s.cfg.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "the error could not be sent", slog.Any("error", err))
	}
}
