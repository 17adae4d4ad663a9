package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, snap store.Snapshot, log iter.Seq2[fleet.Commit, error]) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	doing := "importing into " + s.name
	inner, cancel := s.within(ctx, importTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, importTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	err = s.importAll(inner, ses, snap, log)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = ses.end(err)
		if violates(err, "commits_revision") {
			err = fmt.Errorf("%w: somebody else has written to it", store.ErrNotEmpty)
		}
		return s.translate(ctx, doing, err)
	}
	if err := s.finish(ses, outcomeTimeout); err != nil {
		return s.settle(doing, fleet.Commit{ID: snap.Head.ID}, err)
	}
	return nil
}

// importAll does everything between BEGIN and COMMIT.
func (s *Store) importAll(ctx context.Context, ses *session, snap store.Snapshot, log iter.Seq2[fleet.Commit, error]) error {
	if h := ses.head; h.Head != (fleet.Head{}) || h.documents != 0 {
		return fmt.Errorf("%w: it is at revision %d and holds %d documents", store.ErrNotEmpty, h.Revision, h.documents)
	}
	b := &pgx.Batch{}
	b.Queue(s.durability)
	// Between two statements the other store is read, which may be slow.
	b.Queue(fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d`, readTimeout.Milliseconds()))
	if err := ses.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := importLog(ctx, ses.tx, backend.WholeLog(log, snap.Head)); err != nil {
		return err
	}
	if err := copyDocuments(ctx, ses.tx, snap.Records); err != nil {
		return err
	}
	if snap.Head == (fleet.Head{}) {
		return nil
	}
	tag, err := ses.tx.Exec(ctx, moveHead, int64(snap.Head.Revision), snap.Head.ID.String(), snap.At.UnixMicro(), len(snap.Records),
		int64(0), fleet.Head{}.ID.String(), newestVersion(), "", "")
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%w: somebody else has written to it", store.ErrNotEmpty)
	}
	return err
}

func importLog(ctx context.Context, tx pgx.Tx, log iter.Seq2[fleet.Commit, error]) error {
	const manyCommits, manyChanges = 1000, 10_000 // are sent at once
	var batch []fleet.Commit
	changes := 0
	for c, err := range log {
		if err != nil {
			return err
		}
		batch, changes = append(batch, c), changes+len(c.Changes)
		if len(batch) < manyCommits && changes < manyChanges {
			continue
		}
		if err := copyCommits(ctx, tx, batch); err != nil {
			return err
		}
		batch, changes = nil, 0
	}
	return copyCommits(ctx, tx, batch)
}

func copyCommits(ctx context.Context, tx pgx.Tx, commits []fleet.Commit) error {
	err := copyRows(ctx, tx, "commits", []string{"revision", "id", "at", "actor", "author", "reason", "request_id"}, func(yield func([]any) bool) {
		for _, c := range commits {
			if !yield([]any{int64(c.Revision), c.ID.String(), c.At.UnixMicro(), c.Actor, c.Author, c.Reason, c.RequestID}) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return copyChanges(ctx, tx, commits)
}

func copyDocuments(ctx context.Context, tx pgx.Tx, records []fleet.Record) error {
	columns := []string{"kind", "id", "revision", "commit_id", "created_at", "updated_at", "body"}
	return copyRows(ctx, tx, "documents", columns, func(yield func([]any) bool) {
		for _, r := range records {
			if !yield([]any{
				string(r.Kind), r.ID, int64(r.Revision), r.CommitID.String(),
				r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro(), string(r.Body),
			}) {
				return
			}
		}
	})
}
