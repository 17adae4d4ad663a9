package sqlite

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqllog"
)

var _ store.Sessions = (*Store)(nil)

// EndSession implements [store.Sessions].
func (s *Store) EndSession(ctx context.Context, id string, until time.Time) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	return s.transact(ctx, "ending a session", uuid.Nil, func(tx *transaction) error {
		if _, err := tx.ExecContext(ctx, sqllog.TidySessions, time.Now().UnixMicro()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, sqllog.EndSession, id, until.UnixMicro())
		return err
	})
}

// SessionEnded implements [store.Sessions].
func (s *Store) SessionEnded(ctx context.Context, id string) (ended bool, err error) {
	h, err := s.handles(ctx)
	if err != nil {
		return false, err
	}
	err = h.reader.QueryRowContext(ctx, sqllog.SessionEnded, id).Scan(&ended)
	return ended, translate(ctx, "looking a session up", err)
}
