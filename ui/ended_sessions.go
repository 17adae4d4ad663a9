package ui

import (
	"context"
	"maps"
	"sync"
	"time"
)

// EndedSessions stores the ids of signed-out sessions for all processes; see store.Store. EndSession keeps an id until the given time,
// when the session would have expired anyway.
type EndedSessions interface {
	EndSession(ctx context.Context, id string, until time.Time) error
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// localEndedSessions holds the sessions that were ended in this process, with their expiry. They stay ended while the store fails.
type localEndedSessions struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (e *localEndedSessions) add(id string, until, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.until == nil {
		e.until = map[string]time.Time{}
	}
	maps.DeleteFunc(e.until, func(_ string, until time.Time) bool { return until.Before(now) })
	e.until[id] = until
}

func (e *localEndedSessions) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.until[id]
	return ok
}
