package sqlite

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// lockedTimeout is for a commit that keeps all others from committing.
const lockedTimeout = writerWait + settleTimeout

// CommitLocked implements [store.Store].
func (s *Store) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	switch {
	case s.cfg.ReadOnly:
		return store.ErrReadOnly
	case s.cfg.Memory:
		return s.commitAgain(ctx, next)
	}
	inner, cancel := context.WithTimeout(context.WithValue(ctx, insideKey{}, true), lockedTimeout)
	defer cancel()
	return s.transact(ctx, "committing with the lock held", id, func(tx *transaction) error {
		now, err := readHead(ctx, reading{tx})
		if err != nil {
			return err
		}
		c, err := next(inner, now.Head)
		if err != nil {
			return err
		}
		if err := backend.CheckCommit(now.Head, c); err != nil {
			return err
		}
		return write(inner, tx, now.Head, c)
	})
}

// commitAgain is CommitLocked for a database in memory. It has one connection, so reads would be impossible during the
// transaction, and one process, whose writers take turns anyway.
func (s *Store) commitAgain(ctx context.Context, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
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

// Probe implements [store.Store]. It rolls the test commit back and then rewrites the head unchanged, so that the transaction
// waits for the disk.
func (s *Store) Probe(ctx context.Context) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	return s.transact(ctx, "trying whether a commit is possible", uuid.Nil, func(tx *transaction) error { return probe(ctx, tx) })
}

func probe(ctx context.Context, tx *transaction) error {
	now, err := readHead(ctx, reading{tx})
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT probe`); err != nil {
		return err
	}
	if err := write(ctx, tx, now.Head, backend.Probe(now.Head)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO probe`); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE head SET at = at`)
	return err
}
