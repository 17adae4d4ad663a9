package ui

import (
	"context"
	"errors"
	"sync"
)

const (
	pagesAtOnce  = 4  // of one session that are being made
	pagesWaiting = 16 // of it that wait for those; more are refused
)

// errTooMany: somebody asks for more pages at once than anybody looks at.
var errTooMany = errors.New("too many pages of this session are asked for at once")

// readers keeps one session from taking all the places that there are for requests to the API.
type readers struct {
	mu   sync.Mutex
	each map[string]*reader
}

type reader struct {
	turns chan struct{}
	here  int // pages that are being made or wait
}

// enter waits for the session's turn. Who gets one leaves.
func (r *readers) enter(ctx context.Context, session string) (leave func(), err error) {
	r.mu.Lock()
	one := r.each[session]
	if one == nil {
		one = &reader{turns: make(chan struct{}, pagesAtOnce)}
		r.each[session] = one
	}
	if one.here == pagesAtOnce+pagesWaiting {
		r.mu.Unlock()
		return nil, errTooMany
	}
	one.here++
	r.mu.Unlock()
	select {
	case one.turns <- struct{}{}:
		return func() { <-one.turns; r.gone(session, one) }, nil
	case <-ctx.Done():
		r.gone(session, one)
		return nil, ctx.Err()
	}
}

func (r *readers) gone(session string, one *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.here--; one.here == 0 {
		delete(r.each, session)
	}
}
