package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var selectHead = sqlstore.HeadQuery(`pg_is_in_recovery()`)

// readHead reads the head, and refuses when the schema is not the one of this binary.
func (s *Store) readHead(ctx context.Context, tx sqlstore.Tx) (sqlstore.HeadRow, error) {
	return sqlstore.ReadHead(ctx, tx, selectHead, newestVersion(), s.name)
}

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx, sqlstore.HeadRow) error) error {
	if err := s.first.Wait(ctx); err != nil {
		return err
	}
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

// EachKey implements [sqlstore.Tx]. It is one query, so that the number of keys does not multiply round trips. OFFSET keeps the
// subqueries separate, so each uses an index: other plans are slow in a log of millions.
func (r reading) EachKey(ctx context.Context, keys []sqlstore.Key, query string, args []any, scan func(sqlstore.Rows) error) error {
	kinds, ids, revisions := make([]string, len(keys)), make([]string, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		kinds[i], ids[i], revisions[i] = string(k.Kind), k.ID, int64(k.Revision)
	}
	each := `SELECT l.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n(kind, id, revision) CROSS JOIN LATERAL (` +
		strings.NewReplacer("$1", "n.kind", "$2", "n.id", "$3", "n.revision").Replace(query) + ` OFFSET 0) AS l`
	rows, err := r.QueryRows(ctx, each, append([]any{kinds, ids, revisions}, args...)...)
	if err != nil {
		return err
	}
	return sqlstore.Each(rows, scan)
}
