package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// request is a request with what is found out about it on its way to the handler. It is the echo.Context that handlers
// get.
type request struct {
	echo.Context
	op *operation
	// state is what a read is answered from, and what who was judged by; nil when nothing is loaded. It is taken once,
	// after everything that is waited for.
	state     *fleet.State
	age       time.Duration // of state: see store.Replica.StateForReads
	unfit     error         // why nothing may be answered from state
	principal principal
	body      []byte // as it came; nil: there is none
	job       *job
	id        string // see requestID; empty: it has none yet
	// anonymous are the places for requests of nobody known that it has one of; nil: it has none.
	preauth *preauthLimit
	address netip.Prefix // the address that the place is taken for
}

// requestOf is the request that a handler was called with.
func requestOf(c echo.Context) *request {
	if r, ok := c.(*request); ok {
		return r
	}
	return &request{Context: c}
}

// actor is who sent the request, as the log names them.
func actor(c echo.Context) string { return requestOf(c).principal.actor }

// requestBody is the body that validate read.
func requestBody(c echo.Context) []byte { return requestOf(c).body }

// minRevisionWait is how long a request waits for the revision that X-Fleet-Min-Revision asks for.
const minRevisionWait = 2 * time.Second

// await returns when the State is not older than the request asks for.
func (s *Server) waitForRevision(r *request) error {
	values := r.Request().Header[headerMinRevision]
	if r.op.public() || len(values) != 1 {
		return nil // more than one is refused where parameters are read
	}
	revision, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	if revision < 0 { // polls are not held against the contract
		return fleet.Invalid([]fleet.Problem{{Detail: "header X-Fleet-Min-Revision: must be a revision, which is 0 or more"}})
	}
	wait := s.cfg.Replica.SyncTo
	if r.op.poll || r.principal.role == rolePoll { // whose number must not become the number of questions to the store
		wait = s.cfg.Replica.WaitFor
	}
	return s.reachedRevision(r, revision, wait)
}

// arrived waits for a revision, and not for long.
func (s *Server) reachedRevision(r *request, revision int64, wait func(context.Context, fleet.Revision) error) error {
	ctx, cancel := context.WithTimeout(r.Request().Context(), minRevisionWait)
	defer cancel()
	err := wait(ctx, fleet.Revision(revision))
	if unknown, ok := errors.AsType[*store.UnknownRevisionError](err); ok {
		if s.cfg.Mode == ModeCRUD {
			return unknownRevision(r, unknown)
		}
		err = s.cfg.Replica.WaitFor(ctx, fleet.Revision(revision)) // the store may be a standby, which is behind
	}
	if err != nil && ctx.Err() != nil && r.Request().Context().Err() == nil {
		return s.notReachedError(r, revision)
	}
	return err
}

// stateOf is the State to answer a question about a revision from. Whether there is one that this process has not heard of is for
// the store to say: it may have been made a moment ago by another one.
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

// notYet says that a revision is not here. What is here instead is in the header: a client that knows which revisions
// there were can tell a process that is behind from a store whose history was replaced.
func (s *Server) notReachedError(r *request, revision int64) error {
	detail := fmt.Sprintf("revision %d has not arrived here", revision)
	if st := s.cfg.Replica.State(); st != nil {
		r.Response().Header()[headerRevision] = []string{formatRevision(st.Revision())}
		detail += fmt.Sprintf(": the newest is %d", st.Revision())
	}
	return &publicError{
		status: http.StatusServiceUnavailable, code: "store_unavailable",
		detail: detail + "; try again, or, if the server was given another history since, ask for one of that", headers: map[string]string{"Retry-After": "1"},
	}
}

// unknownRevision refuses a request for a revision that the store does not have. It differs from notYet by its code, so that a client
// can tell a replaced history, where waiting is of no use, from a process that is behind.
func unknownRevision(r *request, unknown *store.UnknownRevisionError) error {
	r.Response().Header()[headerRevision] = []string{formatRevision(unknown.Newest)}
	return &publicError{
		status: http.StatusServiceUnavailable, code: "unknown_revision",
		detail: unknown.Error() + ": it was given another history since, such as a restored backup or an empty database; nothing was changed",
	}
}

// state is the State to answer a read from.
func (s *Server) state(c echo.Context) (*fleet.State, error) {
	r := requestOf(c)
	if r.unfit != nil {
		return nil, r.unfit
	}
	h := c.Response().Header()
	h[headerRevision], h[headerAge] = []string{formatRevision(r.state.Revision())}, []string{formatAge(r.age)}
	return r.state, nil
}

// transact runs a change in the name of who sent the request. They are judged again by the very State that the change is
// made to: a commit of a token that the log up to then says was revoked does not come about.
func (s *Server) transact(c echo.Context, meta store.Meta, edit func(*fleet.Tx) error) (fleet.Result, error) {
	r := requestOf(c)
	meta.Actor = r.principal.actor
	var refusal *refusal
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
	if len(r.body) > largeBody && !meta.DryRun {
		// A large body may take seconds to find something wrong with. That is found out first, while others write.
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
	if refusal != nil && errors.Is(err, refusal) { // or else the store could not be asked
		return res, s.reportRefusal(c, refusal)
	}
	return res, err
}
