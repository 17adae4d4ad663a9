package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var selectHead = sqlstore.HeadQuery(`pg_is_in_recovery()`)

// readHead reads the head, and refuses when the schema is not the one of this binary.
func (s *Store) readHead(ctx context.Context, tx sqlstore.Tx) (sqlstore.HeadRow, error) {
	return sqlstore.ReadHead(ctx, tx, selectHead, newestVersion(), s.name)
}

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx, sqlstore.HeadRow) error) error {
	inner, cancel := s.patiently(ctx)
	defer cancel()
	c, err := s.begin(inner, snapshot, answerTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	return s.translate(ctx, doing, c.end(f(inner, reading{c.tx}, c.head)))
}

// recall is read for users who read the history, of whom there may be any number.
func (s *Store) recall(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx, sqlstore.HeadRow) error) error {
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

// reading is a transaction as package sqlstore uses it.
type reading struct{ querier }

var _ sqlstore.Tx = reading{}

// result is a result with a Close that returns no error.
type result struct{ pgx.Rows }

// Close implements [sqlstore.Rows].
func (r result) Close() error { r.Rows.Close(); return nil }

// Query implements [sqlstore.Tx].
func (r reading) Query(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	rows, err := r.querier.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return result{rows}, nil
}

// QueryRows implements [sqlstore.Tx].
func (r reading) QueryRows(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	return r.Query(ctx, query, inBinary(args...)...)
}

// inBinary makes the answer to a question half as large where it holds bytes. A question that is put so comes in several
// messages: not in a transaction that has locked something.
func inBinary(args ...any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// OneOf implements [sqlstore.Tx].
func (reading) OneOf(column, parameter string, revisions []int64) (condition string, arg any) {
	return column + ` = ANY (` + parameter + `::bigint[])`, revisions
}

// EachDocument implements [sqlstore.Tx]. It is one query, so that the number of documents does not multiply round trips.
func (r reading) EachDocument(ctx context.Context, documents []fleet.DocumentName, query string, args []any, scan func(sqlstore.Rows) error) error {
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
	return sqlstore.Each(rows, scan)
}

// laterChanges is backend.LaterChanges for many changes at once. OFFSET keeps the subqueries separate, so each uses an index:
// other plans are slow in a log of millions.
var laterChanges = `SELECT l.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n(kind, id, revision)
	CROSS JOIN LATERAL (` + strings.NewReplacer("$1", "n.kind", "$2", "n.id", "$3", "n.revision").Replace(backend.LaterChanges) + ` OFFSET 0) AS l`

// LaterChanges implements [sqlstore.Tx].
func (r reading) LaterChanges(ctx context.Context, of []*backend.Row) ([]backend.Row, error) {
	kinds, ids, revisions := make([]string, len(of)), make([]string, len(of)), make([]int64, len(of))
	for i, row := range of {
		kinds[i], ids[i], revisions[i] = string(row.Kind), row.ID, int64(row.Revision)
	}
	rows, err := r.QueryRows(ctx, laterChanges, kinds, ids, revisions)
	return sqlstore.CollectRows(ctx, rows, err)
}
