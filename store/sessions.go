package store

import (
	"context"
	"errors"
	"time"
)

// Sessions is a Store that keeps which sessions of the fleet page were ended before their time, for all processes. They are no
// part of the fleet: a commit for each sign-out would be a revision that changes nothing.
type Sessions interface {
	Store
	// EndSession notes that a session has ended. until is when it would end by itself: after that nobody needs the note, and it
	// may be removed. ErrReadOnly as for Commit.
	EndSession(ctx context.Context, id string, until time.Time) error
	// SessionEnded reports whether EndSession was called for a session, by whatever process.
	SessionEnded(ctx context.Context, id string) (bool, error)
}

var _ Sessions = (*Lazy)(nil)

var errNoSessions = errors.New("this store keeps no sessions")

// EndSession implements Sessions.
func (l *Lazy) EndSession(ctx context.Context, id string, until time.Time) error {
	_, err := with(ctx, l, func(s Store) (struct{}, error) {
		if keeps, ok := s.(Sessions); ok {
			return struct{}{}, keeps.EndSession(ctx, id, until)
		}
		return struct{}{}, errNoSessions
	})
	return err
}

// SessionEnded implements Sessions.
func (l *Lazy) SessionEnded(ctx context.Context, id string) (bool, error) {
	return with(ctx, l, func(s Store) (bool, error) {
		if keeps, ok := s.(Sessions); ok {
			return keeps.SessionEnded(ctx, id)
		}
		return false, errNoSessions
	})
}
