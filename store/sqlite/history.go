package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// selectCommits is a query for the commits that q asks for. columns may refer to the table commits.
func selectCommits(columns string, q store.HistoryQuery, oldest fleet.Revision) (query string, args []any) {
	var where []string
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	from, revision := `commits`, `commits.revision`
	switch {
	case q.ID != "": // a commit changes a document once, so this meets every commit once, in the order of the index
		from, revision = `changes d JOIN commits ON commits.revision = d.revision`, `d.revision`
		add(`d.kind = ? AND d.id = ?`, string(q.Kind), q.ID)
	case q.Kind != "":
		add(`EXISTS (SELECT 1 FROM changes WHERE changes.revision = commits.revision AND kind = ?)`, string(q.Kind))
	}
	if q.Actor != "" {
		add(`actor = ?`, q.Actor)
	}
	if !q.Since.IsZero() {
		add(`at >= ?`, q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		add(`at < ?`, q.Until.UnixMicro())
	}
	if q.Before != 0 {
		add(revision+` < ?`, int64(q.Before))
	}
	add(revision+` >= ?`, int64(oldest))
	return `SELECT ` + columns + ` FROM ` + from + ` WHERE ` + strings.Join(where, ` AND `) +
		` ORDER BY ` + revision + ` DESC LIMIT ?`, append(args, q.Limit)
}

// commitColumns are what queryCommits reads of a commit.
const commitColumns = `commits.revision, commits.id, at, actor, author, reason, request_id, operations`

// History implements [store.Store]. A follower asks it whether another history was accepted, and nobody else.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]fleet.Commit, error) {
	if err := backend.CheckHistory(q); err != nil {
		return nil, err
	}
	var commits []fleet.Commit
	err := s.read(ctx, "reading the history", func(tx *sql.Tx, h head) (err error) {
		query, args := selectCommits(commitColumns, q, h.oldest)
		commits, err = queryCommits(ctx, tx, query, args...)
		return err
	})
	return commits, err
}

// Summaries implements [store.Store].
func (s *Store) Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error) {
	if err := backend.CheckHistory(q); err != nil {
		return nil, err
	}
	var summaries []store.Summary
	err := s.recall(ctx, "reading the history", func(tx *sql.Tx, h head) error {
		query, args := selectCommits(commitColumns+`, coalesce((SELECT max(seq) + 1 FROM changes c WHERE c.revision = commits.revision), 0)`, q, h.oldest)
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		summaries, err = collect(rows, func(rows *sql.Rows, c *store.Summary) error {
			var at int64
			var operations string
			err := rows.Scan(&c.Revision, &c.ID, &at, &c.Actor, &c.Author, &c.Reason, &c.RequestID, &operations, &c.Count)
			c.At, c.Operations = microtime(at), backend.Operations(operations)
			return err
		})
		if err != nil {
			return err
		}
		return addNames(ctx, tx, summaries, names)
	})
	return summaries, err
}

func addNames(ctx context.Context, tx *sql.Tx, to []store.Summary, names int) error {
	index := make(map[fleet.Revision]*store.Summary, len(to))
	commits := make([]fleet.Commit, len(to))
	for i := range to {
		commits[i], index[to[i].Revision] = to[i].Commit, &to[i]
	}
	rows, err := tx.QueryContext(ctx, `SELECT revision, kind, id, action FROM changes
		WHERE revision IN (SELECT value FROM json_each(?)) AND seq < ? ORDER BY revision, seq`, revisions(commits), names)
	if err != nil {
		return err
	}
	type row struct {
		revision fleet.Revision
		store.ChangedName
	}
	changed, err := collect(rows, func(rows *sql.Rows, r *row) error {
		return rows.Scan(&r.revision, &r.Kind, &r.ID, &r.Action)
	})
	for _, r := range changed {
		c := index[r.revision]
		c.First = append(c.First, r.ChangedName)
	}
	return err
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	var changes []fleet.Change
	err := s.recall(ctx, "reading a revision", func(tx *sql.Tx, h head) error {
		if rev < h.oldest {
			return backend.Compacted(h.oldest)
		}
		page, err := changePage(ctx, tx, rev, offset, limit)
		if err != nil {
			return err
		}
		found, err := bodies(ctx, tx, page.Rows)
		if len(found) > 0 {
			changes = found
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

func changePage(ctx context.Context, tx *sql.Tx, rev fleet.Revision, offset, limit int) (page backend.ChangePage, err error) {
	rows, err := tx.QueryContext(ctx, backend.SelectChanges, int64(rev), offset, limit)
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r backend.Row
		store.Advance(ctx)
		if err := rows.Scan(r.Fields()...); err != nil {
			return page, err
		}
		if !page.Add(r) {
			return page, nil
		}
	}
	return page, rows.Err()
}

// Past implements [store.Store]. Commits that restore something depend on it, so it waits for nobody.
func (s *Store) Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error) {
	var docs fleet.Documents
	err := s.read(ctx, "reading the past", func(tx *sql.Tx, h head) error {
		if q.At+1 < h.oldest {
			return backend.Compacted(h.oldest)
		}
		query, args := backend.PastQuery(q)
		rows, err := queryRows(ctx, tx, query, args...)
		if err != nil {
			return err
		}
		found, err := bodies(ctx, tx, rows)
		docs = fleet.Documents{}
		for _, ch := range found {
			docs.Set(ch.Kind, ch.ID, ch.Before)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// At implements [store.Store].
func (s *Store) At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (rec fleet.Record, found bool, err error) {
	err = s.recall(ctx, "reading the history", func(tx *sql.Tx, h head) error {
		if rev < h.oldest {
			return backend.Compacted(h.oldest)
		}
		var action string
		var updated, created int64
		var row backend.Row
		err := tx.QueryRowContext(ctx, `SELECT commits.id, at, action, `+backend.RowColumns+` FROM `+backend.RowTables+`
			JOIN commits ON commits.revision = c.revision
			WHERE c.kind = ? AND c.id = ? AND c.revision <= ? ORDER BY c.revision DESC LIMIT 1`, string(kind), id, int64(rev)).
			Scan(append([]any{&rec.CommitID, &updated, &action}, row.Fields()...)...)
		if errors.Is(err, sql.ErrNoRows) || err == nil && action == "delete" {
			rec = fleet.Record{}
			return nil
		}
		if err != nil {
			return err
		}
		changes, err := bodies(ctx, tx, []backend.Row{row})
		if err != nil {
			return err
		}
		rec.Revision, rec.Body = row.Revision, changes[0].After
		err = tx.QueryRowContext(ctx, `SELECT at FROM changes d JOIN commits ON commits.revision = d.revision
			WHERE kind = ? AND d.id = ? AND d.revision <= ? AND action = 'create' ORDER BY d.revision DESC LIMIT 1`, string(kind), id, int64(rev)).
			Scan(&created)
		rec.Kind, rec.ID, rec.CreatedAt, rec.UpdatedAt, found = kind, id, microtime(created), microtime(updated), true
		return err
	})
	return rec, found && err == nil, err
}
