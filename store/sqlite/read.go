package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var selectHead = sqlstore.HeadQuery(`false`)

// readHead reads the head, and refuses when the schema is not the one of this binary.
func readHead(ctx context.Context, tx sqlstore.Tx) (sqlstore.HeadRow, error) {
	h, err := sqlstore.ReadHead(ctx, tx, selectHead, newestVersion(), "the database")
	if hasCode(err, sqlite3.SQLITE_ERROR) {
		err = fmt.Errorf("%w: %w", store.ErrSchema, err) // a table of ours is missing
	}
	return h, err
}

// ask is [sqlstore.Dialect.Ask].
func (s *Store) ask(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx) error) error {
	h, err := s.handles(ctx)
	if err != nil {
		return err
	}
	return translate(ctx, doing, f(ctx, reading{h.reader.QueryContext}))
}

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx, sqlstore.HeadRow) error) error {
	h, err := s.handles(ctx)
	if err != nil {
		return err
	}
	conn, err := h.reader.Conn(ctx)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer func() { _ = conn.Close() }() // back into the pool, unless it was thrown away
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		discard(conn)
		return translate(ctx, doing, err)
	}
	defer func() {
		if tx.Rollback() != nil { // it ended with ctx, with an unknown result
			discard(conn)
		}
	}()
	at, err := readHead(ctx, reading{tx.QueryContext})
	if err == nil {
		err = f(ctx, reading{tx.QueryContext}, at)
	}
	return translate(ctx, doing, err)
}

// recall is read for users who read the history. It always leaves connections for the follower and for commits.
func (s *Store) recall(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx, sqlstore.HeadRow) error) error {
	if store.HasPriority(ctx) {
		return s.read(ctx, doing, f)
	}
	select {
	case s.recalls <- struct{}{}:
	case <-ctx.Done():
		return translate(ctx, doing, ctx.Err())
	}
	defer func() { <-s.recalls }()
	return s.read(ctx, doing, f)
}

// reading is a pool, a connection or a transaction as package sqlstore uses it.
type reading struct {
	query func(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

var _ sqlstore.Tx = reading{}

// Query implements [sqlstore.Tx].
func (r reading) Query(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	rows, err := r.query(ctx, query, args...) //nolint:rowserrcheck // sqlstore.Each checks it
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// QueryRows implements [sqlstore.Tx].
func (r reading) QueryRows(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	return r.Query(ctx, query, args...)
}

// OneOf implements [sqlstore.Tx]. The revisions are JSON: one parameter, however many there are.
func (reading) OneOf(column, parameter string, revisions []int64) (condition string, arg any) {
	list := []byte("[")
	for i, revision := range revisions {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, revision, 10)
	}
	return column + ` IN (SELECT value FROM json_each(` + parameter + `))`, string(append(list, ']'))
}

// EachKey implements [sqlstore.Tx].
func (r reading) EachKey(ctx context.Context, keys []sqlstore.Key, query string, args []any, scan func(sqlstore.Rows) error) error {
	for _, k := range keys {
		rows, err := r.Query(ctx, query, append([]any{string(k.Kind), k.ID, int64(k.Revision)}, args...)...)
		if err != nil {
			return err
		}
		if err := sqlstore.Each(rows, scan); err != nil {
			return err
		}
	}
	return nil
}
