package store

import (
	"context"
	"errors"
	"time"
)

// Sessions is a Store that records which sessions of the fleet page were ended early, for all processes. They are not part of
// the fleet: otherwise each sign-out would be a revision without changes.
type Sessions interface {
	Store
	// EndSession records that a session has ended. until is the session's expiry: after that the record is obsolete and may be
	// removed. ErrReadOnly as for Commit.
	EndSession(ctx context.Context, id string, until time.Time) error
	// SessionEnded reports whether any process called EndSession for the session.
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
