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

// sessionEndedTimeout limits the wait for the store when a page checks its session.
const sessionEndedTimeout = time.Second

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

// endSession ends a session and all copies of its cookie, in every process.
func (p *Page) endSession(ctx context.Context, s session) error {
	until := s.Started.Add(sessionMax)
	p.ended.add(s.ID, until, p.cfg.Now())
	if p.cfg.EndedSessions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout) // the browser may be closed at once
	defer cancel()
	return p.cfg.EndedSessions.EndSession(ctx, s.ID, until)
}

// sessionEnded reports whether a session was ended. While the store fails, it knows only the sessions ended in this process, just as
// pages and tokens then come from memory.
func (p *Page) sessionEnded(ctx context.Context, s session) bool {
	if p.ended.has(s.ID) {
		return true
	}
	if p.cfg.EndedSessions == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, sessionEndedTimeout)
	defer cancel()
	ended, err := p.cfg.EndedSessions.SessionEnded(ctx, s.ID)
	return err == nil && ended
}
