package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqllog"
)

// head is the row every commit moves.
type head = sqllog.HeadRow

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readHead reads the head, and refuses when the schema is no longer the one this binary knows: another process may
// have migrated the file since we opened it.
func readHead(ctx context.Context, q querier) (head, error) {
	var h head
	var version sql.NullInt64
	var dirty sql.NullBool
	err := q.QueryRowContext(ctx, `SELECT h.revision, h.commit_id, h.at, h.documents, h.oldest, h.hold, h.hash, h.checkpoint, v.version, v.dirty
		FROM head h LEFT JOIN `+versionTable+` v ON true`).
		Scan(&h.Revision, &h.ID, &h.At, &h.Documents, &h.Oldest, &h.Quarantine, &h.Hash, &h.Checkpoint, &version, &dirty)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return h, errNoHead
	case hasCode(err, sqlite3.SQLITE_ERROR):
		return h, fmt.Errorf("%w: %w", store.ErrSchema, err) // a table of ours is missing
	case err != nil:
		return h, err
	}
	found := contents{exists: true, version: int(version.Int64), dirty: dirty.Bool}
	return h, found.ours("the database")
}

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(*sql.Tx, head) error) error {
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
	at, err := readHead(ctx, tx)
	if err == nil {
		err = f(tx, at)
	}
	return translate(ctx, doing, err)
}

// recall is read for users who read the history. It always leaves connections for the follower and for commits.
func (s *Store) recall(ctx context.Context, doing string, f func(*sql.Tx, head) error) error {
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

// Head implements [store.Store].
func (s *Store) Head(ctx context.Context) (fleet.Head, error) {
	h, err := s.handles(ctx)
	if err != nil {
		return fleet.Head{}, err
	}
	at, err := readHead(ctx, h.reader)
	if err != nil {
		return fleet.Head{}, translate(ctx, "reading the head", err)
	}
	return at.Free()
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Head(ctx); !errors.Is(err, store.ErrQuarantined) {
		return err
	}
	return nil
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context) (snap store.Snapshot, err error) {
	err = s.read(ctx, "loading the fleet", func(tx *sql.Tx, h head) (err error) {
		snap, err = sqllog.Load(ctx, reading{tx}, h)
		return err
	})
	return snap, err
}

// Since implements [store.Store]. It returns ErrCompacted also if the log was shortened by hand.
func (s *Store) Since(ctx context.Context, after fleet.Head, limit int) (commits []fleet.Commit, err error) {
	if limit < 1 {
		return nil, fmt.Errorf("commits since revision %d: the limit is %d", after.Revision, limit)
	}
	err = s.read(ctx, "reading the log", func(tx *sql.Tx, h head) (err error) {
		commits, err = sqllog.Since(ctx, reading{tx}, h, after, limit)
		return err
	})
	return commits, err
}

// Latest implements [store.Store].
func (s *Store) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (now fleet.Head, docs map[string]json.RawMessage, err error) {
	err = s.read(ctx, "reading what has changed", func(tx *sql.Tx, h head) (err error) {
		now = h.Head
		docs, err = sqllog.Latest(ctx, reading{tx}, h, kind, after)
		return err
	})
	if err != nil {
		return fleet.Head{}, nil, err
	}
	return now, docs, nil
}

// reading is a transaction as package sqllog asks it.
type reading struct{ querier }

var _ sqllog.Tx = reading{}

// Query implements [sqllog.Tx].
func (r reading) Query(ctx context.Context, query string, args ...any) (sqllog.Rows, error) {
	rows, err := r.QueryContext(ctx, query, args...) //nolint:rowserrcheck // sqllog.Collect asks it
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// QueryRows implements [sqllog.Tx].
func (r reading) QueryRows(ctx context.Context, query string, args ...any) (sqllog.Rows, error) {
	return r.Query(ctx, query, args...)
}

// OneOf implements [sqllog.Tx]. The revisions are JSON: one parameter, however many there are.
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

// EachDocument implements [sqllog.Tx].
func (r reading) EachDocument(ctx context.Context, documents []fleet.DocumentName, query string, args []any, scan func(sqllog.Rows) error) error {
	for _, d := range documents {
		rows, err := r.Query(ctx, query, append([]any{string(d.Kind), d.ID}, args...)...)
		if err != nil {
			return err
		}
		if err := sqllog.Each(rows, scan); err != nil {
			return err
		}
	}
	return nil
}

// LaterChanges implements [sqllog.Tx].
func (r reading) LaterChanges(ctx context.Context, of []*backend.Row) (all []backend.Row, err error) {
	for _, row := range of {
		rows, err := r.QueryRows(ctx, backend.LaterChanges, string(row.Kind), row.ID, int64(row.Revision))
		later, err := sqllog.CollectRows(ctx, rows, err)
		if err != nil {
			return nil, err
		}
		all = append(all, later...)
	}
	return all, nil
}
