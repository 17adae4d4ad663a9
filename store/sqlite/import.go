package sqlite

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
	return s.transact(ctx, "importing", snap.Head.ID, func(tx *transaction) error {
		now, err := readHead(ctx, reading{tx})
		if err != nil {
			return err
		}
		if now.Head != (fleet.Head{}) || now.Documents != 0 {
			return fmt.Errorf("%w: it is at revision %d and holds %d documents", store.ErrNotEmpty, now.Revision, now.Documents)
		}
		for c, err := range backend.WholeLog(log, snap) {
			if err != nil {
				return err
			}
			if err := writeLog(ctx, tx, c.Commit, c.Link); err != nil {
				return err
			}
		}
		for _, r := range snap.Records {
			if _, err := tx.ExecContext(ctx, `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
				VALUES (?, ?, ?, ?, ?, ?, ?)`, string(r.Kind), r.ID, int64(r.Revision), r.CommitID.String(),
				r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro(), string(r.Body)); err != nil {
				return fmt.Errorf("%s %q: %w", r.Kind, r.ID, err)
			}
		}
		if snap.Head == (fleet.Head{}) {
			return nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE head SET revision = ?, commit_id = ?, at = ?, documents = ?, oldest = max(oldest, ?), checkpoint = ?`,
			int64(snap.Head.Revision), snap.Head.ID.String(), snap.At.UnixMicro(), len(snap.Records), int64(snap.Oldest), blob(snap.Checkpoint))
		if err == nil {
			_, err = tx.ExecContext(ctx, sqlstore.FillHead)
		}
		return err
	})
}
