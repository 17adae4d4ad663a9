package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// request is a request with the results of the steps before its handler. It is the echo.Context of handlers.
type request struct {
	echo.Context
	op *openapi.Operation
	// state is the State in which the principal was authorized, and from which a read is answered; nil when nothing is loaded.
	// It is taken once, after all waits.
	state     *fleet.State
	age       time.Duration // of state: see store.Replica.StateForReads
	unfit     error         // the reason why state must not be used; nil: it may be
	principal auth.Principal
	body      openapi.Body
	job       *admission.Job
	id        string // see requestID; empty: none yet
	// preauth is the limit that counts this request; nil: none does.
	preauth *admission.PreauthLimit
	address netip.Prefix // under which preauth counts it
}

// requestOf returns the request of a handler's context.
func requestOf(c echo.Context) *request {
	if r, ok := c.(*request); ok {
		return r
	}
	return &request{Context: c}
}

// actor returns the sender of the request in the log.
func actor(c echo.Context) string { return requestOf(c).principal.Actor }

// requestBody returns the text of the validated body.
func requestBody(c echo.Context) []byte { return requestOf(c).body.Text }

// decodeBody decodes a validated body.
func decodeBody[T any](c echo.Context) (T, error) {
	var v T
	if err := json.Unmarshal(requestBody(c), &v); err != nil {
		return v, fleet.Invalid([]fleet.Problem{{Detail: "the body does not match the OpenAPI document"}})
	}
	return v, nil
}

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

// state returns the State for a read.
func (s *Server) state(c echo.Context) (*fleet.State, error) {
	r := requestOf(c)
	if r.unfit != nil {
		return nil, r.unfit
	}
	h := c.Response().Header()
	h[response.HeaderRevision], h[response.HeaderAge] = []string{response.FormatRevision(r.state.Revision())}, []string{response.FormatAge(r.age)}
	return r.state, nil
}

// transact commits a change. It authorizes the principal again in the State on which the commit is based: a token that was
// revoked in the log before commits nothing.
func (s *Server) transact(c echo.Context, meta store.Meta, edit func(*fleet.Tx) error) (fleet.Result, error) {
	r := requestOf(c)
	meta.Actor = r.principal.Actor
	var refusal *auth.Refusal
	judged := func(tx *fleet.Tx) error {
		if _, refusal = s.authorize(r, tx.Base()); refusal != nil {
			return refusal
		}
		tx.ClusterFilters(s.tracker.Filters())
		return edit(tx)
	}
	update := func(meta store.Meta) (fleet.Result, error) {
		return s.cfg.Replica.Update(c.Request().Context(), meta, judged)
	}
	var res fleet.Result
	var err error
	if len(r.body.Text) > admission.LargeBody && !meta.DryRun {
		// A large body may take seconds until a problem is found. A dry run finds it first, while others can commit.
		rehearsal := meta
		rehearsal.DryRun = true
		res, err = update(rehearsal)
	}
	if err == nil {
		res, err = update(meta)
	}
	if err == nil && !meta.DryRun {
		s.metrics.committed(res.Commit.Changes)
	}
	if refusal != nil && errors.Is(err, refusal) { // otherwise the store failed
		return res, s.reportRefusal(c, refusal)
	}
	return res, err
}
