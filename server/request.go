package server

import (
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
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
	watch     bool // it waits for revisions, for minutes
	body      openapi.Body
	job       *admission.Job
	// limited is the change of a principal that may read only a part of the fleet; nil: it may read everything.
	limited *limitedChange
	id      string // see requestID; empty: none yet
	audited auditRecord
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
	var refusal *auth.RefusedError
	limited, permitted := limitedChange{server: s, request: r, meta: meta, edit: edit}, false
	judged := func(tx *fleet.Tx) error {
		permitted = false
		var caller auth.Principal
		if caller, refusal = s.authorize(r, tx.Base()); refusal != nil {
			return refusal
		}
		if caller.Subject != nil {
			rights := tx.Base().Rights(caller.Subject, s.cfg.Now())
			if err := limited.begin(tx.Base(), rights); err != nil {
				return err
			}
			tx.LimitTo(rights, meta.DryRun)
		}
		permitted = true
		tx.ClusterFilters(s.tracker.Filters())
		tx.Approvers(s.approverRights)
		if caller.Subject == nil && caller.Role < auth.Admin {
			tx.RefuseAdminKinds()
		}
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
	if err == nil && !meta.DryRun && len(res.Commit.Changes) > 0 {
		s.metrics.committed(res.Commit.Changes)
		r.audited.revision, r.audited.changes = res.State.Revision(), res.Commit.Changes
	}
	if refusal != nil && errors.Is(err, refusal) { // otherwise the store failed
		return res, s.reportRefusal(c, refusal)
	}
	return limited.result(res, err, permitted)
}
