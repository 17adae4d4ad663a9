package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/urfave/cli/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// auditOTLP is the AUDIT_OUTPUT that sends events to OTEL_EXPORTER_OTLP_ENDPOINT.
const auditOTLP = "otlp"

// openAuditLog opens AUDIT_OUTPUT; nil: there is none.
func openAuditLog(c *cli.Context, cfg config, logger *slog.Logger) (*server.AuditLog, error) {
	if cfg.auditOutput == "" {
		return nil, nil //nolint:nilnil // a nil log drops events
	}
	to := server.AuditConfig{Output: cfg.auditOutput, Stdout: c.App.Writer, Stderr: c.App.ErrWriter, Logger: logger}
	if cfg.auditOutput == auditOTLP {
		exporter, err := newAuditExporter(c.Context, cfg)
		if err != nil {
			return nil, fmt.Errorf("AUDIT_OUTPUT: %w", err)
		}
		to.Export = exporter.export
	}
	log, err := server.OpenAuditLog(to)
	if err != nil {
		return nil, fmt.Errorf("AUDIT_OUTPUT: %w", err)
	}
	return log, nil
}

// auditExporter sends audit events as OTLP log records. It is the only processor of its provider: the audit log has the queue, and counts
// what could not be sent, which a batch processor of the library does not report.
type auditExporter struct {
	*otlploghttp.Exporter

	logger  otellog.Logger
	records []sdklog.Record
}

var _ sdklog.Processor = (*auditExporter)(nil)

func newAuditExporter(ctx context.Context, cfg config) (*auditExporter, error) {
	to, err := url.Parse(cfg.otlp)
	if err != nil {
		return nil, err
	}
	exporter, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(to.JoinPath("v1", "logs").String()))
	if err != nil {
		return nil, err
	}
	about, err := newResource(ctx, cfg.mode)
	if err != nil {
		return nil, err
	}
	x := &auditExporter{Exporter: exporter}
	x.logger = sdklog.NewLoggerProvider(sdklog.WithResource(about), sdklog.WithProcessor(x)).Logger("github.com/flux-resourceset/flux-resourceset/server/audit")
	return x, nil
}

// Enabled implements sdklog.Processor.
func (x *auditExporter) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements sdklog.Processor.
func (x *auditExporter) OnEmit(_ context.Context, r *sdklog.Record) error {
	x.records = append(x.records, r.Clone())
	return nil
}

// export sends events: their fields are attributes.
func (x *auditExporter) export(ctx context.Context, events []server.AuditEvent) error {
	x.records = x.records[:0]
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return err
		}
		delete(fields, "time")
		delete(fields, "type")
		var r otellog.Record
		r.SetTimestamp(e.Time)
		r.SetEventName(e.Type)
		r.SetBody(attribute.StringValue(e.Type))
		r.SetSeverity(otellog.SeverityInfo)
		if e.Decision != server.AuditAllowed {
			r.SetSeverity(otellog.SeverityWarn)
		}
		r.AddAttributes(attributesOf("", fields)...)
		x.logger.Emit(ctx, r)
	}
	return x.Export(ctx, x.records)
}

// attributesOf returns the fields of an event as attributes; actor.name is that of the actor.
func attributesOf(prefix string, fields map[string]any) (out []attribute.KeyValue) {
	for name, field := range fields {
		switch name = prefix + name; field := field.(type) {
		case string:
			out = append(out, attribute.String(name, field))
		case float64:
			out = append(out, attribute.Int64(name, int64(field)))
		case []any:
			var list []string
			for _, item := range field {
				list = append(list, fmt.Sprint(item))
			}
			out = append(out, attribute.StringSlice(name, list))
		case map[string]any:
			out = append(out, attributesOf(name+".", field)...)
		default:
			out = append(out, attribute.String(name, fmt.Sprint(field)))
		}
	}
	return out
}
