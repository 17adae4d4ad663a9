package ui

import (
	"context"
	"errors"
	"sync"
)

const (
	maxPages   = 4  // concurrent pages of a session
	maxWaiting = 16 // further pages of the session that wait; more are refused
)

// errTooManyPages is the error for a session over its limit; its status is 429.
var errTooManyPages = errors.New("too many concurrent pages in this session")

// sessionLimits limits the concurrent pages of each session, so that one session cannot use all API requests.
type sessionLimits struct {
	mu   sync.Mutex
	each map[string]*sessionQueue
}

// sessionQueue counts the pages of one session.
type sessionQueue struct {
	turns chan struct{}
	here  int // pages that are being made or wait
}

// acquire waits for a slot of the session. The caller must call release. It fails with errTooManyPages or the context's error.
func (r *sessionLimits) acquire(ctx context.Context, session string) (release func(), err error) {
	r.mu.Lock()
	one := r.each[session]
	if one == nil {
		one = &sessionQueue{turns: make(chan struct{}, maxPages)}
		r.each[session] = one
	}
	if one.here == maxPages+maxWaiting {
		r.mu.Unlock()
		return nil, errTooManyPages
	}
	one.here++
	r.mu.Unlock()
	select {
	case one.turns <- struct{}{}:
		return func() { <-one.turns; r.release(session, one) }, nil
	case <-ctx.Done():
		r.release(session, one)
		return nil, ctx.Err()
	}
}

// release removes a page from its session, and the session after its last page.
func (r *sessionLimits) release(session string, one *sessionQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.here--; one.here == 0 {
		delete(r.each, session)
	}
}
