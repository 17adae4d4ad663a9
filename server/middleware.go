package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// requestID is the id of the request in the log, in the revision that it commits, and in the answer. Polls have none unless
// they fail, because they are many and alike.
func requestID(c echo.Context) string {
	r := requestOf(c)
	if r.id != "" {
		return r.id
	}
	r.id = redact.Credentials(c.Request().Header.Get(echo.HeaderXRequestID))
	if !isPlainID(r.id) {
		r.id = uuid.NewString()
	}
	c.Response().Header().Set(echo.HeaderXRequestID, r.id)
	return r.id
}

// isPlainID reports whether an id from a client fits into a log line.
func isPlainID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return true
}

// middleware counts, times and logs every request, and turns a panic into a 500.
func (s *Server) middleware(places *admission.PreauthLimit) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return s.serve(&request{Context: c}, places, next) }
	}
}

func (s *Server) serve(c *request, places *admission.PreauthLimit, next echo.HandlerFunc) error {
	start := time.Now()
	if !s.admitPreauth(c, places) {
		return s.answerStatusOnly(c, next)
	}
	defer s.releasePreauth(c)
	if len(c.Request().TransferEncoding) > 0 {
		// It may also have had a Content-Length, which net/http does not report. A proxy that used that length sees the rest
		// of this connection differently.
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
	op := s.operations.Find(c.Request().Method, c.Path())
	poll := op != nil && op.Poll
	hardenHeaders(c.Response().Header())
	if s.masker.Find(c.Request().Header.Get(echo.HeaderXRequestID)) != "" {
		c.Request().Header.Del(echo.HeaderXRequestID) // it would appear in the log and in the history
	}
	if !poll {
		requestID(c)
	}
	route := "unmatched"
	if op != nil {
		route = c.Path()
	}
	endTrace := s.traced(c, route)
	if err := s.recoverPanic(c, next); err != nil {
		requestID(c)
		s.handleError(err, c)
	}
	endTrace()
	s.audit(c)
	took := time.Since(start)
	if c.watch {
		s.metrics.watch(route, c.Request().Method, c.Response().Status)
	} else {
		s.metrics.request(route, c.Request().Method, c.Response().Status, took)
	}
	s.logRequest(c, poll, took)
	return nil
}

func (s *Server) recoverPanic(c echo.Context, next echo.HandlerFunc) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
			panic(p) // the way of net/http to drop a connection
		}
		s.metrics.panics.Inc()
		err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}()
	return next(c)
}

func hardenHeaders(h http.Header) {
	h[echo.HeaderXContentTypeOptions], h[echo.HeaderCacheControl] = response.NoSniff, response.NoStore
}

// logRequest writes one line for each request, for polls at level debug.
func (s *Server) logRequest(c echo.Context, poll bool, took time.Duration) {
	level := slog.LevelInfo
	if poll || c.Response().Status == http.StatusTooManyRequests || c.Path() == "/health" || c.Path() == "/ready" || c.Path() == "/metrics" {
		level = slog.LevelDebug
	}
	ctx := c.Request().Context()
	if !s.cfg.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", requestID(c)), slog.String("method", c.Request().Method),
		slog.String("path", redact.Credentials(c.Request().URL.Path)), slog.Int("status", c.Response().Status),
		slog.Duration("took", took), slog.String("actor", actor(c)), slog.String("remote", c.Request().RemoteAddr),
		slog.String("user_agent", redact.Credentials(c.Request().UserAgent())),
	}
	if of := traceOf(c.Request()); of.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", of.TraceID().String()))
	}
	s.cfg.Logger.LogAttrs(ctx, level, "request", attrs...)
}
