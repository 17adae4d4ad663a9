package sqlstore

import (
	"context"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// links returns the links of the commits after a revision.
func links(ctx context.Context, tx Tx, h HeadRow, after fleet.Revision, limit int) ([]store.Link, error) {
	rows, err := tx.Query(ctx, `SELECT revision, previous, hash, checkpoint FROM commits WHERE revision > $1 AND revision >= $2
		ORDER BY revision LIMIT $3`, int64(after), int64(h.Oldest), limit)
	if err != nil {
		return nil, err
	}
	return Collect(rows, func(rows Rows, l *store.Link) error {
		store.Touch(ctx)
		return rows.Scan(&l.Revision, &l.Previous, &l.Hash, &l.Checkpoint)
	})
}

// Unchained computes the links of commits after a revision that are not in the chain yet, of at most limit commits. It also
// returns the last of these commits.
func Unchained(ctx context.Context, tx Tx, h HeadRow, after fleet.Revision, limit int) (missing []store.Link, last fleet.Revision, err error) {
	last = max(after, h.Oldest-1)
	var previous []byte
	if last > 0 && last >= h.Oldest {
		rows, err := tx.Query(ctx, `SELECT hash FROM commits WHERE revision = $1`, int64(last))
		if err := One(rows, err, &previous); err != nil {
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
	commits, err := commitRows(ctx, tx, `SELECT `+commitColumns+` FROM commits WHERE revision > $1 ORDER BY revision LIMIT $2`, int64(last), limit)
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

// FillLink gives the commit of revision $4 its link.
const FillLink = `UPDATE commits SET previous = $1, hash = $2, checkpoint = $3 WHERE revision = $4 AND hash IS NULL`

// FillHead gives the head the hash of its commit, which FillLink may have written.
const FillHead = `UPDATE head SET hash = (SELECT hash FROM commits WHERE commits.revision = head.revision)`

// SetCheckpoint replaces the checkpoint by $1 when the log begins with revision $2.
const SetCheckpoint = `UPDATE head SET checkpoint = $1 WHERE oldest = $2`
