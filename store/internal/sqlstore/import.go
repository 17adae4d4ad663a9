package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Import implements [store.Store].
func (s *Store) Import(ctx context.Context, snap store.Snapshot, log iter.Seq2[store.Entry, error]) error {
	job := Job{Doing: "importing", Mode: Importing, Commit: snap.Head.ID}
	err := s.write(ctx, job, func(ctx context.Context, tx WriteTx, now HeadRow) error {
		if now.Head != (fleet.Head{}) || now.Documents != 0 {
			return fmt.Errorf("%w: it is at revision %d and holds %d documents", store.ErrNotEmpty, now.Revision, now.Documents)
		}
		if err := importLog(ctx, tx, wholeLog(log, snap)); err != nil {
			return err
		}
		if err := tx.QueueRows(ctx, nil, importDocuments, nil, recordRows(snap.Records)); err != nil {
			return err
		}
		if snap.Head == (fleet.Head{}) {
			return nil
		}
		hold := ""
		if snap.Quarantine != nil {
			var err error
			if hold, err = snap.Quarantine.Encode(); err != nil {
				return err
			}
		}
		moved, err := tx.Exec(ctx, moveHead+s.db.AndVersion, int64(snap.Head.Revision), snap.Head.ID.String(), snap.At.UnixMicro(), int64(len(snap.Records)),
			int64(0), fleet.Head{}.ID.String(), now.version, "", hold, nil)
		if err == nil && moved != 1 {
			err = store.ErrStale
		}
		if err == nil {
			err = tx.Queue(ctx, nil, `UPDATE head SET hash = (SELECT hash FROM commits WHERE commits.revision = head.revision)`)
		}
		if err == nil && snap.Oldest > 0 {
			err = tx.Queue(ctx, nil, `UPDATE head SET oldest = $1, checkpoint = $2`, int64(snap.Oldest), snap.Checkpoint)
		}
		return err
	})
	if errors.Is(err, store.ErrStale) {
		err = fmt.Errorf("%w: another process has written to it", store.ErrNotEmpty)
	}
	return err
}

// importLog adds the commits of a log, many at once, of at most about pageBytes.
func importLog(ctx context.Context, tx WriteTx, log iter.Seq2[store.Entry, error]) error {
	const manyCommits, manyChanges = 1000, 10_000
	var batch []store.Entry
	var changes []change
	bytes := 0
	flush := func() error {
		err := tx.QueueRows(ctx, nil, insertCommits, nil, commitRows(batch...))
		if err == nil {
			err = tx.QueueRows(ctx, nil, insertChanges, nil, changeRows(changes))
		}
		batch, changes, bytes = batch[:0], changes[:0], 0
		return err
	}
	for c, err := range log {
		if err != nil {
			return err
		}
		batch, changes = append(batch, c), append(changes, changesOf(c.Commit)...)
		for _, ch := range c.Changes {
			bytes += len(ch.Before) + len(ch.After)
		}
		if len(batch) == manyCommits || len(changes) >= manyChanges || bytes >= pageBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func recordRows(records []fleet.Record) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for _, r := range records {
			if !yield([]any{
				string(r.Kind), r.ID, int64(r.Revision), r.CommitID.String(), r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro(), Body(r.Body),
			}) {
				return
			}
		}
	}
}

// wholeLog yields the commits of a log, and an error if it lacks a commit between the first, or the oldest, and the imported
// head, or if one is malformed. Before the oldest any commits may be missing.
func wholeLog(log iter.Seq2[store.Entry, error], of store.Snapshot) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		var last fleet.Head
		for c, err := range log {
			if err == nil {
				base := last
				if c.Revision > last.Revision && c.Revision < of.Oldest {
					base.Revision = c.Revision - 1
				} else if c.Revision == of.Oldest {
					base.Revision = of.Oldest - 1
				}
				err = checkCommit(base, c.Commit)
			}
			if !yield(c, err) || err != nil {
				return
			}
			last = c.Head()
		}
		if last != of.Head {
			yield(store.Entry{}, fmt.Errorf("the log ends with revision %d, and the documents are of revision %d", last.Revision, of.Head.Revision))
		}
	}
}
