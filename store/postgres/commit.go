package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
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
	inner, cancel := s.within(ctx, writeTimeout)
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
	if err := s.finish(ses); err != nil {
		return s.settle(doing, c, err)
	}
	return nil
}

// finish sends COMMIT and waits for the answer.
func (s *Store) finish(ses *session) error {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTimeout)
	defer cancel()
	return ses.end(ses.tx.Commit(ctx))
}

// settle finds out whether a commit that answered with failed is in the log all the same. A server that still works on
// it, or has yet to receive it, holds the head's lock for it: once we have that lock the log says what happened, and
// nothing can change it any more. Committing our own transaction makes what we found as durable as the commit itself,
// on standbys that commits wait for too.
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

// taken says what it means that the log already has the revision that follows base.
func (s *Store) taken(ctx context.Context, base fleet.Head, cause error) error {
	var now head
	err := s.connected(ctx, func(ctx context.Context, c *session) (err error) {
		now, err = readHead(ctx, c.conn, s.name)
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
	b := &pgx.Batch{}
	b.Queue(s.durability)
	b.Queue(insertCommit, int64(c.Revision), c.ID.String(), c.At.UnixMicro(), c.Actor, c.Author, c.Reason, c.RequestID)
	if rows := columns(c); rows != nil {
		b.Queue(insertChanges, rows...)
		return applyChanges(ctx, ses.tx, b, base, c)
	}
	if err := ses.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := copyChanges(ctx, ses.tx, []fleet.Commit{c}); err != nil {
		return err
	}
	return applyChanges(ctx, ses.tx, &pgx.Batch{}, base, c)
}

const (
	insertCommit  = `INSERT INTO commits (revision, id, at, actor, author, reason, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	insertChanges = `INSERT INTO changes (revision, seq, kind, id, action, before, after)
		SELECT $1, * FROM unnest($2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])`

	// The documents are made of the changes that are in the log by then, so that each body is sent once.
	createDocuments = `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
		SELECT kind, id, revision, $2, $3, $3, after FROM changes WHERE revision = $1 AND before IS NULL
		ON CONFLICT DO NOTHING`
	updateDocuments = `UPDATE documents d SET revision = c.revision, commit_id = $2, updated_at = $3, body = c.after,
		created_at = CASE c.action WHEN 'create' THEN $3 ELSE d.created_at END
		FROM changes c WHERE c.revision = $1 AND c.before IS NOT NULL AND c.after IS NOT NULL AND d.kind = c.kind AND d.id = c.id`
	deleteDocuments = `DELETE FROM documents d
		USING changes c WHERE c.revision = $1 AND c.after IS NULL AND d.kind = c.kind AND d.id = c.id`

	// The version is looked at again, because a migration may have come between: it locks this table first, and this
	// statement sees what was committed before it got the lock.
	moveHead = `UPDATE head SET revision = $1, commit_id = $2, at = $3, documents = documents + $4
		WHERE revision = $5 AND commit_id = $6 AND EXISTS (SELECT FROM ` + versionTable + ` WHERE version = $7 AND NOT dirty)`
)

// applyChanges ends batch b with the documents and the head, and sends it. The base is checked, so a document that is
// not as its change says is not a race: either the store or the State it was computed from is wrong, and nothing may
// be built on that.
func applyChanges(ctx context.Context, tx pgx.Tx, b *pgx.Batch, base fleet.Head, c fleet.Commit) error {
	var created, updated, deleted int64
	for _, ch := range c.Changes {
		switch {
		case ch.Before == nil:
			created++
		case ch.After == nil:
			deleted++
		default:
			updated++
		}
	}
	before := b.Len()
	revision, id, at := int64(c.Revision), c.ID.String(), c.At.UnixMicro()
	b.Queue(createDocuments, revision, id, at)
	b.Queue(updateDocuments, revision, id, at)
	b.Queue(deleteDocuments, revision)
	b.Queue(moveHead, revision, id, at, created-deleted, int64(base.Revision), base.ID.String(), newestVersion())
	var affected []int64
	results := tx.SendBatch(ctx, b)
	for range b.Len() {
		tag, err := results.Exec()
		if err != nil {
			return errors.Join(err, results.Close())
		}
		affected = append(affected, tag.RowsAffected())
	}
	if err := results.Close(); err != nil {
		return err
	}
	got, want := affected[before:], []int64{created, updated, deleted}
	if got[3] != 1 {
		return fmt.Errorf("%w while this commit was written", store.ErrStale)
	}
	for i, what := range []string{"created", "changed", "removed"} {
		if got[i] != want[i] {
			return fmt.Errorf("%w: %d of the %d documents to be %s are not there as the commit expects",
				store.ErrCorrupt, want[i]-got[i], want[i], what)
		}
	}
	return nil
}

// columns are the arguments of insertChanges, or nil when the changes are so large that COPY is faster: five times for
// ten thousand documents, for two round trips more.
func columns(c fleet.Commit) []any {
	const few, small = 100, 256 << 10
	n, size := len(c.Changes), 0
	if n > few {
		return nil
	}
	seqs, before, after := make([]int32, n), make([]*string, n), make([]*string, n)
	kinds, ids, actions := make([]string, n), make([]string, n), make([]string, n)
	for i, ch := range c.Changes {
		seqs[i], kinds[i], ids[i], actions[i], before[i], after[i] = int32(i), string(ch.Kind), ch.ID, ch.Action(), text(ch.Before), text(ch.After)
		size += len(ch.Before) + len(ch.After)
	}
	if size > small {
		return nil
	}
	return []any{int64(c.Revision), seqs, kinds, ids, actions, before, after}
}

// copyChanges sends the changes of some commits with COPY.
func copyChanges(ctx context.Context, tx pgx.Tx, commits []fleet.Commit) error {
	return copyRows(ctx, tx, "changes", []string{"revision", "seq", "kind", "id", "action", "before", "after"}, func(yield func([]any) bool) {
		for _, c := range commits {
			for seq, ch := range c.Changes {
				if !yield([]any{int64(c.Revision), int32(seq), string(ch.Kind), ch.ID, ch.Action(), text(ch.Before), text(ch.After)}) {
					return
				}
			}
		}
	})
}

func copyRows(ctx context.Context, tx pgx.Tx, table string, columns []string, rows iter.Seq[[]any]) error {
	next, stop := iter.Pull(rows)
	defer stop()
	_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, _ := next() // nil at the end, which is what ends the copy
		return row, nil
	}))
	return err
}

func text(body json.RawMessage) *string {
	if body == nil {
		return nil
	}
	s := string(body)
	return &s
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
