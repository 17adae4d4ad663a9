package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func addChanges(ctx context.Context, tx Tx, commits []fleet.Commit) error {
	to := byRevision(commits)
	among, arg := tx.OneOf("c.revision", "$1", revisions(commits))
	result, err := tx.QueryRows(ctx, `SELECT `+rowColumns+` FROM `+rowTables+` WHERE `+among+` ORDER BY c.revision, c.seq`, arg)
	rows, err := collectRows(ctx, result, err)
	if err != nil {
		return err
	}
	changes, err := bodies(ctx, tx, rows)
	if err != nil {
		return err
	}
	for i, ch := range changes {
		c, err := commitOf(to, rows[i].Revision)
		if err != nil {
			return err
		}
		c.Changes = append(c.Changes, ch)
	}
	return nil
}

func byRevision(commits []fleet.Commit) map[fleet.Revision]*fleet.Commit {
	to := make(map[fleet.Revision]*fleet.Commit, len(commits))
	for i := range commits {
		to[commits[i].Revision] = &commits[i]
	}
	return to
}

// commitOf returns the commit that a row belongs to. If there is none, the error is ErrCorrupt: in a damaged file, an index may return
// rows of a revision that was not requested.
func commitOf[C any](commits map[fleet.Revision]*C, rev fleet.Revision) (*C, error) {
	if c := commits[rev]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: an index returned a change of revision %d, which was not requested", store.ErrCorrupt, rev)
}

// kept returns the remains of the commits before the oldest complete one.
func kept(ctx context.Context, tx Tx, h HeadRow, after, oldest fleet.Revision, limit int) ([]fleet.Commit, error) {
	if max(h.Oldest, 1) != max(oldest, 1) {
		return nil, compacted(h.Oldest)
	}
	commits, err := selectedCommits(ctx, tx, `SELECT `+commitColumns+` FROM commits WHERE revision > $1 AND revision < $2 ORDER BY revision LIMIT $3`,
		int64(after), int64(oldest), limit)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	to := byRevision(commits)
	among, arg := tx.OneOf("c.revision", "$1", revisions(commits))
	// For most of them only the creation and its time are kept: the later changes needed to unpack the documents are gone.
	result, err := tx.QueryRows(ctx, `SELECT c.action, EXISTS (SELECT 1 FROM changes l WHERE l.kind = c.kind AND l.id = c.id
		AND l.revision > c.revision AND l.revision <= $2), `+rowColumns+` FROM `+rowTables+` WHERE `+among+`
		ORDER BY c.revision, c.seq`, arg, int64(oldest))
	type row struct {
		logRow
		action  string
		outdone bool
	}
	rows, err := collect(result, err, func(rows Rows, r *row) error {
		store.Touch(ctx)
		return rows.Scan(append([]any{&r.action, &r.outdone}, r.fields()...)...)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		ch := fleet.Change{Kind: r.Kind, ID: r.ID, Before: json.RawMessage(`{}`), After: json.RawMessage(`{}`)}
		if !r.outdone {
			found, err := bodies(ctx, tx, []logRow{r.logRow})
			if err != nil {
				return nil, err
			}
			ch = found[0]
		}
		if r.action == "create" { // also of a cluster that was decommissioned before
			ch.Before = nil
		}
		c, err := commitOf(to, r.Revision)
		if err != nil {
			return nil, err
		}
		c.Changes = append(c.Changes, ch)
	}
	return commits, nil
}

// changes returns the changes of one revision, as many as fit into a page.
func changes(ctx context.Context, tx Tx, h HeadRow, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	if rev < h.Oldest {
		return nil, compacted(h.Oldest)
	}
	page, err := changePage(ctx, tx, rev, offset, limit)
	if err != nil {
		return nil, err
	}
	found, err := bodies(ctx, tx, page)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// changePage reads at most limit changes of a revision, starting at offset. It returns fewer if they exceed pageBytes, but at
// least one. The cast is for PostgreSQL: without it $2 has the type of seq, a 32-bit integer, and a larger offset is an error.
func changePage(ctx context.Context, tx Tx, rev fleet.Revision, offset, limit int) (page []logRow, err error) {
	rows, err := tx.QueryRows(ctx, `SELECT `+rowColumns+` FROM `+rowTables+`
	WHERE c.revision = $1 AND c.seq >= CAST($2 AS bigint) ORDER BY c.seq LIMIT $3`,
		int64(rev), offset, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for bytes := int64(0); rows.Next(); {
		var r logRow
		if err := r.scan(ctx, rows); err != nil {
			return nil, err
		}
		if bytes += r.Bytes; bytes > pageBytes && len(page) > 0 {
			return page, nil
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// past returns documents at a revision.
func past(ctx context.Context, tx Tx, h HeadRow, q fleet.PastQuery) (fleet.Documents, error) {
	if q.At+1 < h.Oldest {
		return nil, compacted(h.Oldest)
	}
	if q.ID != "" {
		q.Documents = []fleet.DocumentName{{Kind: q.Kind, ID: q.ID}}
	}
	var rows []logRow
	var err error
	if len(q.Documents) > 0 {
		rows, err = pastOf(ctx, tx, q)
	} else {
		result, failed := tx.QueryRows(ctx, `SELECT `+rowColumns+` FROM `+rowTables+` WHERE c.revision > $1 AND c.revision <= $2
	AND NOT EXISTS (SELECT 1 FROM changes e WHERE e.kind = c.kind AND e.id = c.id AND e.revision > $1 AND e.revision < c.revision)`, int64(q.At), int64(q.UpTo))
		rows, err = collectRows(ctx, result, failed)
	}
	if err != nil {
		return nil, err
	}
	found, err := bodies(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	docs := fleet.Documents{}
	for _, ch := range found {
		docs.Set(ch.Kind, ch.ID, ch.Before)
	}
	return docs, nil
}

// at is a document as it was at a revision; false when there was none.
func at(ctx context.Context, tx Tx, h HeadRow, kind fleet.Kind, id string, rev fleet.Revision) (fleet.Record, bool, error) {
	if rev < h.Oldest {
		return fleet.Record{}, false, compacted(h.Oldest)
	}
	rec := fleet.Record{Kind: kind, ID: id}
	var action string
	var updated, created int64
	var row logRow
	to := append([]any{&rec.CommitID, &updated, &action}, row.fields()...)
	err := QueryOne(ctx, tx, to, `SELECT commits.id, at, action, `+rowColumns+` FROM `+rowTables+`
		JOIN commits ON commits.revision = c.revision
		WHERE c.kind = $1 AND c.id = $2 AND c.revision <= $3 ORDER BY c.revision DESC LIMIT 1`, string(kind), id, int64(rev))
	if errors.Is(err, errNoRow) || err == nil && action == "delete" {
		return fleet.Record{}, false, nil
	}
	if err != nil {
		return fleet.Record{}, false, err
	}
	changes, err := bodies(ctx, tx, []logRow{row})
	if err != nil {
		return fleet.Record{}, false, err
	}
	if err := QueryOne(ctx, tx, []any{&created}, `SELECT at FROM changes d JOIN commits ON commits.revision = d.revision
		WHERE kind = $1 AND d.id = $2 AND d.revision <= $3 AND action = 'create' ORDER BY d.revision DESC LIMIT 1`, string(kind), id, int64(rev)); err != nil {
		return fleet.Record{}, false, err
	}
	rec.Revision, rec.Body, rec.CreatedAt, rec.UpdatedAt = row.Revision, changes[0].After, microtime(created), microtime(updated)
	return rec, true, nil
}
