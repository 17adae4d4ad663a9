package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracing sends traces to a collector. Nil: tracing is off.
type tracing struct{ provider *sdktrace.TracerProvider }

// flushTimeout bounds the wait at shutdown for the collector to accept the remaining spans.
const flushTimeout = 5 * time.Second

// newTracing starts tracing to OTEL_EXPORTER_OTLP_ENDPOINT. The library reads the other OTEL_ variables itself: headers,
// certificates, the sampler, the service's name. A collector that is down costs spans, and nothing else.
func newTracing(ctx context.Context, endpoint, mode string, logger *slog.Logger) (*tracing, error) {
	if endpoint == "" {
		return nil, nil //nolint:nilnil // off
	}
	to, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.JoinPath("v1", "traces").String()))
	if err != nil {
		return nil, err
	}
	about, err := newResource(ctx, mode)
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	// The library reports collector errors through this global handler, by default to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.WarnContext(ctx, "traces could not be sent", "error", err) }))
	return &tracing{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))}, nil
}

// newResource describes this process to a collector.
func newResource(ctx context.Context, mode string) (*resource.Resource, error) {
	return resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "flux-resourceset"), attribute.String("service.version", version), attribute.String("fleet.mode", mode),
	), resource.WithFromEnv())
}

// tracer returns the tracer of requests; nil if tracing is off.
func (t *tracing) tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer("github.com/flux-resourceset/flux-resourceset/server")
}

// watch enables traces of a Postgres database's queries.
func (t *tracing) watch(db database) database {
	pg, ok := db.(postgresDatabase)
	if t == nil || !ok {
		return db
	}
	pg.cfg.Tracer = withinRequests{otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider),
		otelpgx.WithDisableSQLStatementInAttributes())} // statements contain values: see postgres.Config
	return pg
}

// stop sends the remaining spans.
func (t *tracing) stop(logger *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		logger.WarnContext(ctx, "traces could not be sent", "error", err)
	}
}

// withinRequests traces queries of traced requests only, not those that read the head ten times a second.
type withinRequests struct{ to pgx.QueryTracer }

// TraceQueryStart implements pgx.QueryTracer.
func (w withinRequests) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	return context.WithValue(w.to.TraceQueryStart(ctx, conn, data), tracedQuery{}, true)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w withinRequests) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(tracedQuery{}) == nil {
		return
	}
	if refused := new(pgconn.PgError); errors.As(data.Err, &refused) {
		data.Err = errors.New("SQLSTATE " + refused.Code) // the error's text may quote values
	}
	w.to.TraceQueryEnd(ctx, conn, data)
}

type tracedQuery struct{}
