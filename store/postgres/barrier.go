package postgres

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// barrier is [sqlstore.Dialect.Barrier]. A commit holds the lock of the head from before its COMMIT is sent until the server has
// ended it. So once barrier has that lock, no commit sent earlier can land. The lock is shared, so concurrent barriers do not
// wait for each other. The statement waits for the lock and then reads the current row.
func (s *Store) barrier(ctx context.Context, doing string) (now sqlstore.HeadRow, err error) {
	if err := s.first.Wait(ctx); err != nil {
		return now, err
	}
	inner, cancel := s.within(ctx, barrierTimeout)
	defer cancel()
	ses, err := s.start(inner, func(ctx context.Context, c *session) error {
		return c.begin(ctx, writing, barrierTimeout)
	})
	if err != nil {
		return now, s.translate(ctx, doing, err)
	}
	now, err = sqlstore.ReadHead(inner, reading{ses.tx}, selectHead+` FOR SHARE OF h`, newestVersion(), s.name)
	if err = ses.end(err); err == nil {
		err = ctx.Err()
	}
	return now, s.translate(ctx, doing, err)
}
