package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Barrier implements [store.Store]. A commit holds the lock of the head from before its COMMIT is sent until the server has
// ended it. So once Barrier has that lock, no commit sent earlier can land. The lock is shared, so concurrent barriers do not
// wait for each other. The statement waits for the lock and then reads the current row.
func (s *Store) Barrier(ctx context.Context) (fleet.Head, error) {
	if s.cfg.ReadOnly {
		return fleet.Head{}, store.ErrReadOnly
	}
	const doing = "confirming the head"
	inner, cancel := s.within(ctx, barrierTimeout)
	defer cancel()
	ses, err := s.start(inner, func(ctx context.Context, c *session) (err error) {
		if c.tx, err = c.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin(writing, barrierTimeout)}); err != nil {
			c.tx = nil
		}
		return err
	})
	if err != nil {
		return fleet.Head{}, s.translate(ctx, doing, err)
	}
	now, err := sqlstore.ReadHead(inner, reading{ses.tx}, selectHead+` FOR SHARE OF h`, newestVersion(), s.name)
	if err = ses.end(err); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fleet.Head{}, s.translate(ctx, doing, err)
	}
	return now.Free()
}
