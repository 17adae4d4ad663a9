package sqlite

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// lockedTimeout is for a commit that keeps all others from committing.
const lockedTimeout = writerWait + settleTimeout

// CommitLocked implements [store.Store]. A database in memory has one connection, so reads would be impossible during the
// transaction, and one process, whose writers take turns anyway.
func (s *Store) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	if !s.cfg.Memory {
		return s.Store.CommitLocked(ctx, id, next)
	}
	for {
		head, err := s.Head(ctx)
		if err != nil {
			return err
		}
		c, err := next(ctx, head)
		if err != nil {
			return err
		}
		if err := s.Commit(ctx, head, c); !errors.Is(err, store.ErrStale) {
			return err
		}
	}
}
