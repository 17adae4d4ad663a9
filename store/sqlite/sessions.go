package sqlite

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var _ store.Sessions = (*Store)(nil)

// EndSession implements [store.Sessions].
func (s *Store) EndSession(ctx context.Context, id string, until time.Time) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	return s.transact(ctx, "ending a session", uuid.Nil, func(tx *transaction) error {
		if _, err := tx.ExecContext(ctx, sqlstore.TidySessions, time.Now().UnixMicro()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, sqlstore.EndSession, id, until.UnixMicro())
		return err
	})
}
