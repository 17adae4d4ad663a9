package server

import (
	"context"
	"log/slog"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// authorize checks the permission of a request in a State; st may be nil.
func (s *Server) authorize(r *request, st *fleet.State) (auth.Principal, *auth.RefusedError) {
	caller, refusal := s.auth.Authorize(r.Request(), r.op.Access, r.Param("cluster_dns"), st)
	if refusal == nil {
		s.polls.RecordUse(&caller)
	}
	return caller, refusal
}

// authenticate authorizes the request in the newest State, and stores both in it. It does nothing when the request was
// authorized in the same State before.
func (s *Server) authenticate(r *request) error {
	if r.op.Public() {
		return nil
	}
	read := s.cfg.Replica.StateForReads
	if !r.op.CRUDOnly { // the endpoints for clusters
		read = s.cfg.Replica.StateForPolls
	}
	st, age, unfit := read()
	r.age, r.unfit = age, unfit
	if r.principal.Role != auth.None && (st == r.state || r.state != nil && st == r.state.Whole()) {
		return nil
	}
	caller, refusal := s.authorize(r, st)
	if refusal != nil {
		return s.reportRefusal(r, refusal)
	}
	if r.principal.Role == auth.None {
		s.metrics.identified[caller.Method].Inc()
	}
	r.state, r.principal = st, caller
	if r.op.CRUDOnly && caller.Subject != nil {
		r.state = s.visible.get(st, st.Rights(caller.Subject, s.cfg.Now()))
	}
	s.releasePreauth(r)
	admission.MarkAuthenticated(r.Request().Context())
	return nil
}

// reportRefusal counts and logs a refused request, and returns its answer.
func (s *Server) reportRefusal(c echo.Context, refusal *auth.RefusedError) error {
	report := s.auth.Report(c.Request(), refusal)
	r := requestOf(c)
	r.audited.caller, r.audited.reason = refusal.Principal, report.Reason
	if report.Reason != "" {
		s.metrics.authFailures.WithLabelValues(report.Reason).Inc()
	}
	if report.Log {
		s.logRefused(c, refusal.Principal, report)
	}
	return report.Answer
}

func (s *Server) logRefused(c echo.Context, caller auth.Principal, report auth.Report) {
	attrs := []slog.Attr{
		slog.String("request_id", requestID(c)), slog.String("reason", report.Reason), slog.String("method", c.Request().Method),
		slog.String("route", c.Path()), slog.String("remote", c.Request().RemoteAddr),
	}
	if caller.Actor != "" {
		attrs = append(attrs, slog.String("actor", caller.Actor))
	}
	if report.Detail != "" {
		attrs = append(attrs, slog.String("detail", report.Detail))
	}
	if report.Suppressed > 0 {
		attrs = append(attrs, slog.Int("not_logged_before", report.Suppressed))
	}
	s.cfg.Logger.LogAttrs(context.WithoutCancel(c.Request().Context()), slog.LevelWarn, "request refused", attrs...)
}
