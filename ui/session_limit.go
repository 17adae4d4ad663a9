package ui

import (
	"context"
	"errors"
	"sync"
)

const (
	maxPages   = 4  // of one session that are being made
	maxWaiting = 16 // of it that wait for those; more are refused
)

// errTooManyPages: somebody asks for more pages at once than anybody looks at.
var errTooManyPages = errors.New("too many pages of this session are asked for at once")

// sessionLimits keeps one session from taking all the apiSlots that there are for requests to the API.
type sessionLimits struct {
	mu   sync.Mutex
	each map[string]*sessionQueue
}

type sessionQueue struct {
	turns chan struct{}
	here  int // pages that are being made or wait
}

// enter waits for the session's turn. Who gets one leaves.
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

func (r *sessionLimits) release(session string, one *sessionQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.here--; one.here == 0 {
		delete(r.each, session)
	}
}
