package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var _ store.Sessions = (*Store)(nil)

// EndSession implements [store.Sessions].
func (s *Store) EndSession(ctx context.Context, id string, until time.Time) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	return s.transact(ctx, "ending a session", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlstore.TidySessions, time.Now().UnixMicro()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlstore.EndSession, id, until.UnixMicro())
		return err
	})
}
