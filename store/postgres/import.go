package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, snap store.Snapshot, log iter.Seq2[store.Entry, error]) error {
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
func (s *Store) importAll(ctx context.Context, ses *session, snap store.Snapshot, log iter.Seq2[store.Entry, error]) error {
	if h := ses.head; h.Head != (fleet.Head{}) || h.Documents != 0 {
		return fmt.Errorf("%w: it is at revision %d and holds %d documents", store.ErrNotEmpty, h.Revision, h.Documents)
	}
	out := &pipeline{tx: ses.tx}
	out.add(nil, s.durability)
	// Between two statements the other store is read, which may be slow.
	out.add(nil, fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d`, s.importIdle.Milliseconds()))
	if err := out.send(ctx); err != nil {
		return err
	}
	if err := importLog(ctx, out, backend.WholeLog(log, snap)); err != nil {
		return err
	}
	if err := addDocuments(ctx, out, snap.Records); err != nil {
		return err
	}
	if err := out.send(ctx); err != nil {
		return err
	}
	if snap.Head == (fleet.Head{}) {
		return nil
	}
	tag, err := ses.tx.Exec(ctx, moveHead, int64(snap.Head.Revision), snap.Head.ID.String(), snap.At.UnixMicro(), len(snap.Records),
		int64(0), fleet.Head{}.ID.String(), newestVersion(), "", "", []byte(nil))
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%w: somebody else has written to it", store.ErrNotEmpty)
	}
	if err == nil {
		_, err = ses.tx.Exec(ctx, sqlstore.FillHead)
	}
	if err == nil && snap.Oldest > 0 {
		_, err = ses.tx.Exec(ctx, `UPDATE head SET oldest = $1, checkpoint = $2`, int64(snap.Oldest), snap.Checkpoint)
	}
	return err
}

func importLog(ctx context.Context, out *pipeline, log iter.Seq2[store.Entry, error]) error {
	const manyCommits, manyChanges = 1000, 10_000 // are sent at once
	var batch []store.Entry
	changes := 0
	for c, err := range log {
		if err != nil {
			return err
		}
		batch, changes = append(batch, c), changes+len(c.Changes)
		if len(batch) < manyCommits && changes < manyChanges {
			continue
		}
		if err := importCommits(ctx, out, batch); err != nil {
			return err
		}
		batch, changes = nil, 0
	}
	return importCommits(ctx, out, batch)
}

func importCommits(ctx context.Context, out *pipeline, entries []store.Entry) error {
	if err := addCommits(ctx, out, entries...); err != nil {
		return err
	}
	commits := column(entries, func(e store.Entry) fleet.Commit { return e.Commit })
	return addChanges(ctx, out, changesOf(commits...))
}
