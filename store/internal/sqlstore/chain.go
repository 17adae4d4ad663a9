package sqlstore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// ChainHead implements [store.Store].
func (s *Store) ChainHead(ctx context.Context) (store.ChainHead, error) {
	h, err := s.head(ctx)
	return h.ChainHead(), err
}

// Links implements [store.Store].
func (s *Store) Links(ctx context.Context, after fleet.Revision, limit int) ([]store.Link, error) {
	return read(ctx, s.db.Read, "reading the hash chain", func(ctx context.Context, tx Tx, h HeadRow) ([]store.Link, error) {
		return links(ctx, tx, h, after, limit)
	})
}

// CheckCanonical implements [store.Store]: ids of commits are in lower case.
func (s *Store) CheckCanonical(ctx context.Context) error {
	_, err := read(ctx, s.db.Read, "checking the ids of commits", func(ctx context.Context, tx Tx, _ HeadRow) (struct{}, error) {
		var altered int64
		err := QueryOne(ctx, tx, []any{&altered}, `SELECT (SELECT count(*) FROM commits WHERE CAST(id AS text) <> lower(CAST(id AS text)))
			+ (SELECT count(*) FROM documents WHERE CAST(commit_id AS text) <> lower(CAST(commit_id AS text)))
			+ (SELECT count(*) FROM head WHERE CAST(commit_id AS text) <> lower(CAST(commit_id AS text)))`)
		if err == nil && altered > 0 {
			err = fmt.Errorf("%w: %d ids of commits are not in lower case: history was altered", store.ErrCorrupt, altered)
		}
		return struct{}{}, err
	})
	return err
}

// links returns the links of the commits after a revision.
func links(ctx context.Context, tx Tx, h HeadRow, after fleet.Revision, limit int) ([]store.Link, error) {
	scan := func(rows Rows, l *store.Link) error {
		store.Touch(ctx)
		return rows.Scan(&l.Revision, &l.Previous, &l.Hash, &l.Checkpoint)
	}
	return Query(ctx, tx, scan, `SELECT revision, previous, hash, checkpoint FROM commits WHERE revision > $1 AND revision >= $2
		ORDER BY revision LIMIT $3`, int64(after), int64(h.Oldest), limit)
}

// SetCheckpoint implements [store.Store].
func (s *Store) SetCheckpoint(ctx context.Context, checkpoint []byte) error {
	if len(checkpoint) <= 8 {
		return fmt.Errorf("a checkpoint has %d bytes", len(checkpoint))
	}
	return s.write(ctx, Job{Doing: "writing the checkpoint"}, func(ctx context.Context, tx WriteTx, _ HeadRow) error {
		return tx.Queue(ctx, nil, setCheckpoint, checkpoint, int64(binary.BigEndian.Uint64(checkpoint)))
	})
}

// setCheckpoint replaces the checkpoint by $1 when the log begins with revision $2.
const setCheckpoint = `UPDATE head SET checkpoint = $1 WHERE oldest = $2`
