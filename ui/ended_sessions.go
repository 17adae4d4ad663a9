package ui

import (
	"context"
	"maps"
	"sync"
	"time"
)

// EndedSessions is what all processes know of sessions that were ended before their time: see store.Sessions.
type EndedSessions interface {
	EndSession(ctx context.Context, id string, until time.Time) error
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// sessionEndedTimeout is how long a page waits for the store's word on its session.
const sessionEndedTimeout = time.Second

// localEndedSessions are the sessions that were ended in this process, and when they would have ended by themselves. It counts while the
// store does not answer.
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

// end ends a session in every process. Whatever copy of its cookie there is, pages ask for a token from then on.
func (p *Page) endSession(ctx context.Context, s session) error {
	until := s.Started.Add(sessionMax)
	p.ended.add(s.ID, until, p.cfg.Now())
	if p.cfg.EndedSessions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout) // who signs out may close the browser
	defer cancel()
	return p.cfg.EndedSessions.EndSession(ctx, s.ID, until)
}

// sessionEnded tells whether a session was ended. While the store does not answer, this process knows of its own only, as it knows of
// tokens: its pages are from memory then, too.
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
