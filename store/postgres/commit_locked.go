package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// lockLog locks out other commits. A commit begins with its row in the log, so the statement waits for commits under way; the
// waiting commits hold no lock that this one needs. The idle timeout of the transaction is longer here, because the commit is
// computed meanwhile.
var lockLog = fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d; LOCK TABLE commits IN SHARE ROW EXCLUSIVE MODE`,
	lockedTimeout.Milliseconds())

// CommitLocked implements [store.Store].
func (s *Store) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	const doing = "committing with the lock held"
	inner, cancel := s.within(ctx, lockedTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, lockedTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	c, err := s.nextLocked(inner, ses, next)
	if err == nil && c.ID != id {
		err = fmt.Errorf("commit %s was to be made, and %s was", id, c.ID)
	}
	if err == nil {
		// The computed commit has the same time limit as any commit of its size.
		sending, sent := s.within(ctx, writeTimeout+store.ExtraCommitTime(c))
		defer sent()
		err = s.write(sending, ses, ses.head.Head, c)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return s.translate(ctx, doing, ses.end(err))
	}
	if err := s.finish(ses, outcomeTimeout+store.ExtraCommitTime(c)); err != nil { // see Commit
		return s.settle(doing, c, err)
	}
	return nil
}

// nextLocked takes the lock and computes the commit.
func (s *Store) nextLocked(ctx context.Context, ses *session, next func(context.Context, fleet.Head) (fleet.Commit, error)) (c fleet.Commit, err error) {
	if _, err := ses.tx.Exec(ctx, lockLog); err != nil {
		return c, err
	}
	if ses.head, err = s.readHead(ctx, reading{ses.tx}); err != nil {
		return c, err
	}
	if c, err = next(ctx, ses.head.Head); err != nil {
		return c, err
	}
	return c, backend.CheckCommit(ses.head.Head, c)
}

// Probe implements [store.Store]. It rolls the test commit back and then rewrites the head unchanged, so that the transaction
// waits for the disk.
func (s *Store) Probe(ctx context.Context) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	const doing = "trying whether a commit is possible"
	inner, cancel := s.within(ctx, barrierTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, barrierTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	err = pgx.BeginFunc(inner, ses.tx, func(savepoint pgx.Tx) error {
		inside := &session{store: s, tx: savepoint, head: ses.head}
		if err := s.write(inner, inside, ses.head.Head, backend.Probe(ses.head.Head)); err != nil {
			return err
		}
		return errProbed
	})
	if errors.Is(err, errProbed) {
		_, err = ses.tx.Exec(inner, `UPDATE head SET at = at`)
	}
	if err == nil {
		err = ses.tx.Commit(inner)
	}
	err = ses.end(err)
	if errors.Is(err, store.ErrStale) || violates(err, "commits_revision") {
		return nil // another process has just committed
	}
	return s.translate(ctx, doing, err)
}

// errProbed rolls back the writes of a probe.
var errProbed = errors.New("probed")
