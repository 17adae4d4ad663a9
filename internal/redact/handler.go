package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler that passes records on without the tokens of this service, in messages, keys, values and the texts of
// errors.
func (m *Masker) Handler(next slog.Handler) slog.Handler { return &handler{next, m} }

type handler struct {
	next   slog.Handler
	masker *Masker
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, h.masker.Tokens(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return &handler{h.next.WithAttrs(masked), h.masker}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.masker}
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	a.Key = h.masker.Tokens(a.Key)
	switch v := a.Value.Resolve(); v.Kind() { //nolint:exhaustive // numbers and times hold no token
	case slog.KindString:
		a.Value = slog.StringValue(h.masker.Tokens(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, member := range v.Group() {
			group = append(group, h.attr(member))
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		text := fmt.Sprint(v.Any())
		if masked := h.masker.Tokens(text); masked != text {
			a.Value = slog.StringValue(masked)
		}
	}
	return a
}
