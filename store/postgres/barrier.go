package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Barrier implements [store.Store]. A commit holds the head's lock from before its COMMIT is sent until the server has
// ended it, so once we have that lock nothing that was sent before can land any more. Sharing it, those who only ask do
// not wait for each other; the statement waits and then reads the row as it is by then.
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
	now, err := lockHead(inner, ses.tx, s.name)
	if err = ses.end(err); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fleet.Head{}, s.translate(ctx, doing, err)
	}
	return now.Free()
}
