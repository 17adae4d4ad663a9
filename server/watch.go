package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Limits of Config.WatchStreams.
const (
	DefaultWatchStreams = admission.DefaultWatches
	MaxWatchStreams     = 6000 // of 8,192 connections
)

// maxWatchWait is the longest time for which a long poll waits.
const maxWatchWait = 60 * time.Second

// isWatch reports whether a request watches revisions: it waits for revisions after a position, or requests a stream.
func isWatch(r *request) bool {
	return r.op.ID == "ListRevisions" && (r.QueryParams().Has("after") || acceptsEvents(r.Request()))
}

// revisionWatch is one watch: an event stream, or a long poll.
type revisionWatch struct {
	server *Server
	*request
	filter  revisionFilter
	limit   int              // the largest number of revisions in the answer to a long poll
	at      fleet.Head       // the last revision that was examined; its ID is Nil if it is unknown
	pending []*revisionEvent // after the position, read by start
	checked fleet.Head       // of the State in which the credential was checked last
}

// revisionFilter selects revisions; the zero value of a field does not filter.
type revisionFilter struct {
	kind      fleet.Kind
	id, actor string
}

// watchRevisions answers a watch. Errors that are known before the answer begins have their status; later ones are events.
func (s *Server) watchRevisions(c echo.Context, p api.ListRevisionsParams) error {
	w := &revisionWatch{
		server: s, request: requestOf(c), filter: revisionFilter{kind: fleet.Kind(value(p.Kind)), id: value(p.ID), actor: value(p.Actor)},
		limit: watchPage,
	}
	if p.Limit != nil {
		w.limit = min(*p.Limit, watchPage)
	}
	stream := acceptsEvents(c.Request())
	wait, err := watchWait(p, stream)
	if err != nil {
		return err
	}
	if !stream {
		p.LastEventID = nil
	}
	if err := w.start(p); err != nil {
		return err
	}
	if err := http.NewResponseController(c.Response()).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err // the read timeout would end the request
	}
	head := c.Request().Method == http.MethodHead
	switch {
	case stream && head:
		w.streamHeader()
		return nil
	case stream:
		return w.stream()
	case head:
		wait = 0
	}
	return w.poll(wait)
}

// watchWait validates the parameters of a watch, and returns the time for which a long poll waits.
func watchWait(p api.ListRevisionsParams, stream bool) (wait time.Duration, err error) {
	var problems []fleet.Problem
	refuse := func(name, reason string) {
		problems = append(problems, fleet.Problem{Detail: "query parameter " + name + ": " + reason})
	}
	const notWithWatch = "cannot be combined with a watch, which returns every revision after its position; filter by kind, id and actor"
	for name, set := range map[string]bool{"since": p.Since != nil, "until": p.Until != nil, "cursor": p.Cursor != nil} {
		if set {
			refuse(name, notWithWatch)
		}
	}
	if p.ID != nil && p.Kind == nil {
		refuse("id", "requires kind")
	}
	if p.Wait != nil {
		if wait, err = time.ParseDuration(*p.Wait); err != nil || wait > maxWatchWait {
			refuse("wait", "must be a time of at most "+strconv.Itoa(int(maxWatchWait.Seconds()))+"s, such as 30s")
		}
		if stream {
			refuse("wait", "cannot be combined with an event stream, which always waits")
		}
	}
	return wait, fleet.Invalid(problems)
}

// start determines the position of a watch.
func (w *revisionWatch) start(p api.ListRevisionsParams) error {
	st, err := w.server.state(w.request)
	if err != nil {
		return err
	}
	if st.Limited() {
		return errNeedsUnlimitedRead
	}
	w.checked = st.Head()
	position := p.After
	if p.LastEventID != nil {
		position = p.LastEventID
	}
	if position == nil {
		w.at = st.Head()
		return nil
	}
	if w.at, err = parsePosition(*position); err != nil {
		return err
	}
	if w.at.Revision > st.Revision() {
		newest := st.Head()
		st, err = w.server.stateOf(w.request, int64(w.at.Revision)) // another process may have committed it a moment ago
		if problem, ok := errors.AsType[*fleet.Error](err); ok && problem.Code == fleet.CodeNotFound && w.at.ID != uuid.Nil {
			return divergedError(w.at, newest)
		}
		if err != nil {
			return err
		}
	}
	head := st.Head()
	switch {
	case w.at.Revision == head.Revision && w.at.ID == uuid.Nil:
		w.at = head
	case w.at != head: // the error, if there is one, must come before the answer
		w.pending, err = w.after(w.Request().Context(), head)
	}
	return err
}

// after returns the revisions after the position, and charges the principal for the time of reading them.
func (w *revisionWatch) after(ctx context.Context, head fleet.Head) ([]*revisionEvent, error) {
	began := time.Now()
	defer w.job.ChargeReading(began)
	if w.at.Revision == head.Revision {
		return nil, divergedError(w.at, head)
	}
	return w.server.feed.after(ctx, w.at, head)
}

// parsePosition parses REVISION or REVISION:COMMIT-ID.
func parsePosition(text string) (at fleet.Head, err error) {
	number, id, hasID := strings.Cut(text, ":")
	revision, err := strconv.ParseInt(number, 10, 64)
	if err == nil && hasID {
		at.ID, err = uuid.Parse(id)
	}
	if err != nil || revision < 0 {
		return fleet.Head{}, fleet.Invalid([]fleet.Problem{{Detail: "query parameter after: must be a revision, or a revision and its commit id: 42:5f1c2ab9-6f0e-4f0e-9a43-4a0c6ab1c0de"}})
	}
	at.Revision = fleet.Revision(revision)
	return at, nil
}

// formatPosition is the inverse of parsePosition.
func formatPosition(at fleet.Head) string {
	if at.ID == uuid.Nil {
		return strconv.FormatInt(int64(at.Revision), 10)
	}
	return store.FormatHead(at)
}

// next returns the next revisions that the filter selects, and advances the position past them. If there are none it returns a
// channel that is closed with the next State. With each new State it checks the credential.
func (w *revisionWatch) next(ctx context.Context) ([]*revisionEvent, <-chan struct{}, error) {
	for {
		st, replaced := w.server.cfg.Replica.Published()
		head := st.Head()
		if head != w.checked {
			caller, refusal := w.server.authorize(w.request, st)
			if refusal != nil {
				return nil, nil, w.server.reportRefusal(w.request, refusal)
			}
			if s := w.server; caller.Subject != nil && !st.Rights(caller.Subject, s.cfg.Now()).Everywhere(fleet.RightRead) {
				return nil, nil, errNeedsUnlimitedRead
			}
			w.principal, w.checked = caller, head
		}
		if w.at == head {
			return nil, replaced, nil
		}
		events := w.pending
		if w.pending = nil; events == nil {
			var err error
			if events, err = w.after(ctx, head); err != nil {
				return nil, nil, err
			}
		}
		w.at = events[len(events)-1].head
		events, err := w.selected(ctx, events)
		if len(events) > 0 || err != nil {
			return events, nil, err
		}
	}
}

// selected returns the revisions that the filter selects.
func (w *revisionWatch) selected(ctx context.Context, events []*revisionEvent) ([]*revisionEvent, error) {
	if w.filter == (revisionFilter{}) {
		return events, nil
	}
	var unknown []fleet.Revision // the first changes do not match, and there are more
	matches := map[fleet.Revision]bool{}
	for _, e := range events {
		match, known := w.filter.match(e.summary)
		matches[e.head.Revision] = match
		if !known {
			unknown = append(unknown, e.head.Revision)
		}
	}
	if len(unknown) > 0 {
		found, err := w.server.cfg.History.Summaries(ctx, store.HistoryQuery{Kind: w.filter.kind, ID: w.filter.id, Among: unknown, Limit: len(unknown)}, 1)
		if err != nil {
			return nil, err
		}
		for _, sum := range found {
			matches[sum.Revision] = true
		}
	}
	var out []*revisionEvent
	for _, e := range events {
		if matches[e.head.Revision] {
			out = append(out, e)
		}
	}
	return out, nil
}

// match reports whether the filter selects a revision. It is not known if the summary does not have all changes.
func (f revisionFilter) match(sum store.Summary) (match, known bool) {
	if f.actor != "" && f.actor != sum.Actor {
		return false, true
	}
	if f.kind == "" {
		return true, true
	}
	for _, ch := range sum.First {
		if ch.Kind == f.kind && (f.id == "" || f.id == ch.ID) {
			return true, true
		}
	}
	return false, sum.Count <= len(sum.First)
}

// poll answers a long poll: as soon as there are revisions, and after wait with none.
func (w *revisionWatch) poll(wait time.Duration) error {
	_ = http.NewResponseController(w.Response()).SetWriteDeadline(time.Now().Add(wait + streamWriteTimeout)) // fails when the client is gone
	ctx := w.Request().Context()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for over := wait == 0; ; {
		events, replaced, err := w.next(ctx)
		if err != nil {
			return err
		}
		if len(events) > w.limit {
			events = events[:w.limit]
			w.at = events[w.limit-1].head
		}
		if len(events) > 0 || over {
			return w.answer(events)
		}
		w.state = nil // it may be replaced many times meanwhile, and would stay in memory
		select {
		case <-replaced:
		case <-timer.C:
			over = true
		case <-draining(ctx):
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answer writes the answer to a long poll.
func (w *revisionWatch) answer(events []*revisionEvent) error {
	if err := w.server.authenticate(w.request); err != nil {
		return err
	}
	if _, err := w.server.state(w.request); err != nil {
		return err
	}
	response.LinkNext(w.request, url.Values{"after": {formatPosition(w.at)}})
	w.Response().Header().Set(echo.HeaderContentType, "application/json")
	var body bytes.Buffer
	body.WriteByte('[')
	for i, e := range events {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(e.body)
	}
	body.WriteString("]\n")
	_, err := w.Response().Write(body.Bytes())
	return err
}
