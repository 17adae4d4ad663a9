package sqlstore

import (
	"context"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Compact implements [store.Store]. It first records the start of the log, which limits all readers, and then removes the
// commits before it.
func (s *Store) Compact(ctx context.Context, before time.Time) (oldest fleet.Revision, removed int64, err error) {
	var at fleet.Revision
	err = s.write(ctx, Job{Doing: "shortening the log"}, func(ctx context.Context, tx WriteTx, _ HeadRow) error {
		if _, err := tx.Exec(ctx, `UPDATE head SET oldest = coalesce((SELECT min(revision) FROM commits WHERE at >= $1 AND revision >= head.oldest), revision)
			WHERE revision > 0`, before.UnixMicro()); err != nil {
			return err
		}
		var checkpoint []byte
		err = QueryOne(ctx, tx, []any{&oldest, &checkpoint, &at}, `SELECT oldest, checkpoint, coalesce((SELECT min(revision) FROM commits), 0) FROM head`)
		if err == nil && oldest > 1 && !store.IsCheckpointFor(checkpoint, oldest) {
			_, err = tx.Exec(ctx, setCheckpoint, store.CheckpointFor(oldest, nil), int64(oldest))
		}
		return err
	})
	for err == nil && at < oldest {
		err = s.write(ctx, Job{Doing: "shortening the log"}, func(ctx context.Context, tx WriteTx, _ HeadRow) error {
			next, n, err := compactSome(ctx, tx, at, oldest)
			at, removed = next, removed+n
			return err
		})
	}
	return oldest, removed, err
}

// compactSome goes on at a revision, and returns where the next one starts and how many commits were removed. It keeps two
// changes of every document that exists at the oldest revision: its creation and its last change up to there.
func compactSome(ctx context.Context, tx WriteTx, from, oldest fleet.Revision) (to fleet.Revision, removed int64, err error) {
	const atOnce = 2000 // changes
	if err := QueryOne(ctx, tx, []any{&to}, `SELECT coalesce((SELECT revision + 1 FROM changes WHERE revision >= $1 AND revision < $2
		ORDER BY revision, seq LIMIT 1 OFFSET $3), $2)`, int64(from), int64(oldest), atOnce); err != nil {
		return oldest, 0, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM changes AS c WHERE revision >= $1 AND revision < $2
		AND (action = 'delete' OR EXISTS (SELECT 1 FROM changes l WHERE l.kind = c.kind AND l.id = c.id AND l.revision > c.revision AND l.revision <= $3))
		AND NOT (action = 'create' AND NOT EXISTS (SELECT 1 FROM changes l WHERE l.kind = c.kind AND l.id = c.id
			AND l.revision > c.revision AND l.revision <= $3 AND l.action <> 'update'))`, int64(from), int64(to), int64(oldest)); err != nil {
		return to, 0, err
	}
	removed, err = tx.Exec(ctx, `DELETE FROM commits WHERE revision >= $1 AND revision < $2
		AND NOT EXISTS (SELECT 1 FROM changes WHERE changes.revision = commits.revision)`, int64(from), int64(to))
	return to, removed, err
}
