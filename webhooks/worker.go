package webhooks

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	// takeoverAfter is the time after which any process delivers a revision, in place of the one that committed it.
	takeoverAfter = 15 * time.Second
	// otherProcessDelay is the additional wait of processes that did not make the last attempt.
	otherProcessDelay = 5 * time.Second
	// A cursor that moved over revisions without events is written after this time, or this many revisions.
	writeInterval  = time.Minute
	writeRevisions = 100
	// rewriteInterval keeps the row of a cursor that does not move among the recent rows, which the table keeps.
	rewriteInterval = 30 * time.Minute
	errorWait       = time.Second
)

// worker delivers the events of one webhook, one request at a time.
type worker struct {
	d       *Deliverer
	id      string
	webhook atomic.Pointer[fleet.Webhook]
	wake    chan struct{}      // has an item when the State or the table changed
	remove  context.CancelFunc // ends requests: the webhook was deleted
	removed context.Context    //nolint:containedctx // the life of the worker
	sending chan struct{}      // holds an item during a request

	failing atomic.Bool // an error of the store was logged, and it did not succeed since

	mu        sync.Mutex
	tableRead bool           // the table was read once, so that a missing row is a lost one
	stored    *cursor        // the newest row of another process, or from before the start
	storedAt  time.Time      // time of the newest row
	current   *cursor        // nil: it has not begun
	skipTo    fleet.Revision // the cursor was lost: revisions up to this one are reported as a gap; 0: none
	changedAt time.Time      // time of the last progress of current, by the clock of this process
	written   *cursor        // nil: current was not written
	writtenAt time.Time
}

// run delivers until the context ends or the webhook is deleted.
func (w *worker) run(ctx context.Context) {
	for {
		wait := w.step(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-w.removed.Done():
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil || w.removed.Err() != nil {
			return
		}
	}
}

// notify wakes the worker.
func (w *worker) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// observe merges a row of the table into the cursor. Rows that are not newer than the last one are ignored.
func (w *worker) observe(r clusterstatus.Row) {
	c, ok := parseCursor(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || r.ObservedAt.Before(w.storedAt) { // rows of two processes may have the same time
		return
	}
	w.storedAt = r.ObservedAt
	if c.Writer == w.d.process {
		return
	}
	w.stored = &c
	if w.current == nil || !w.current.matches(w.webhook.Load()) || !c.matches(w.webhook.Load()) {
		return
	}
	switch same := c.Revision == w.current.Revision && c.Part == w.current.Part; {
	case w.current.ahead(&c):
		w.written = nil // write this one again
	case !same || c.Attempts != w.current.Attempts || c.Writer != w.current.Writer:
		w.current, w.changedAt, w.skipTo = &c, w.d.cfg.Now(), 0
		w.written, w.writtenAt = &c, w.d.cfg.Now()
	}
}

// begin returns the cursor of the webhook, and creates one if there is none. It is not ok until the table was read.
func (w *worker) begin(ctx context.Context, hook *fleet.Webhook, st *fleet.State) (c cursor, skipTo fleet.Revision, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.tableRead {
		return c, 0, false
	}
	if w.current != nil && w.current.matches(hook) {
		return *w.current, w.skipTo, true
	}
	now := w.d.cfg.Now()
	if w.stored != nil && w.stored.matches(hook) {
		first := *w.stored
		w.current, w.changedAt, w.written, w.writtenAt = &first, w.storedAt, w.stored, w.storedAt
		if now.Before(w.storedAt) {
			w.changedAt = now
		}
		return first, w.skipTo, true
	}
	if w.stored == nil && w.current == nil { // else it is a replay, or another webhook with this id
		var err error
		if skipTo, err = w.d.endOfLostRevisions(ctx, hook, st, now); err != nil {
			w.logStoreError(ctx, err)
			return c, 0, false
		}
	}
	first := cursor{After: hook.After, Replays: hook.Replays, Revision: hook.After, Writer: w.d.process}
	w.current, w.skipTo, w.changedAt, w.written = &first, skipTo, now, nil
	return first, skipTo, true
}

// step makes at most one request, and returns the time after which there may be more to do.
func (w *worker) step(ctx context.Context) time.Duration {
	for ctx.Err() == nil && w.removed.Err() == nil {
		hook, st := w.webhook.Load(), w.d.cfg.Replica.State()
		if st == nil || hook.Suspended || !hook.Known() || w.d.cfg.Replica.Status().QuarantineReason != "" || !w.d.cfg.Replica.MayAct() {
			return w.d.idle
		}
		c, skipTo, ok := w.begin(ctx, hook, st)
		if !ok {
			return errorWait
		}
		before := c
		next, err := w.d.next(w.removed, hook, &c, skipTo, st.Head())
		if errors.Is(err, errReplaced) {
			if w.adoptStored(hook, &before) {
				continue
			}
			head := st.Head()
			next, err = &delivery{event: w.d.gapEvent(gapHistory, before.Revision, head.Revision, head), at: st.At(), revision: head.Revision, commit: head.ID}, nil
		}
		if err != nil {
			w.logStoreError(ctx, err)
			return errorWait
		}
		w.failing.Store(false)
		if c.Revision != before.Revision || c.Commit != before.Commit {
			c.Attempts, c.NextAt, c.Wait = 0, nil, 0
			w.save(ctx, before, c, false)
		}
		if next == nil {
			w.save(ctx, c, c, false)
			return w.d.idle
		}
		if wait := w.wait(&c, next); wait > 0 {
			w.save(ctx, c, c, false)
			return min(wait, w.d.idle)
		}
		if !w.attempt(ctx, hook, c, next) {
			return 0
		}
	}
	return 0
}

// wait returns the time until this process may attempt the next delivery.
func (w *worker) wait(c *cursor, next *delivery) time.Duration {
	w.mu.Lock()
	changedAt := w.changedAt
	w.mu.Unlock()
	now, own := w.d.cfg.Now(), c.Writer == w.d.process
	if c.Attempts > 0 && c.NextAt != nil {
		due := *c.NextAt
		if local := changedAt.Add(c.Wait); local.Before(due) { // the clock of the other process may be ahead
			due = local
		}
		if !own && !w.d.cfg.Alone {
			due = due.Add(otherProcessDelay + rand.N(otherProcessDelay/2))
		}
		if now.Before(due) {
			return due.Sub(now)
		}
	}
	if w.d.cfg.Alone || next.owned {
		return 0
	}
	wait := next.at.Add(takeoverAfter).Sub(now)
	if !own {
		wait = max(wait, changedAt.Add(takeoverAfter).Sub(now))
	}
	return min(wait, takeoverAfter) // the clock of the other process may be ahead
}

// attempt makes a request and stores the result; false: the webhook was deleted or suspended meanwhile.
func (w *worker) attempt(ctx context.Context, hook *fleet.Webhook, c cursor, next *delivery) bool {
	m, err := w.d.message(hook, next.event)
	if err != nil {
		w.logStoreError(ctx, err)
		return false
	}
	r, ok := w.request(ctx, hook, m)
	if !ok {
		return false
	}
	before, now := c, w.d.cfg.Now().UTC()
	c.Status, c.Error, c.At, c.Writer = r.Status, r.Error, &now, w.d.process
	if r.Error == "" {
		w.d.delivered.Add(1)
		c.Revision, c.Commit, c.Part, c.Attempts, c.NextAt, c.Wait = next.revision, next.commit, next.part, 0, nil, 0
		w.save(ctx, before, c, true)
		return true
	}
	w.d.failed.Add(1)
	c.Attempts++
	c.Wait = retryWait(c.Attempts, r)
	at := now.Add(c.Wait)
	c.NextAt = &at
	w.d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a webhook cannot be delivered",
		slog.String("webhook", w.id), slog.String("event", next.event.ID), slog.Int("attempts", c.Attempts), slog.String("error", r.Error), slog.Time("next_at", at))
	w.save(ctx, before, c, true)
	if r.Status == http.StatusGone {
		w.suspend(ctx, hook)
	}
	return true
}

// request sends a message when this worker and the process have no other request under way; false: the worker ends.
func (w *worker) request(ctx context.Context, hook *fleet.Webhook, m message) (Result, bool) {
	for _, slot := range []chan struct{}{w.sending, w.d.slots} {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			return Result{}, false
		case <-w.removed.Done():
			return Result{}, false
		}
	}
	r := w.d.send(w.removed, hook, m)
	return r, w.removed.Err() == nil
}

// save makes c the cursor, unless a cursor with more progress was read since before was, and writes it to the table if it is due.
func (w *worker) save(ctx context.Context, before, c cursor, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.d.cfg.Now()
	if w.current == nil || !w.current.matches(w.webhook.Load()) || !c.matches(w.webhook.Load()) {
		return // replayed or replaced meanwhile
	}
	if w.current.Revision == before.Revision && w.current.Part == before.Part || !w.current.ahead(&c) {
		if c.ahead(w.current) || c.Attempts != w.current.Attempts {
			w.changedAt = now
		}
		if w.skipTo <= c.Revision {
			w.skipTo = 0
		}
		w.current = &c
	}
	cur := *w.current
	due := urgent || w.written == nil || now.Sub(w.writtenAt) >= rewriteInterval ||
		cur.Revision != w.written.Revision && (now.Sub(w.writtenAt) >= writeInterval || cur.Revision >= w.written.Revision+writeRevisions || cur.Revision < w.written.Revision)
	if !due || w.d.cfg.Table == nil {
		return
	}
	cur.Writer = w.d.process
	at := now.Truncate(time.Microsecond)
	if !at.After(w.storedAt) {
		at = w.storedAt.Add(time.Microsecond)
	}
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), tableTimeout)
	defer cancel()
	if err := w.d.cfg.Table.Put(write, []clusterstatus.Row{cur.row(w.id, at)}); err != nil {
		w.logStoreError(ctx, err)
		return
	}
	w.current, w.written, w.writtenAt, w.storedAt = &cur, &cur, now, at
}

// adoptStored replaces a cursor of another history by the cursor that another process stored, if there is one.
func (w *worker) adoptStored(hook *fleet.Webhook, invalid *cursor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stored
	w.stored = nil
	if s == nil || !s.matches(hook) || s.Revision == invalid.Revision && s.Commit == invalid.Commit {
		return false
	}
	adopted := *s
	w.current, w.changedAt, w.written = &adopted, w.d.cfg.Now(), nil
	return true
}

// logStoreError logs an error of the store, once until the next success.
func (w *worker) logStoreError(ctx context.Context, err error) {
	if ctx.Err() == nil && w.removed.Err() == nil && !errors.Is(err, errMoved) && !w.failing.Swap(true) {
		w.d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a webhook waits for the store", slog.String("webhook", w.id), slog.Any("error", err))
	}
}

// errUnchanged ends an update that has nothing to do.
var errUnchanged = errors.New("the webhook is suspended or was changed")

// suspend suspends a webhook whose receiver answered 410 Gone.
func (w *worker) suspend(ctx context.Context, hook *fleet.Webhook) {
	meta := store.Meta{Actor: actorOf(w.id), Reason: "the receiver answered 410 Gone"}
	_, err := w.d.cfg.Replica.Update(context.WithoutCancel(ctx), meta, func(tx *fleet.Tx) error {
		doc, ok := tx.Base().Get(fleet.KindWebhook, w.id)
		if !ok || doc.Webhook().Suspended || doc.Webhook().URL != hook.URL || doc.Webhook().After != hook.After {
			return errUnchanged
		}
		return tx.SuspendWebhook(w.id)
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		w.d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a webhook whose receiver answered 410 Gone cannot be suspended", slog.String("webhook", w.id), slog.Any("error", err))
	}
}
