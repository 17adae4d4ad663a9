package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	eventStreamType = "text/event-stream"
	watchHeartbeat  = 15 * time.Second
	maxStreamTime   = 15 * time.Minute
	// streamWriteTimeout is the time for a client to receive what was sent. It is longer than watchHeartbeat, because an expired
	// deadline resets an HTTP/2 stream that is idle, too.
	streamWriteTimeout = watchHeartbeat + 30*time.Second
)

// acceptsEvents reports whether a client requests an event stream.
func acceptsEvents(r *http.Request) bool {
	for _, accepted := range r.Header.Values(echo.HeaderAccept) {
		for one := range strings.SplitSeq(accepted, ",") {
			if name, params, err := mime.ParseMediaType(one); err == nil && name == eventStreamType && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// streamHeader begins the answer of a stream.
func (w *revisionWatch) streamHeader() {
	h := w.Response().Header()
	h.Set(echo.HeaderContentType, eventStreamType)
	h.Set("X-Accel-Buffering", "no") // nginx would collect the events
	w.Response().WriteHeader(http.StatusOK)
}

// stream sends revisions as events until the stream ends.
func (w *revisionWatch) stream() error {
	ctx := w.Request().Context()
	w.streamHeader()
	w.state = nil
	// Clients that lost their connections at the same time must not reconnect at the same time.
	if err := w.send(fmt.Appendf(nil, "retry: %d\nid: %s\n\n", 1000+rand.IntN(4000), formatPosition(w.at))); err != nil {
		return err
	}
	sent := w.at
	end := time.NewTimer(w.streamTime())
	defer end.Stop()
	heartbeat := time.NewTicker(watchHeartbeat)
	defer heartbeat.Stop()
	for {
		events, replaced, err := w.next(ctx)
		if err != nil {
			return w.endWith(err)
		}
		if len(events) > 0 {
			if err := w.send(eventText(events)); err != nil {
				return err
			}
			sent = w.at
			continue
		}
		select {
		case <-replaced:
		case <-heartbeat.C:
			w.checked = fleet.Head{} // the credential may have expired, or was revoked in a revision that has not arrived
			text := []byte(":\n\n")
			if w.at != sent { // so that a client that resumes does not begin before revisions that the filter omitted
				text, sent = []byte("id: "+formatPosition(w.at)+"\n\n"), w.at
			}
			if err := w.send(text); err != nil {
				return err
			}
		case <-end.C:
			w.checked = fleet.Head{}
			if _, _, err := w.next(ctx); err != nil {
				return w.endWith(err)
			}
			return nil
		case <-draining(ctx):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// streamTime returns the time after which a stream ends: the end of its credential, if that comes first.
func (w *revisionWatch) streamTime() time.Duration {
	limit := maxStreamTime - rand.N(maxStreamTime/10)
	expires := w.principal.Expires
	if w.principal.Managed != nil {
		expires, _ = w.principal.Managed.Until()
	}
	if expires.IsZero() {
		return limit
	}
	return max(0, min(limit, expires.Sub(w.server.cfg.Now())))
}

// eventText returns revisions as server-sent events.
func eventText(events []*revisionEvent) []byte {
	var text bytes.Buffer
	for _, e := range events {
		text.WriteString("id: " + formatPosition(e.head) + "\nevent: revision\ndata: ")
		text.Write(e.body)
		text.WriteString("\n\n")
	}
	return text.Bytes()
}

// endWith ends a stream with the event end, whose data is the problem that a new request would get.
func (w *revisionWatch) endWith(err error) error {
	if w.Request().Context().Err() != nil {
		return err
	}
	p := toPublic(w.request, err)
	if p.Status >= http.StatusInternalServerError {
		w.server.cfg.Logger.LogAttrs(w.Request().Context(), slog.LevelWarn, "a watch failed", slog.String("request_id", requestID(w.request)), slog.Any("error", err))
	}
	detail := w.server.masker.Tokens(p.Detail)
	body, encodingErr := json.Marshal(api.Problem{
		Type: "about:blank", Title: http.StatusText(p.Status), Status: p.Status, Detail: detail, Instance: w.Request().URL.Path,
		Error: p.Code, Message: detail, OldestRevision: int64(p.Oldest),
	})
	if encodingErr != nil {
		return encodingErr
	}
	return w.send(append(append([]byte("event: end\ndata: "), body...), "\n\n"...))
}

// send writes a part of a stream. It fails if the client does not receive it within streamWriteTimeout.
func (w *revisionWatch) send(text []byte) error {
	wire := http.NewResponseController(w.Response())
	if err := wire.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Response().Write(text); err != nil {
		return err
	}
	return wire.Flush()
}
