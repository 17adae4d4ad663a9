package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNoCommits is that the store answers, and the last commit failed for a reason that is not the caller's.
var ErrNoCommits = errors.New("the store answers, but changes cannot be committed")

// Healthy returns nil if a State is loaded, it is the store's own, and the store answers now. Answering polls requires only the
// first: see Status.
//
// It may be called at any rate. Concurrent callers share one query, and there are at most ten queries a second. Every caller
// receives a result that was obtained after its call.
func (r *Replica) Healthy(ctx context.Context) error {
	s := r.Status()
	if !s.Loaded {
		return errors.Join(fmt.Errorf("%w: the fleet is not loaded yet", ErrUnavailable), s.LastError)
	}
	if s.QuarantineReason != "" {
		return fmt.Errorf("%w: %s", ErrReplaced, s.QuarantineReason)
	}
	next := r.health.join(func(next *examination) { go r.examine(context.WithoutCancel(ctx), next) })
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// sharedHealth is the health check that concurrent callers of Healthy share.
type sharedHealth struct {
	mu   sync.Mutex
	next *examination // has not begun, and is for new callers
	last *examination // has begun or is over
}

// examination is one question whether the store is well.
type examination struct {
	before *examination
	done   chan struct{}
	began  time.Time
	err    error // once done is closed
}

// join returns the next examination, and hands it to start when it is a new one.
func (h *sharedHealth) join(start func(*examination)) *examination {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &examination{before: h.last, done: make(chan struct{})}
		start(h.next)
	}
	return h.next
}

// begin closes an examination to later callers.
func (h *sharedHealth) begin(e *examination) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.began, e.before, h.last, h.next = time.Now(), nil, e, nil
}

// examineEvery is the time between two questions, unless following the store asks more often anyway.
const examineEvery = 100 * time.Millisecond

// examine asks the store, when it is time.
func (r *Replica) examine(ctx context.Context, e *examination) {
	if e.before != nil {
		<-e.before.done
		time.Sleep(min(r.cfg.Interval, examineEvery) - time.Since(e.before.began))
	}
	r.health.begin(e)
	defer close(e.done)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.QueryTimeout)
	defer cancel()
	if err := r.cfg.Store.Ping(ctx); err != nil {
		e.err = unavailable(err)
		return
	}
	if last := r.Status().WriteError; last != nil {
		e.err = r.probe(ctx)
	}
}

// probe finds out whether commits, the last of which failed, are possible again.
func (r *Replica) probe(ctx context.Context) error {
	err := r.cfg.Store.Probe(ctx)
	if errors.Is(err, ErrReplaced) {
		return err // it is quarantined, which the follower will detect
	}
	r.setStatus(func(s *Status) { s.WriteError = err })
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoCommits, err)
	}
	return nil
}
