package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// translate converts a driver error into an error of the contract, by SQLite's result code
// (https://www.sqlite.org/rescode.html). doing names the failed operation. An error of the contract keeps its meaning.
func translate(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	// A context that ended reaches us as an interrupted statement; the caller asked for it by its own name.
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch primary(se) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return fmt.Errorf("%s: %w: %w: the database is locked by another process: %w", doing, store.ErrUnavailable, store.ErrContended, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%s: %w: no space is left for the database: %w", doing, store.ErrUnavailable, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_SCHEMA:
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%s: %w: the file is not an SQLite database: %w", doing, store.ErrCorrupt, err)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%s: %w: %w", doing, store.ErrCorrupt, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// hasCode reports whether err is a driver error with this primary result code.
func hasCode(err error, code int) bool {
	var se *sqlite.Error
	return errors.As(err, &se) && primary(se) == code
}

// primary removes the extension that SQLite adds to a primary result code.
func primary(se *sqlite.Error) int { return se.Code() & 0xff }
