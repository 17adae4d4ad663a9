package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	if err := backend.CheckCommit(base, c); err != nil {
		return err
	}
	doing := fmt.Sprintf("committing revision %d", c.Revision)
	inner, cancel := s.within(ctx, writeTimeout+store.ExtraCommitTime(c))
	defer cancel()
	ses, err := s.begin(inner, writing, writeTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	err = s.write(inner, ses, base, c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = ses.end(err)
		if violates(err, "commits_revision") {
			err = s.taken(inner, base, err)
		}
		return s.translate(ctx, doing, err)
	}
	// From here on the outcome counts, not the caller's patience: a context that ends now must not make a commit look
	// undone.
	if err := s.finish(ses, outcomeTimeout+store.ExtraCommitTime(c)); err != nil {
		return s.settle(doing, c, err)
	}
	return nil
}

// finish sends COMMIT and waits for the answer.
func (s *Store) finish(ses *session, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return ses.end(ses.tx.Commit(ctx))
}

// settle looks up whether a commit that returned the error failed is in the log all the same. If the server still works on it,
// or has yet to receive it, it holds the lock of the head: once settle has that lock, the log is final. Committing settle's own
// transaction makes its result as durable as the commit itself, also on standbys that commits wait for.
func (s *Store) settle(doing string, c fleet.Commit, failed error) error {
	ctx, cancel := s.within(context.Background(), settleTimeout)
	defer cancel()
	failed = translate(doing, failed)
	for {
		found, err := s.lookUp(ctx, c)
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

func (s *Store) lookUp(ctx context.Context, c fleet.Commit) (found bool, err error) {
	ses, err := s.begin(ctx, writing, settleTimeout)
	if err != nil {
		return false, err
	}
	_, err = ses.tx.Exec(ctx, `SELECT FROM head FOR UPDATE`)
	if err == nil {
		err = ses.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM commits WHERE id = $1)`, c.ID.String()).Scan(&found)
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
		return stale(now.Head, base)
	}
	return fmt.Errorf("%w: the log goes on after the head, revision %d: %w", store.ErrCorrupt, base.Revision, cause)
}

func stale(now, base fleet.Head) error {
	return fmt.Errorf("%w: it is revision %d, not %d", store.ErrStale, now.Revision, base.Revision)
}

// write does everything between BEGIN and COMMIT. The commit's own row comes first: its revision is unique, so writers
// that start from the same base wait for each other there, before they have locked any document. The head comes last.
// All of it is one round trip, unless the changes are large.
func (s *Store) write(ctx context.Context, ses *session, base fleet.Head, c fleet.Commit) error {
	if ses.head.Head != base {
		return stale(ses.head.Head, base)
	}
	quarantine, err := ses.head.QuarantineAfter(c)
	if err != nil {
		return err
	}
	out := &pipeline{tx: ses.tx}
	out.add(nil, s.durability)
	if len(c.Changes) > few {
		out.add(nil, byIndex)
	}
	link := ses.head.Link(c)
	out.add(nil, insertCommit, int64(c.Revision), c.ID.String(), c.At.UnixMicro(), c.Actor, c.Author, c.Reason, c.RequestID, string(c.Operations),
		link.Previous, link.Hash, link.Checkpoint)
	changes := changesOf(c)
	if err := addChanges(ctx, out, changes); err != nil {
		return err
	}
	var done counts
	if err := applyChanges(ctx, out, c, changes, &done); err != nil {
		return err
	}
	if timeout := store.ExtraCommitTime(c); timeout > 0 { // COMMIT works on all of it at once
		out.add(nil, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, (writeTimeout+timeout).Milliseconds()))
	}
	moved := int64(0)
	want := countsOf(c)
	statement := moveHead
	if link.Hash == nil {
		statement += unlessChained
	}
	out.add(count(&moved), statement, int64(c.Revision), c.ID.String(), c.At.UnixMicro(), want[created]-want[deleted],
		int64(base.Revision), base.ID.String(), newestVersion(), ses.head.Quarantine, quarantine, link.Hash)
	if err := out.send(ctx); err != nil {
		return err
	}
	if moved != 1 {
		return fmt.Errorf("%w while this commit was written", store.ErrStale)
	}
	return done.check(want)
}

// byIndex keeps the server from reading all documents once for every message of a commit that changes more than a few.
const (
	few     = 100
	byIndex = `SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
)

const (
	insertCommit = `INSERT INTO commits (revision, id, at, actor, author, reason, request_id, operations, previous, hash, checkpoint)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

	// The version is checked again because a migration may have come between: it locks this table first, and this statement
	// sees all commits made before it got the lock.
	moveHead = `UPDATE head SET revision = $1, commit_id = $2, at = $3, documents = documents + $4, hold = $9, hash = $10
		WHERE revision = $5 AND commit_id = $6 AND hold = $8 AND EXISTS (SELECT FROM ` + versionTable + ` WHERE version = $7 AND NOT dirty)`
	// A commit that is not in the hash chain must not follow one that was added to it meanwhile: see FillChain.
	unlessChained = ` AND ($5 = 0 OR hash IS NULL)`
)

// pause waits a moment before another attempt, or until ctx ends.
func pause(ctx context.Context) {
	t := time.NewTimer(retryEvery)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
