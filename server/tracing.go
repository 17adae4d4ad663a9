package server

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// Requests that the router answers are traced, if there is a tracer. Polls on the fast path are not: there are thousands, each
// answered from memory in microseconds.

// traceContext reads W3C traceparent headers.
var traceContext propagation.TraceContext

// traceOf returns the trace of a request: that of its span, or else that of its header.
func traceOf(r *http.Request) trace.SpanContext {
	if span := trace.SpanContextFromContext(r.Context()); span.IsValid() {
		return span
	}
	if r.Header.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// traced starts the span of a request in the request's context, and returns the function that ends it.
func (s *Server) traced(c *request, route string) (end func()) {
	r := c.Request()
	if s.cfg.Tracer == nil {
		return func() {}
	}
	ctx := traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.cfg.Tracer.Start(ctx, knownMethod(r.Method)+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", knownMethod(r.Method)), attribute.String("http.route", route), attribute.String("url.path", redact.Credentials(r.URL.Path)),
		attribute.String("user_agent.original", redact.Credentials(r.UserAgent())),
	))
	c.SetRequest(r.WithContext(ctx))
	return func() {
		status := c.Response().Status
		span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("enduser.id", actor(c)),
			attribute.String("fleet.revision", c.Response().Header().Get(response.HeaderRevision)), attribute.String("request.id", c.Response().Header().Get(echo.HeaderXRequestID)))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// span starts a span of work that no request causes. Without a tracer it records nothing.
func (s *Server) span(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if s.cfg.Tracer == nil {
		return ctx, noop.Span{}
	}
	return s.cfg.Tracer.Start(ctx, name, trace.WithAttributes(attributes...))
}

// endSpan ends a span, as failed if err is not nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
