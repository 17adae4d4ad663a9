package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// writerWait is how long a commit waits for the commits of other processes.
const writerWait = 5 * time.Second

// transaction is the writer's connection inside a transaction.
//
// Its statements check the caller's context before they start, and are never interrupted: the driver returns the context's
// error even if a statement was executed, so it would be unknown whether BEGIN was executed. SQLite executes a statement in
// moments.
type transaction struct {
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
	giveUp := time.Now().Add(writerWait)
	for {
		_, err := tx.ExecContext(ctx, `BEGIN IMMEDIATE`)
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

// ExecContext runs a statement, unless ctx has ended.
func (tx *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return tx.conn.ExecContext(context.WithoutCancel(ctx), query, args...)
}

// QueryContext implements querier.
func (tx *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return tx.conn.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// QueryRowContext implements querier.
func (tx *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.conn.QueryRowContext(context.WithoutCancel(ctx), query, args...)
}

// statement is one that runs many times in a transaction.
type statement struct{ stmt *sql.Stmt }

func (tx *transaction) prepare(ctx context.Context, query string) (statement, error) {
	stmt, err := tx.conn.PrepareContext(context.WithoutCancel(ctx), query)
	return statement{stmt}, err
}

func (s statement) exec(ctx context.Context, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.stmt.ExecContext(context.WithoutCancel(ctx), args...)
}

func (s statement) close() { _ = s.stmt.Close() } // the result does not matter
