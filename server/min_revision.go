package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/labstack/echo/v4"
)

// minRevisionWait is the longest wait for the revision in X-Fleet-Min-Revision.
const minRevisionWait = 2 * time.Second

// waitForRevision waits until the State is at the revision that the request requires, or later.
func (s *Server) waitForRevision(r *request) error {
	values := r.Request().Header[response.HeaderMinRevision]
	if r.op.Public() || len(values) != 1 {
		return nil // validate refuses several
	}
	revision, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	if revision < 0 { // polls are not validated
		return fleet.Invalid([]fleet.Problem{{Detail: "header X-Fleet-Min-Revision: must be a revision, 0 or more"}})
	}
	wait := s.cfg.Replica.SyncTo
	if r.op.Poll || r.principal.Role == auth.Poll { // polls must not cause one query of the store each
		wait = s.cfg.Replica.WaitFor
	}
	return s.reachedRevision(r, revision, wait)
}

// reachedRevision waits for a revision for at most minRevisionWait.
func (s *Server) reachedRevision(r *request, revision int64, wait func(context.Context, fleet.Revision) error) error {
	ctx, cancel := context.WithTimeout(r.Request().Context(), minRevisionWait)
	defer cancel()
	err := wait(ctx, fleet.Revision(revision))
	if unknown, ok := errors.AsType[*store.UnknownRevisionError](err); ok {
		if s.cfg.Mode == ModeCRUD {
			return unknownRevision(r, unknown)
		}
		err = s.cfg.Replica.WaitFor(ctx, fleet.Revision(revision)) // the store may be a standby that lags behind
	}
	if err != nil && ctx.Err() != nil && r.Request().Context().Err() == nil {
		return s.notReachedError(r, revision)
	}
	return err
}

// stateOf returns a State at a revision or later. The store decides whether the revision exists, because another process may
// have committed it a moment ago.
func (s *Server) stateOf(c echo.Context, revision int64) (*fleet.State, error) {
	st, err := s.state(c)
	if err != nil || fleet.Revision(revision) <= st.Revision() {
		return st, err
	}
	if _, err := s.revision(c.Request().Context(), st, revision); err != nil {
		return nil, err
	}
	r := requestOf(c)
	if err := s.reachedRevision(r, revision, s.cfg.Replica.SyncTo); err != nil {
		return nil, err
	}
	if err := s.authenticate(r); err != nil {
		return nil, err
	}
	return s.state(c)
}

// notReachedError reports that this process has not reached a revision. The header has its current revision: a client that
// knows the revisions can distinguish a process that is behind from a store whose history was replaced.
func (s *Server) notReachedError(r *request, revision int64) error {
	detail := fmt.Sprintf("revision %d has not arrived here", revision)
	if st := s.cfg.Replica.State(); st != nil {
		r.Response().Header()[response.HeaderRevision] = []string{response.FormatRevision(st.Revision())}
		detail += fmt.Sprintf(": the newest is %d", st.Revision())
	}
	return &httperror.Error{
		Status: http.StatusServiceUnavailable, Code: "store_unavailable",
		Detail: detail + "; try again, or, if the history of the store was replaced, request one of its revisions", Headers: map[string]string{"Retry-After": "1"},
	}
}

// unknownRevision refuses a request for a revision that the store does not have. Its code differs from notReachedError, so
// that a client can distinguish a replaced history, where waiting does not help, from a process that is behind.
func unknownRevision(r *request, unknown *store.UnknownRevisionError) error {
	r.Response().Header()[response.HeaderRevision] = []string{response.FormatRevision(unknown.Newest)}
	return &httperror.Error{
		Status: http.StatusServiceUnavailable, Code: "unknown_revision",
		Detail: unknown.Error() + ": its history was replaced, for example by a backup or an empty database; nothing was changed",
	}
}
