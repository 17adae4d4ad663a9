package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// documentLog are the changes of some documents. It first finds the newest revisions that changed any of them, then reads the
// changes of these revisions.
func documentLog(ctx context.Context, tx Tx, h HeadRow, q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	log := fleet.DocumentLog{Oldest: max(h.Oldest, 1)}
	documents, err := expand(ctx, tx, q.Documents)
	if err != nil {
		return log, err
	}
	first, documents, err := newestRevisions(ctx, tx, h, documents, q)
	if err != nil || len(documents) == 0 {
		return log, err
	}
	runs := map[fleet.DocumentName][]logRow{}
	err = tx.EachKey(ctx, keysOf(documents), `SELECT `+rowColumns+` FROM `+rowTables+` WHERE c.kind = $1 AND c.id = $2 AND c.revision >= $4 AND c.revision < $5
		ORDER BY c.revision DESC`, []any{int64(first), int64(q.Before)}, func(rows Rows) error {
		var r logRow
		err := r.scan(ctx, rows)
		name := fleet.DocumentName{Kind: r.Kind, ID: r.ID}
		runs[name] = append(runs[name], r)
		return err
	})
	if err != nil {
		return log, err
	}
	var newest []logRow
	for _, run := range runs {
		newest = append(newest, run[0])
	}
	ends, err := bodies(ctx, tx, newest)
	if err != nil {
		return log, err
	}
	for _, end := range ends {
		run := runs[fleet.DocumentName{Kind: end.Kind, ID: end.ID}]
		changes, err := changesOfRun(run, end.After)
		if err != nil {
			return log, err
		}
		for i, ch := range changes {
			log.Changes = append(log.Changes, fleet.DocumentChange{Revision: run[i].Revision, Change: ch})
		}
	}
	slices.SortFunc(log.Changes, func(a, b fleet.DocumentChange) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return log, nil
}

// maxSeeks is how many documents have their changes looked up by document. Of more, they are found by going back through all changes.
const maxSeeks = 256

// documentRevision is one change of one document.
type documentRevision struct {
	fleet.DocumentName
	revision fleet.Revision
	bytes    int64
}

func (d *documentRevision) scan(ctx context.Context, rows Rows) error {
	store.Touch(ctx)
	return rows.Scan(&d.Kind, &d.ID, &d.revision, &d.bytes)
}

// newestRevisions returns the oldest of the revisions that fit into a page, and the documents that changed from then on.
func newestRevisions(ctx context.Context, tx Tx, h HeadRow, documents []fleet.DocumentName, q fleet.DocumentLogQuery) (first fleet.Revision, changed []fleet.DocumentName, err error) {
	var all []documentRevision
	if len(documents) > maxSeeks {
		all, err = scanRevisions(ctx, tx, h, documents, q)
	} else {
		err = tx.EachKey(ctx, keysOf(documents), `SELECT c.kind, c.id, c.revision, c.bytes
		FROM changes c WHERE c.kind = $1 AND c.id = $2 AND c.revision < $4 AND c.revision >= $5 ORDER BY c.revision DESC LIMIT $6`, []any{int64(q.Before), int64(h.Oldest), int64(q.Limit)}, func(rows Rows) error {
			var c documentRevision
			err := c.scan(ctx, rows)
			all = append(all, c)
			return err
		})
	}
	if err != nil {
		return 0, nil, err
	}
	slices.SortFunc(all, func(a, b documentRevision) int { return cmp.Compare(b.revision, a.revision) })
	var page revisionPage
	for i := range all {
		if !page.add(all[i], q.Limit) {
			break
		}
	}
	seen := map[fleet.DocumentName]bool{}
	for _, c := range all {
		if c.revision >= page.first && !seen[c.DocumentName] {
			seen[c.DocumentName] = true
			changed = append(changed, c.DocumentName)
		}
	}
	return page.first, changed, nil
}

var errFull = errors.New("the page is full")

// scanRevisions returns the newest changes of some documents, newest first: those of a page, and maybe more. It reads the names of
// all changes, from one range of revisions to the one before.
func scanRevisions(ctx context.Context, tx Tx, h HeadRow, documents []fleet.DocumentName, q fleet.DocumentLogQuery) (all []documentRevision, err error) {
	wanted := make(map[fleet.DocumentName]bool, len(documents))
	for _, name := range documents {
		wanted[name] = true
	}
	var page revisionPage
	oldest := max(h.Oldest, 1)
	for end := min(q.Before, h.Revision+1); end > oldest; {
		begin := max(oldest, end-fleet.Revision(q.Limit))
		rows, err := tx.Query(ctx, `SELECT c.kind, c.id, c.revision, c.bytes
			FROM changes c WHERE c.revision >= $1 AND c.revision < $2 ORDER BY c.revision DESC`, int64(begin), int64(end))
		if err != nil {
			return nil, err
		}
		err = Each(rows, func(rows Rows) error {
			var c documentRevision
			if err := c.scan(ctx, rows); err != nil || !wanted[c.DocumentName] {
				return err
			}
			if all = append(all, c); !page.add(c, q.Limit) {
				return errFull
			}
			return nil
		})
		if errors.Is(err, errFull) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		end = begin
	}
	return all, nil
}

// revisionPage is how many of the newest revisions fit into a page.
type revisionPage struct {
	first, previous fleet.Revision // the oldest revision of the page, and the one that was added before it
	revisions       int
	size            int64
}

// add adds the next change, in descending order of revisions. False: its revision does not fit.
func (p *revisionPage) add(c documentRevision, limit int) bool {
	if c.revision != p.first {
		if p.revisions == limit {
			return false
		}
		p.first, p.previous, p.revisions = c.revision, p.first, p.revisions+1
	}
	if p.size += c.bytes; p.size > pageBytes && p.revisions > 1 {
		p.first = p.previous
		return false
	}
	return true
}

// expand replaces names of kinds by the names of their documents, and removes duplicates.
func expand(ctx context.Context, tx Tx, names []fleet.DocumentName) ([]fleet.DocumentName, error) {
	seen := map[fleet.DocumentName]bool{}
	var out []fleet.DocumentName
	add := func(name fleet.DocumentName) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	for _, name := range names {
		if name.ID != "" {
			add(name)
			continue
		}
		ids, err := Query(ctx, tx, func(rows Rows, id *string) error { return rows.Scan(id) }, `WITH RECURSIVE ids(id) AS (
		SELECT min(id) FROM changes WHERE kind = $1
		UNION ALL SELECT (SELECT min(c.id) FROM changes c WHERE c.kind = $1 AND c.id > ids.id) FROM ids WHERE ids.id IS NOT NULL)
	SELECT id FROM ids WHERE id IS NOT NULL`, string(name.Kind))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			add(fleet.DocumentName{Kind: name.Kind, ID: id})
		}
	}
	return out, nil
}

// pastOf returns the changes from which some documents at a revision are computed: the first change after it.
func pastOf(ctx context.Context, tx Tx, q fleet.PastQuery) (found []logRow, err error) {
	documents, err := expand(ctx, tx, q.Documents)
	if err != nil {
		return nil, err
	}
	err = tx.EachKey(ctx, keysOf(documents), `SELECT `+rowColumns+` FROM `+rowTables+` WHERE c.kind = $1 AND c.id = $2 AND c.revision > $4 AND c.revision <= $5
	ORDER BY c.revision LIMIT 1`, []any{int64(q.At), int64(q.UpTo)}, scanRow(ctx, &found))
	return found, err
}

func keysOf(documents []fleet.DocumentName) []Key {
	keys := make([]Key, len(documents))
	for i, d := range documents {
		keys[i] = Key{Kind: d.Kind, ID: d.ID}
	}
	return keys
}
