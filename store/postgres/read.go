package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqllog"
)

// head is the row every commit moves.
type head struct {
	sqllog.HeadRow
	standby bool // it was read on a server that follows another one
}

// readHead reads the head, and refuses when the schema is no longer the one this binary knows: another process may
// have migrated the database since we opened it.
func readHead(ctx context.Context, q querier, name string) (head, error) {
	return scanHead(q.QueryRow(ctx, selectHead), name)
}

// lockHead is readHead once no commit is under way, and until the transaction ends there will be none.
func lockHead(ctx context.Context, q querier, name string) (head, error) {
	return scanHead(q.QueryRow(ctx, selectHead+` FOR SHARE OF h`), name)
}

const selectHead = `SELECT h.revision, h.commit_id, h.at, h.documents, h.oldest, h.hold, h.hash, h.checkpoint, v.version, v.dirty, pg_is_in_recovery()
	FROM head h LEFT JOIN ` + versionTable + ` v ON true`

func scanHead(row pgx.Row, name string) (head, error) {
	var h head
	var version sql.NullInt64
	var dirty sql.NullBool
	err := row.Scan(&h.Revision, &h.ID, &h.At, &h.Documents, &h.Oldest, &h.Quarantine, &h.Hash, &h.Checkpoint, &version, &dirty, &h.standby)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return h, fmt.Errorf("%w: the row that names the head is gone", store.ErrCorrupt)
	case err != nil:
		return h, err
	}
	return h, backend.Schema{Version: int(version.Int64), Dirty: dirty.Bool}.Fits(newestVersion(), name)
}

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(context.Context, pgx.Tx, head) error) error {
	inner, cancel := s.patiently(ctx)
	defer cancel()
	c, err := s.begin(inner, snapshot, answerTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	return s.translate(ctx, doing, c.end(f(inner, c.tx, c.head)))
}

// recall is read for users who read the history, of whom there may be any number.
func (s *Store) recall(ctx context.Context, doing string, f func(context.Context, pgx.Tx, head) error) error {
	if store.HasPriority(ctx) {
		return s.read(ctx, doing, f)
	}
	waiting, cancel := s.within(ctx, readTimeout)
	defer cancel()
	if err := s.take(waiting, s.recalls); err != nil {
		return s.translate(ctx, doing, err)
	}
	defer func() { <-s.recalls }()
	return s.read(ctx, doing, f)
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context) (snap store.Snapshot, err error) {
	err = s.read(ctx, "loading the fleet", func(ctx context.Context, tx pgx.Tx, h head) (err error) {
		snap, err = sqllog.Load(ctx, reading{tx}, h.HeadRow)
		return err
	})
	return snap, err
}

// Since implements [store.Store]. It returns ErrCompacted also if the log was shortened by hand.
func (s *Store) Since(ctx context.Context, after fleet.Head, limit int) (commits []fleet.Commit, err error) {
	if limit < 1 {
		return nil, fmt.Errorf("commits since revision %d: the limit is %d", after.Revision, limit)
	}
	err = s.read(ctx, "reading the log", func(ctx context.Context, tx pgx.Tx, h head) (err error) {
		if err := h.reached(after); err != nil {
			return err
		}
		commits, err = sqllog.Since(ctx, reading{tx}, h.HeadRow, after, limit)
		return err
	})
	return commits, err
}

// Latest implements [store.Store].
func (s *Store) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (now fleet.Head, docs map[string]json.RawMessage, err error) {
	err = s.read(ctx, "reading what has changed", func(ctx context.Context, tx pgx.Tx, h head) (err error) {
		if err := h.reached(after); err != nil {
			return err
		}
		now = h.Head
		docs, err = sqllog.Latest(ctx, reading{tx}, h.HeadRow, kind, after)
		return err
	})
	if err != nil {
		return fleet.Head{}, nil, err
	}
	return now, docs, nil
}

// reached refuses to judge a head that a standby has yet to come to. One standby may be behind another, and every standby
// behind its primary. That is no other history, and taking it for one would turn this process's State back.
func (h head) reached(after fleet.Head) error {
	if after.Revision > h.Revision && h.standby {
		return fmt.Errorf("%w: this standby has reached revision %d and not yet %d", store.ErrUnavailable, h.Revision, after.Revision)
	}
	return nil
}

// reading is a transaction as package sqllog asks it.
type reading struct{ querier }

var _ sqllog.Tx = reading{}

// result is a result with a Close that returns no error.
type result struct{ pgx.Rows }

// Close implements [sqllog.Rows].
func (r result) Close() error { r.Rows.Close(); return nil }

// Query implements [sqllog.Tx].
func (r reading) Query(ctx context.Context, query string, args ...any) (sqllog.Rows, error) {
	rows, err := r.querier.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return result{rows}, nil
}

// QueryRows implements [sqllog.Tx].
func (r reading) QueryRows(ctx context.Context, query string, args ...any) (sqllog.Rows, error) {
	return r.Query(ctx, query, inBinary(args...)...)
}

// inBinary makes the answer to a question half as large where it holds bytes. A question that is put so comes in several
// messages: not in a transaction that has locked something.
func inBinary(args ...any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// OneOf implements [sqllog.Tx].
func (reading) OneOf(column, parameter string, revisions []int64) (condition string, arg any) {
	return column + ` = ANY (` + parameter + `::bigint[])`, revisions
}

// EachDocument implements [sqllog.Tx]. It is one query, so that the number of documents does not multiply round trips.
func (r reading) EachDocument(ctx context.Context, documents []fleet.DocumentName, query string, args []any, scan func(sqllog.Rows) error) error {
	kinds, ids := make([]string, len(documents)), make([]string, len(documents))
	for i, d := range documents {
		kinds[i], ids[i] = string(d.Kind), d.ID
	}
	each := `SELECT l.* FROM unnest($1::text[], $2::text[]) AS n(kind, id) CROSS JOIN LATERAL (` +
		strings.NewReplacer("$1", "n.kind", "$2", "n.id").Replace(query) + ` OFFSET 0) AS l`
	rows, err := r.QueryRows(ctx, each, append([]any{kinds, ids}, args...)...)
	if err != nil {
		return err
	}
	return sqllog.Each(rows, scan)
}

// laterChanges is backend.LaterChanges for many changes at once. OFFSET keeps the subqueries separate, so each uses an index:
// other plans are slow in a log of millions.
var laterChanges = `SELECT l.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n(kind, id, revision)
	CROSS JOIN LATERAL (` + strings.NewReplacer("$1", "n.kind", "$2", "n.id", "$3", "n.revision").Replace(backend.LaterChanges) + ` OFFSET 0) AS l`

// LaterChanges implements [sqllog.Tx].
func (r reading) LaterChanges(ctx context.Context, of []*backend.Row) ([]backend.Row, error) {
	kinds, ids, revisions := make([]string, len(of)), make([]string, len(of)), make([]int64, len(of))
	for i, row := range of {
		kinds[i], ids[i], revisions[i] = string(row.Kind), row.ID, int64(row.Revision)
	}
	rows, err := r.QueryRows(ctx, laterChanges, kinds, ids, revisions)
	return sqllog.CollectRows(ctx, rows, err)
}
