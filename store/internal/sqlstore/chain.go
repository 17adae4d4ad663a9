package sqlstore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// ChainHead implements [store.Chained].
func (s *Store) ChainHead(ctx context.Context) (store.ChainHead, error) {
	h, err := s.head(ctx)
	return h.ChainHead(), err
}

// Links implements [store.Chained].
func (s *Store) Links(ctx context.Context, after fleet.Revision, limit int) ([]store.Link, error) {
	return read(ctx, s.db.Read, "reading the hash chain", func(ctx context.Context, tx Tx, h HeadRow) ([]store.Link, error) {
		return links(ctx, tx, h, after, limit)
	})
}

// CheckCanonical implements [store.Canonical]: ids of commits are in lower case.
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

// unchained computes the links of commits after a revision that are not in the chain yet, of at most limit commits. It also
// returns the last of these commits.
func unchained(ctx context.Context, tx Tx, h HeadRow, after fleet.Revision, limit int) (missing []store.Link, last fleet.Revision, err error) {
	last = max(after, h.Oldest-1)
	var previous []byte
	if last > 0 && last >= h.Oldest {
		if err := QueryOne(ctx, tx, []any{&previous}, `SELECT hash FROM commits WHERE revision = $1`, int64(last)); err != nil {
			return nil, last, fmt.Errorf("revision %d: %w", last, err)
		}
		if previous == nil {
			return nil, last, fmt.Errorf("%w: revision %d is to be followed in the hash chain, and is not in it", store.ErrCorrupt, last)
		}
	}
	has, err := links(ctx, tx, h, last, limit)
	if err != nil || len(has) == 0 {
		return nil, last, err
	}
	commits, err := selectedCommits(ctx, tx, `SELECT `+commitColumns+` FROM commits WHERE revision > $1 ORDER BY revision LIMIT $2`, int64(last), limit)
	if err == nil {
		commits, err = page(ctx, tx, commits)
	}
	if err == nil {
		err = addChanges(ctx, tx, commits)
	}
	if err != nil {
		return nil, last, err
	}
	for i, c := range commits {
		link := has[i]
		if link.Hash == nil {
			link = store.NextLink(previous, nil, c)
			missing = append(missing, link)
		}
		previous, last = link.Hash, c.Revision
	}
	return missing, last, nil
}

// FillChain implements [store.Chained]. Commits that have begun are waited for, as for CommitLocked; one that waits meanwhile
// finds that the commit before it is in the chain now, and is computed again.
func (s *Store) FillChain(ctx context.Context, after fleet.Revision, limit int) (last fleet.Revision, err error) {
	last = after
	err = s.write(ctx, Job{Doing: "adding to the hash chain", Mode: Locked}, func(ctx context.Context, tx WriteTx, h HeadRow) error {
		var links []store.Link
		if links, last, err = unchained(ctx, tx, h, after, limit); err != nil {
			return err
		}
		for _, l := range links {
			if err := tx.Queue(ctx, nil, `UPDATE commits SET previous = $1, hash = $2, checkpoint = $3 WHERE revision = $4 AND hash IS NULL`,
				l.Previous, l.Hash, l.Checkpoint, int64(l.Revision)); err != nil {
				return err
			}
		}
		return tx.Queue(ctx, nil, fillHead)
	})
	return last, err
}

// fillHead gives the head the hash of its commit.
const fillHead = `UPDATE head SET hash = (SELECT hash FROM commits WHERE commits.revision = head.revision)`

// SetCheckpoint implements [store.Chained].
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
