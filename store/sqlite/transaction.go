package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"iter"
	"runtime"
	"slices"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// writerWait is how long a commit waits for the commits of other processes.
const writerWait = 5 * time.Second

var _ sqlstore.WriteTx = (*transaction)(nil)

// transaction is the writer's connection inside a transaction.
//
// Its statements check the caller's context before they start, and are never interrupted: the driver returns the context's
// error even if a statement was executed, so it would be unknown whether BEGIN was executed. SQLite executes a statement in
// moments.
type transaction struct {
	reading
	conn  *sql.Conn
	ended bool // the connection is known to be in no transaction
}

// begin takes the writer's connection and the write lock. SQLite waits for the lock without looking at the context, so it
// waits in short pieces.
func begin(ctx context.Context, writer *sql.DB) (*transaction, error) {
	conn, err := writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx := &transaction{conn: conn, ended: true}
	tx.reading = reading{tx.query}
	giveUp := time.Now().Add(writerWait)
	for {
		_, err := tx.Exec(ctx, `BEGIN IMMEDIATE`)
		switch {
		case err == nil:
			tx.ended = false
			return tx, nil
		case hasCode(err, sqlite3.SQLITE_BUSY) && time.Now().Before(giveUp):
			continue
		}
		// The statement is not interrupted, so an error of the context means that it was not executed.
		tx.ended = errors.Is(err, ctx.Err()) || hasCode(err, sqlite3.SQLITE_BUSY)
		tx.end()
		return nil, err
	}
}

// end returns the connection after rolling back uncommitted changes. A connection with an unknown transaction state never
// returns to the pool: it is closed, which also ends the transaction.
func (tx *transaction) end() {
	if tx.conn == nil {
		return
	}
	if !tx.ended {
		if _, err := tx.conn.ExecContext(context.Background(), `ROLLBACK`); err != nil {
			discard(tx.conn)
		}
	}
	_ = tx.conn.Close() // back into the pool, unless it was thrown away
	tx.conn = nil
}

// discard keeps a connection from going back into the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// query is reading.query in this transaction.
func (tx *transaction) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return tx.conn.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// Exec implements [sqlstore.WriteTx].
func (tx *transaction) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return affected(ctx, args, func(ctx context.Context, args ...any) (sql.Result, error) {
		return tx.conn.ExecContext(ctx, statement, args...)
	})
}

// affected runs a statement, unless ctx has ended, and returns how many rows it affected.
func affected(ctx context.Context, args []any, exec func(context.Context, ...any) (sql.Result, error)) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case sqlstore.Body:
			args[i] = string(v)
		case []byte:
			if v == nil { // the driver would take it for an empty one
				args[i] = nil
			}
		}
	}
	result, err := exec(context.WithoutCancel(ctx), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Queue implements [sqlstore.WriteTx]. The statement runs at once.
func (tx *transaction) Queue(ctx context.Context, to *int64, statement string, args ...any) error {
	n, err := tx.Exec(ctx, statement, args...)
	if to != nil {
		*to += n
	}
	return err
}

// QueueRows implements [sqlstore.WriteTx]. The statements run at once.
func (tx *transaction) QueueRows(ctx context.Context, to *int64, s sqlstore.RowStatement, fixed []any, rows iter.Seq[[]any]) error {
	var each *sql.Stmt
	args := slices.Clone(fixed)
	for row := range rows {
		if each == nil {
			var err error
			if each, err = tx.conn.PrepareContext(context.WithoutCancel(ctx), s.Each); err != nil {
				return err
			}
			defer func() { _ = each.Close() }() // the result does not matter
		}
		runtime.Gosched() // polls go first: there may be thousands of rows
		args = append(args[:len(fixed)], row...)
		n, err := affected(ctx, args, each.ExecContext)
		if err != nil {
			return err
		}
		if to != nil {
			*to += n
		}
	}
	return nil
}

// Flush implements [sqlstore.WriteTx].
func (*transaction) Flush(context.Context) error { return nil }

// Prepare implements [sqlstore.WriteTx]. Every transaction waits for the disk, and none has a time limit.
func (*transaction) Prepare(ctx context.Context, _ fleet.Commit) (context.Context, context.CancelFunc, error) {
	return ctx, func() {}, nil
}
