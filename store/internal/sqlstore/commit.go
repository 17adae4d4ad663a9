package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// write is [Dialect.Write], unless the store is read-only.
func (s *Store) write(ctx context.Context, job Job, f func(context.Context, WriteTx, HeadRow) error) error {
	if s.db.ReadOnly {
		return store.ErrReadOnly
	}
	return s.db.Write(ctx, job, f)
}

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	if err := checkCommit(base, c); err != nil {
		return err
	}
	job := Job{Doing: fmt.Sprintf("committing revision %d", c.Revision), Commit: c.ID}
	return s.write(ctx, job, func(ctx context.Context, tx WriteTx, now HeadRow) error {
		return s.commit(ctx, tx, now, base, c)
	})
}

// CommitLocked implements [store.Store].
func (s *Store) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	job := Job{Doing: "committing with the lock held", Mode: Locked, Commit: id}
	return s.write(ctx, job, func(ctx context.Context, tx WriteTx, now HeadRow) error {
		c, err := next(ctx, now.Head)
		if err == nil {
			err = checkCommit(now.Head, c)
		}
		if err == nil && c.ID != id {
			err = fmt.Errorf("commit %s was to be made, and %s was", id, c.ID)
		}
		if err != nil {
			return err
		}
		return s.commit(ctx, tx, now, now.Head, c)
	})
}

// Probe implements [store.Store]. It rolls the test commit back and then rewrites the head unchanged, so that the transaction
// waits for the disk.
func (s *Store) Probe(ctx context.Context) error {
	job := Job{Doing: "trying whether a commit is possible", Mode: Probing}
	err := s.write(ctx, job, func(ctx context.Context, tx WriteTx, now HeadRow) error {
		if err := tx.Queue(ctx, nil, `SAVEPOINT probe`); err != nil {
			return err
		}
		if err := s.commit(ctx, tx, now, now.Head, probe(now.Head)); err != nil {
			return err
		}
		if err := tx.Queue(ctx, nil, `ROLLBACK TO probe`); err != nil {
			return err
		}
		return tx.Queue(ctx, nil, `UPDATE head SET at = at`)
	})
	if errors.Is(err, store.ErrStale) {
		return nil // another process has just committed
	}
	return err
}

// commit writes everything between BEGIN and COMMIT. The commit's own row comes first: its revision is unique, so writers that
// start from the same base wait for each other there, before they have locked any document. The head comes last.
func (s *Store) commit(ctx context.Context, tx WriteTx, now HeadRow, base fleet.Head, c fleet.Commit) error {
	if now.Head != base {
		return fmt.Errorf("%w: it is revision %d, not %d", store.ErrStale, now.Revision, base.Revision)
	}
	quarantine, err := now.QuarantineAfter(c)
	if err != nil {
		return err
	}
	ctx, cancel, err := tx.Prepare(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	if now.Revision > 0 && now.Hash == nil {
		return fmt.Errorf("%w: the head, revision %d, has no hash", store.ErrCorrupt, now.Revision)
	}
	link, changes := store.NextLink(now.Hash, now.Checkpoint, c), changesOf(c)
	if err := tx.QueueRows(ctx, nil, insertCommits, nil, commitRows(store.Entry{Commit: c, Link: link})); err != nil {
		return err
	}
	if err := tx.QueueRows(ctx, nil, insertChanges, nil, changeRows(changes)); err != nil {
		return err
	}
	done, want := counts{}, countsOf(c)
	if err := applyChanges(ctx, tx, c, changes, &done); err != nil {
		return err
	}
	moved, err := tx.Exec(ctx, moveHead+s.db.AndVersion, int64(c.Revision), c.ID.String(), c.At.UnixMicro(), want[created]-want[deleted],
		int64(base.Revision), base.ID.String(), now.version, now.Quarantine, quarantine, link.Hash)
	switch {
	case err != nil:
		return err
	case moved != 1:
		return fmt.Errorf("%w while this commit was written", store.ErrStale)
	}
	return done.check(want)
}

const moveHead = `UPDATE head SET revision = $1, commit_id = $2, at = $3, documents = documents + $4, hold = $9, hash = $10
	WHERE revision = $5 AND commit_id = $6 AND hold = $8`

var insertCommits = RowStatement{
	Each: `INSERT INTO commits (revision, id, at, actor, author, reason, request_id, operations, previous, hash, checkpoint)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
	All: `INSERT INTO commits (revision, id, at, actor, author, reason, request_id, operations, previous, hash, checkpoint)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[])`,
}

func commitRows(entries ...store.Entry) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for _, c := range entries {
			if !yield([]any{
				int64(c.Revision), c.ID.String(), c.At.UnixMicro(), c.Actor, c.Author, c.Reason, c.RequestID, string(c.Operations),
				c.Link.Previous, c.Link.Hash, c.Link.Checkpoint,
			}) {
				return
			}
		}
	}
}

// change is one change of a commit. Its action is computed once, because that parses the documents.
type change struct {
	fleet.Change
	revision fleet.Revision
	commit   uuid.UUID
	seq      int
	action   string
}

func changesOf(commits ...fleet.Commit) (all []change) {
	for _, c := range commits {
		for seq, ch := range c.Changes {
			all = append(all, change{ch, c.Revision, c.ID, seq, ch.Action()})
		}
	}
	return all
}

var insertChanges = RowStatement{
	Each: `INSERT INTO changes (revision, seq, kind, id, action, before, after, packed_before, packed_after, sum, bytes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
	All: `INSERT INTO changes (revision, seq, kind, id, action, before, after, packed_before, packed_after, sum, bytes)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
			$8::bytea[], $9::bytea[], $10::bigint[], $11::bigint[])`,
}

func changeRows(changes []change) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for _, ch := range changes {
			p := packChange(ch.commit, ch.seq, ch.Change)
			if !yield([]any{
				int64(ch.revision), int64(ch.seq), string(ch.Kind), ch.ID, ch.action, marker(ch.Before), marker(ch.After),
				p.Before, p.After, p.Sum, p.Bytes,
			}) {
				return
			}
		}
	}
}

// marker is the value of a change's columns before and after: an empty text, or NULL if there is no document.
func marker(body []byte) any {
	if body == nil {
		return nil
	}
	return ""
}
