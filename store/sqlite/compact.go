package sqlite

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var (
	_ store.Compactor = (*Store)(nil)
	_ store.Shortened = (*Store)(nil)
)

// Compact implements [store.Compactor]. It first records the start of the log, which limits all readers, and then removes the
// commits before it.
func (s *Store) Compact(ctx context.Context, before time.Time) (oldest fleet.Revision, removed int64, err error) {
	if s.cfg.ReadOnly {
		return 0, 0, store.ErrReadOnly
	}
	var at fleet.Revision
	err = s.transact(ctx, "shortening the log", uuid.Nil, func(tx *transaction) error {
		if _, err := tx.ExecContext(ctx, `UPDATE head SET oldest = max(oldest, coalesce(
			(SELECT min(revision) FROM commits WHERE at >= ? AND revision >= head.oldest), revision))`, before.UnixMicro()); err != nil {
			return err
		}
		var checkpoint []byte
		err := tx.QueryRowContext(ctx, `SELECT oldest, checkpoint, coalesce((SELECT min(revision) FROM commits), 0) FROM head`).Scan(&oldest, &checkpoint, &at)
		if err == nil && oldest > 1 && !store.IsCheckpointFor(checkpoint, oldest) {
			_, err = tx.ExecContext(ctx, sqlstore.SetCheckpoint, store.CheckpointFor(oldest, nil), int64(oldest))
		}
		return err
	})
	for err == nil && at < oldest {
		err = s.transact(ctx, "shortening the log", uuid.Nil, func(tx *transaction) error {
			var n int64
			var err error
			at, n, err = compactSome(ctx, tx, at, oldest)
			removed += n
			return err
		})
	}
	return oldest, removed, err
}

// compactSome goes on at a revision, and returns where the next one starts and how many commits were removed.
func compactSome(ctx context.Context, tx *transaction, from, oldest fleet.Revision) (fleet.Revision, int64, error) {
	to := oldest
	row := tx.QueryRowContext(ctx, `SELECT coalesce((SELECT revision + 1 FROM changes WHERE revision >= ? AND revision < ?
		ORDER BY revision, seq LIMIT 1 OFFSET ?), ?)`, int64(from), int64(oldest), backend.CompactAtOnce, int64(oldest))
	if err := row.Scan(&to); err != nil {
		return to, 0, err
	}
	if _, err := tx.ExecContext(ctx, backend.CompactChanges, int64(from), int64(to), int64(oldest)); err != nil {
		return to, 0, err
	}
	res, err := tx.ExecContext(ctx, backend.CompactCommits, int64(from), int64(to))
	if err != nil {
		return to, 0, err
	}
	n, err := res.RowsAffected()
	return to, n, err
}
