package sqlite

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// barrier is [sqlstore.Dialect.Barrier]. A commit holds the write lock, so no commit is under way once barrier has it.
func (s *Store) barrier(ctx context.Context, doing string) (now sqlstore.HeadRow, err error) {
	h, err := s.handles(ctx)
	if err != nil {
		return now, err
	}
	tx, err := begin(ctx, h.writer)
	if err != nil {
		return now, translate(ctx, doing, err)
	}
	now, err = readHead(ctx, tx)
	tx.end()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = h.intact()
	}
	return now, translate(ctx, doing, err)
}
