package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

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
	err = s.transact(ctx, "shortening the log", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE head SET oldest = greatest(oldest, coalesce(
			(SELECT min(revision) FROM commits WHERE at >= $1 AND revision >= head.oldest), revision))`, before.UnixMicro()); err != nil {
			return err
		}
		var checkpoint []byte
		err := tx.QueryRow(ctx, `SELECT oldest, checkpoint, coalesce((SELECT min(revision) FROM commits), 0) FROM head`).Scan(&oldest, &checkpoint, &at)
		if err == nil && oldest > 1 && !store.IsCheckpointFor(checkpoint, oldest) {
			_, err = tx.Exec(ctx, sqlstore.SetCheckpoint, store.CheckpointFor(oldest, nil), int64(oldest))
		}
		return err
	})
	for err == nil && at < oldest {
		err = s.transact(ctx, "shortening the log", func(ctx context.Context, tx pgx.Tx) error {
			var n int64
			var err error
			at, n, err = compactSome(ctx, tx, at, oldest)
			removed += n
			return err
		})
	}
	return oldest, removed, err
}

// transact runs do in a transaction that may be run again. doing is for errors, such as "shortening the log".
func (s *Store) transact(ctx context.Context, doing string, do func(context.Context, pgx.Tx) error) error {
	inner, cancel := s.within(ctx, writeTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, writeTimeout)
	if err == nil {
		if err = do(inner, ses.tx); err == nil {
			err = ses.tx.Commit(inner)
		}
		err = ses.end(err)
	}
	return s.translate(ctx, doing, err)
}

// compactSome goes on at a revision, and returns where the next one starts and how many commits were removed.
func compactSome(ctx context.Context, tx pgx.Tx, from, oldest fleet.Revision) (fleet.Revision, int64, error) {
	to := oldest
	row := tx.QueryRow(ctx, `SELECT coalesce((SELECT revision + 1 FROM changes WHERE revision >= $1 AND revision < $2
		ORDER BY revision, seq LIMIT 1 OFFSET $3), $2)`, int64(from), int64(oldest), backend.CompactAtOnce)
	if err := row.Scan(&to); err != nil {
		return to, 0, err
	}
	if _, err := tx.Exec(ctx, backend.CompactChanges, int64(from), int64(to), int64(oldest)); err != nil {
		return to, 0, err
	}
	tag, err := tx.Exec(ctx, backend.CompactCommits, int64(from), int64(to))
	return to, tag.RowsAffected(), err
}
