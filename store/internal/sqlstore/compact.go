package sqlstore

import (
	"context"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Compact implements [store.Compactor]. It first records the start of the log, which limits all readers, and then removes the
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

// Unpack rewrites the log in the format of schema versions before [PackedVersion]. It works in small transactions and
// continues an interrupted earlier call.
func (s *Store) Unpack(ctx context.Context) error {
	h, err := s.head(ctx)
	for at := h.Revision; err == nil && at > 0; {
		err = s.write(ctx, Job{Doing: "unpacking the log"}, func(ctx context.Context, tx WriteTx, h HeadRow) (err error) {
			at, err = unpackSome(ctx, tx, h, at)
			return err
		})
	}
	return err
}

// unpackSome goes on from a revision downwards, and returns where to go on; 0 at the end.
func unpackSome(ctx context.Context, tx WriteTx, h HeadRow, from fleet.Revision) (fleet.Revision, error) {
	found, err := tx.QueryRows(ctx, `SELECT `+rowColumns+` FROM `+rowTables+`
		WHERE c.revision <= $1 AND (c.before = '' OR c.after = '') ORDER BY c.revision DESC, c.seq LIMIT 500`, int64(from))
	rows, err := collectRows(ctx, found, err)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	for _, r := range rows {
		ch, err := unpackedChange(ctx, tx, r, h.Oldest)
		if err != nil {
			return from, err
		}
		if err := tx.Queue(ctx, nil, `UPDATE changes SET before = $1, after = $2, packed_before = NULL, packed_after = NULL, sum = 0, bytes = NULL
			WHERE revision = $3 AND kind = $4 AND id = $5`, text(ch.Before), text(ch.After), int64(r.Revision), string(r.Kind), r.ID); err != nil {
			return from, err
		}
	}
	return rows[len(rows)-1].Revision, nil
}

// text is a document for a text column.
func text(body []byte) any {
	if body == nil {
		return nil
	}
	return string(body)
}
