package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// lockLog locks out other commits. A commit begins with its row in the log, so the statement waits for commits under way; the
// waiting commits hold no lock that this one needs.
const lockLog = `LOCK TABLE commits IN SHARE ROW EXCLUSIVE MODE`

// andVersion makes a commit fail if a migration came between the read of the head and its last statement: the migration locks
// the table of the head first, and the statement sees all commits made before it got the lock.
const andVersion = ` AND EXISTS (SELECT FROM ` + versionTable + ` WHERE version = $7 AND NOT dirty)`

// idle is the time that a transaction may wait for the next statement.
func idle(limit time.Duration) string {
	return fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d`, limit.Milliseconds())
}

// write is [sqlstore.Dialect.Write].
func (s *Store) write(ctx context.Context, job sqlstore.Job, f func(context.Context, sqlstore.WriteTx, sqlstore.HeadRow) error) error {
	if err := s.first.Wait(ctx); err != nil {
		return err
	}
	limit, last := writeTimeout, writeTimeout
	var setup []string
	switch job.Mode {
	case sqlstore.Short:
	case sqlstore.Locked: // the commit is computed between two statements
		limit, setup = lockedTimeout, []string{idle(lockedTimeout), lockLog}
	case sqlstore.HeadLocked:
		setup = []string{s.durability, `SELECT FROM head FOR UPDATE`}
	case sqlstore.Importing: // between two statements the other store is read, which may be slow
		limit, last, setup = importTimeout, importTimeout, []string{s.durability, idle(s.importIdle)}
	case sqlstore.Probing:
		limit, last = barrierTimeout, barrierTimeout
	}
	inner, cancel := s.within(ctx, limit)
	defer cancel()
	ses, err := s.begin(inner, writing, limit)
	if err != nil {
		return s.translate(ctx, job.Doing, err)
	}
	tx := &pipeline{reading: reading{ses.tx}, store: s, caller: ctx, limit: last, tx: ses.tx}
	if err = tx.begin(inner, ses, setup); err == nil {
		err = f(inner, tx, ses.head)
	}
	if err == nil {
		err = tx.Flush(inner)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = ses.end(err)
		if violates(err, "commits_revision") {
			err = s.taken(inner, ses.head.Head, err)
		}
		return s.translate(ctx, job.Doing, err)
	}
	// From here on the outcome counts, not the caller's patience: a context that ends now must not make a commit look
	// undone.
	if err := s.finish(ses, outcomeTimeout+tx.extra); err != nil {
		return s.resolveOutcome(job, err)
	}
	return nil
}

// begin runs the first statements of a transaction, and reads the head again if there are any: it may have moved meanwhile.
func (p *pipeline) begin(ctx context.Context, ses *session, setup []string) (err error) {
	for _, statement := range setup {
		if err := p.Queue(ctx, nil, statement); err != nil {
			return err
		}
	}
	if len(setup) == 0 {
		return nil
	}
	if err = p.Flush(ctx); err == nil {
		ses.head, err = p.store.readHead(ctx, p)
	}
	return err
}

// finish sends COMMIT and waits for the answer.
func (s *Store) finish(ses *session, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return ses.end(ses.tx.Commit(ctx))
}

// resolveOutcome looks up whether the log contains a commit whose COMMIT returned an error (the argument failed). It returns nil if
// the commit is in the log, failed if it is not, and ErrUnknown if the look-up did not succeed in time. The transaction of the commit
// holds the lock of the head until it ends, so a look-up that has the lock sees the final log. The look-up commits its own transaction:
// its result is then as durable as a commit, also on synchronous standbys.
func (s *Store) resolveOutcome(job sqlstore.Job, failed error) error {
	ctx, cancel := s.within(context.Background(), settleTimeout)
	defer cancel()
	failed = translate(job.Doing, failed)
	if job.Commit == uuid.Nil {
		return failed
	}
	for {
		found, err := s.lookUp(ctx, job.Commit)
		switch {
		case err == nil && found:
			return nil
		case err == nil:
			return failed
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w; looking it up: %w", store.ErrUnknown, failed, err)
		}
		pause(ctx)
	}
}

func (s *Store) lookUp(ctx context.Context, id uuid.UUID) (found bool, err error) {
	ses, err := s.begin(ctx, writing, settleTimeout)
	if err != nil {
		return false, err
	}
	_, err = ses.tx.Exec(ctx, `SELECT FROM head FOR UPDATE`)
	if err == nil {
		err = ses.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM commits WHERE id = $1)`, id.String()).Scan(&found)
	}
	if err == nil {
		err = ses.tx.Commit(ctx)
	}
	return found, ses.end(err)
}

// taken explains why the log already has the revision that follows base.
func (s *Store) taken(ctx context.Context, base fleet.Head, cause error) error {
	var now sqlstore.HeadRow
	err := s.connected(ctx, func(ctx context.Context, c *session) (err error) {
		now, err = s.readHead(ctx, reading{c.conn})
		return err
	})
	switch {
	case err != nil:
		return err
	case now.Head != base:
		return fmt.Errorf("%w: it is revision %d, not %d", store.ErrStale, now.Revision, base.Revision)
	}
	return fmt.Errorf("%w: the log goes on after the head, revision %d: %w", store.ErrCorrupt, base.Revision, cause)
}

// pause waits a moment before another attempt, or until ctx ends.
func pause(ctx context.Context) {
	t := time.NewTimer(retryEvery)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
