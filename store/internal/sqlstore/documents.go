package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
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
	runs := map[fleet.DocumentName][]backend.Row{}
	err = tx.EachDocument(ctx, documents, backend.SelectRun, []any{int64(first), int64(q.Before)}, func(rows Rows) error {
		var r backend.Row
		store.Touch(ctx)
		err := rows.Scan(r.Fields()...)
		name := fleet.DocumentName{Kind: r.Kind, ID: r.ID}
		runs[name] = append(runs[name], r)
		return err
	})
	if err != nil {
		return log, err
	}
	var newest []backend.Row
	for _, run := range runs {
		newest = append(newest, run[0])
	}
	ends, err := Bodies(ctx, tx, newest)
	if err != nil {
		return log, err
	}
	for _, end := range ends {
		run := runs[fleet.DocumentName{Kind: end.Kind, ID: end.ID}]
		changes, err := backend.Run(run, end.After)
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

// newestRevisions returns the oldest of the revisions that fit into a page, and the documents that changed from then on.
func newestRevisions(ctx context.Context, tx Tx, h HeadRow, documents []fleet.DocumentName, q fleet.DocumentLogQuery) (first fleet.Revision, changed []fleet.DocumentName, err error) {
	type change struct {
		fleet.DocumentName
		revision fleet.Revision
		bytes    int64
	}
	var all []change
	err = tx.EachDocument(ctx, documents, backend.SelectRevisions, []any{int64(q.Before), int64(h.Oldest), int64(q.Limit)}, func(rows Rows) error {
		var c change
		store.Touch(ctx)
		err := rows.Scan(&c.Kind, &c.ID, &c.revision, &c.bytes)
		all = append(all, c)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(b.revision, a.revision) })
	revisions, size := 0, int64(0)
	for i := 0; i < len(all); {
		revision, bytes := all[i].revision, int64(0)
		for ; i < len(all) && all[i].revision == revision; i++ {
			bytes += all[i].bytes
		}
		if size += bytes; revisions == q.Limit || revisions > 0 && size > backend.PageBytes {
			break
		}
		revisions, first = revisions+1, revision
	}
	seen := map[fleet.DocumentName]bool{}
	for _, c := range all {
		if c.revision >= first && !seen[c.DocumentName] {
			seen[c.DocumentName] = true
			changed = append(changed, c.DocumentName)
		}
	}
	return first, changed, nil
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
		rows, err := tx.Query(ctx, backend.SelectIDs, string(name.Kind))
		if err != nil {
			return nil, err
		}
		ids, err := Collect(rows, func(rows Rows, id *string) error { return rows.Scan(id) })
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
func pastOf(ctx context.Context, tx Tx, q fleet.PastQuery) (found []backend.Row, err error) {
	documents, err := expand(ctx, tx, q.Documents)
	if err != nil {
		return nil, err
	}
	err = tx.EachDocument(ctx, documents, backend.SelectPastOf, []any{int64(q.At), int64(q.UpTo)}, func(rows Rows) error {
		var r backend.Row
		store.Touch(ctx)
		err := rows.Scan(r.Fields()...)
		found = append(found, r)
		return err
	})
	return found, err
}
