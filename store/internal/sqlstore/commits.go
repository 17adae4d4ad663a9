package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// commitColumns are the columns that selectedCommits reads of a commit.
const commitColumns = `commits.revision, commits.id, at, actor, author, reason, request_id, operations`

// since returns the commits after a head.
func since(ctx context.Context, tx Tx, h HeadRow, after fleet.Head, limit int) ([]fleet.Commit, error) {
	if after == h.Head {
		return nil, nil
	}
	if err := h.reached(after); err != nil {
		return nil, err
	}
	if err := checkHeadInLog(ctx, tx, after, h); err != nil {
		return nil, err
	}
	commits, err := selectedCommits(ctx, tx, `SELECT `+commitColumns+` FROM commits WHERE revision > $1 ORDER BY revision LIMIT $2`, int64(after.Revision), limit)
	if err == nil {
		err = checkLog(commits, after, h.Head, limit)
	}
	if err == nil {
		commits, err = page(ctx, tx, commits)
	}
	if err == nil {
		err = addChanges(ctx, tx, commits)
	}
	if err != nil {
		return nil, err
	}
	return commits, nil
}

// compacted is store.ErrCompacted for a log that starts at a revision.
func compacted(oldest fleet.Revision) error {
	return fmt.Errorf("%w: it starts at revision %d", store.ErrCompacted, oldest)
}

// checkHeadInLog returns nil if the log contains the commit that after names, else ErrDiverged or ErrCompacted.
func checkHeadInLog(ctx context.Context, tx Tx, after fleet.Head, h HeadRow) error {
	if after.Revision >= h.Revision {
		return fmt.Errorf("%w: revision %d is not a past of the head, revision %d", store.ErrDiverged, after.Revision, h.Revision)
	}
	var first *int64 // nil: there is no commit
	if err := QueryOne(ctx, tx, []any{&first}, `SELECT min(revision) FROM commits`); err != nil {
		return err
	}
	if first == nil {
		first = new(int64)
	}
	if h.Oldest > 1 && after.Revision < h.Oldest {
		return compacted(h.Oldest)
	}
	if after == (fleet.Head{}) {
		if *first != 1 {
			return compacted(fleet.Revision(*first))
		}
		return nil
	}
	var id uuid.UUID
	err := QueryOne(ctx, tx, []any{&id}, `SELECT id FROM commits WHERE revision = $1`, int64(after.Revision))
	switch {
	case errors.Is(err, errNoRow) && int64(after.Revision) < *first && after.Revision > 0:
		return compacted(fleet.Revision(*first))
	case errors.Is(err, errNoRow):
		return fmt.Errorf("%w: it has no revision %d", store.ErrDiverged, after.Revision)
	case err != nil:
		return err
	case id != after.ID:
		return fmt.Errorf("%w: revision %d is commit %s there and %s here", store.ErrDiverged, after.Revision, id, after.ID)
	}
	return nil
}

// pageBytes limits the bytes of documents of a log that are in memory at once, unless one commit alone has more: a commit may
// change a whole fleet, and a hundred of them would exhaust the memory.
const pageBytes = 16 << 20

// page returns the commits that Since may return at once.
func page(ctx context.Context, tx Tx, commits []fleet.Commit) ([]fleet.Commit, error) {
	if len(commits) < 2 {
		return commits, nil
	}
	among, arg := tx.OneOf("revision", "$1", revisions(commits))
	rows, err := tx.Query(ctx, `SELECT revision, CAST(sum(bytes) AS bigint) FROM changes WHERE `+among+` GROUP BY revision`, arg)
	if err != nil {
		return nil, err
	}
	sizes := make(map[fleet.Revision]int64, len(commits))
	err = Each(rows, func(rows Rows) error {
		var revision fleet.Revision
		var bytes int64
		err := rows.Scan(&revision, &bytes)
		sizes[revision] = bytes
		return err
	})
	var total int64
	for i, c := range commits {
		if total += sizes[c.Revision]; total > pageBytes && i > 0 {
			return commits[:i], err
		}
	}
	return commits, err
}

func revisions(commits []fleet.Commit) []int64 {
	all := make([]int64, len(commits))
	for i, c := range commits {
		all[i] = int64(c.Revision)
	}
	return all
}

// selectedCommits runs a query for commitColumns.
func selectedCommits(ctx context.Context, tx Tx, query string, args ...any) ([]fleet.Commit, error) {
	return Query(ctx, tx, func(rows Rows, c *fleet.Commit) error { return scanCommit(rows, c) }, query, args...)
}

// scanCommit scans commitColumns, and further ones.
func scanCommit(rows Rows, c *fleet.Commit, more ...any) error {
	var at int64
	var operations string
	err := rows.Scan(append([]any{&c.Revision, &c.ID, &at, &c.Actor, &c.Author, &c.Reason, &c.RequestID, &operations}, more...)...)
	c.At = microtime(at)
	if operations != "" {
		c.Operations = json.RawMessage(operations)
	}
	return err
}

// selectCommits is a query for the commits that q asks for. columns may refer to the table commits.
func selectCommits(tx Tx, columns string, q store.HistoryQuery, oldest fleet.Revision) (query string, args []any) {
	var where []string
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	add := func(condition string) { where = append(where, condition) }
	from, revision := `commits`, `commits.revision`
	switch {
	case q.ID != "": // a commit changes a document once, so this meets every commit once, in the order of the index
		from, revision = `changes d JOIN commits ON commits.revision = d.revision`, `d.revision`
		add(`d.kind = ` + arg(string(q.Kind)) + ` AND d.id = ` + arg(q.ID))
	case q.Kind != "":
		add(`EXISTS (SELECT 1 FROM changes WHERE changes.revision = commits.revision AND kind = ` + arg(string(q.Kind)) + `)`)
	}
	if q.Actor != "" {
		add(`actor = ` + arg(q.Actor))
	}
	if !q.Since.IsZero() {
		add(`at >= ` + arg(q.Since.UnixMicro()))
	}
	if !q.Until.IsZero() {
		add(`at < ` + arg(q.Until.UnixMicro()))
	}
	if q.Before != 0 {
		add(revision + ` < ` + arg(int64(q.Before)))
	}
	if len(q.Among) > 0 {
		all := make([]int64, len(q.Among))
		for i, rev := range q.Among {
			all[i] = int64(rev)
		}
		among, list := tx.OneOf(revision, fmt.Sprintf("$%d", len(args)+1), all)
		args = append(args, list)
		add(among)
	}
	add(revision + ` >= ` + arg(int64(oldest)))
	return `SELECT ` + columns + ` FROM ` + from + ` WHERE ` + strings.Join(where, ` AND `) +
		` ORDER BY ` + revision + ` DESC LIMIT ` + arg(q.Limit), args
}

// history is the commits that q asks for, with all their changes.
func history(ctx context.Context, tx Tx, h HeadRow, q store.HistoryQuery) ([]fleet.Commit, error) {
	query, args := selectCommits(tx, commitColumns, q, h.Oldest)
	commits, err := selectedCommits(ctx, tx, query, args...)
	if err == nil && len(commits) > 0 {
		err = addChanges(ctx, tx, commits)
	}
	if err != nil {
		return nil, err
	}
	return commits, nil
}

// summaries is History without documents.
func summaries(ctx context.Context, tx Tx, h HeadRow, q store.HistoryQuery, names int) ([]store.Summary, error) {
	query, args := selectCommits(tx, commitColumns+`, coalesce((SELECT max(seq) + 1 FROM changes c WHERE c.revision = commits.revision), 0)`, q, h.Oldest)
	summaries, err := Query(ctx, tx, func(rows Rows, c *store.Summary) error { return scanCommit(rows, &c.Commit, &c.Count) }, query, args...)
	if err != nil {
		return nil, err
	}
	return summaries, addNames(ctx, tx, summaries, names)
}

func addNames(ctx context.Context, tx Tx, to []store.Summary, names int) error {
	index := make(map[fleet.Revision]*store.Summary, len(to))
	all := make([]int64, len(to))
	for i := range to {
		all[i], index[to[i].Revision] = int64(to[i].Revision), &to[i]
	}
	among, arg := tx.OneOf("revision", "$1", all)
	rows, err := tx.Query(ctx, `SELECT revision, kind, id, action FROM changes WHERE `+among+` AND seq < $2 ORDER BY revision, seq`, arg, names)
	if err != nil {
		return err
	}
	return Each(rows, func(rows Rows) error {
		var revision fleet.Revision
		var name store.ChangedName
		if err := rows.Scan(&revision, &name.Kind, &name.ID, &name.Action); err != nil {
			return err
		}
		c, err := commitOf(index, revision)
		if err != nil {
			return err
		}
		c.First = append(c.First, name)
		return nil
	})
}
