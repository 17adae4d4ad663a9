package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

const (
	// versionTable is golang-migrate's. It exists in every file a migrator of ours has touched.
	versionTable = sqlstore.VersionTable
	// migrationsDir is the directory of the embedded migrations.
	migrationsDir = "sqlite"
)

// newestVersion is the schema this binary works with: the highest number among the embedded migrations.
var newestVersion = sync.OnceValue(func() int { return sqlstore.NewestVersion(migrations.SQLite, migrationsDir) })

// contents is the part of a database file's content that decides how it may be used. The zero value is a file that does not
// exist.
type contents struct {
	exists      bool
	tables      []string
	version     int // of our schema; 0: none
	dirty       bool
	userVersion int
	revision    int64 // of the head; 0 without our schema
}

func (c contents) has(table string) bool { return slices.Contains(c.tables, table) }

// ours returns nil if the file has our schema, ErrNotInitialised if it has none, and ErrSchema if it has another one.
func (c contents) ours(path string) error {
	if !c.exists {
		return fmt.Errorf("%w: %s does not exist", store.ErrNotInitialised, path)
	}
	return sqlstore.Schema{Version: c.version, Dirty: c.dirty}.Fits(newestVersion(), path)
}

// inspect looks into a database file without changing it. ErrSchema if a development build made it.
func inspect(ctx context.Context, path string) (contents, error) {
	var found contents
	err := readForeign(ctx, path, func(tx *sql.Tx) (err error) {
		found, err = readContents(ctx, tx, path)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return contents{}, nil
	}
	return found, err
}

// readForeign runs read in one read transaction on a file with unknown content. The error wraps fs.ErrNotExist if there is no
// such file, and is a *LostFileError if files of it remain.
func readForeign(ctx context.Context, path string, read func(*sql.Tx) error) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(checkLost(path, nil), err)
	}
	if err != nil {
		return err
	}
	if err := checkLost(path, info); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: %s", path, info.Mode())
	}
	doing := "reading " + path
	err = readOnce(ctx, path, accessForeign, read)
	if hasCode(err, sqlite3.SQLITE_READONLY) {
		// The last writer was killed inside a transaction. A rollback makes the file readable.
		err = readOnce(ctx, path, accessRecover, read)
	}
	return translate(ctx, doing, err)
}

func readOnce(ctx context.Context, path string, a access, read func(*sql.Tx) error) (err error) {
	db, err := connect(path, a, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no rows were written
	return read(tx)
}

func readContents(ctx context.Context, tx *sql.Tx, path string) (contents, error) {
	c := contents{exists: true}
	// Ended sessions are not part of the fleet: a file with no other table counts as new.
	var err error
	scan := func(rows sqlstore.Rows, name *string) error { return rows.Scan(name) }
	if c.tables, err = sqlstore.Query(ctx, reading{tx.QueryContext}, scan, `SELECT name FROM sqlite_master
		WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name <> 'ended_sessions'`); err != nil {
		return c, err
	}
	if c.has(sqlstore.DevelopmentTable) && c.has("head") && !c.has(versionTable) {
		return c, sqlstore.ErrDevelopment(path)
	}
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&c.userVersion); err != nil {
		return c, err
	}
	if c.has(versionTable) {
		err := tx.QueryRowContext(ctx, `SELECT version, dirty FROM `+versionTable+` LIMIT 1`).Scan(&c.version, &c.dirty)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return c, err
		}
	}
	if c.has("head") && c.version > 0 {
		err := tx.QueryRowContext(ctx, `SELECT revision FROM head`).Scan(&c.revision)
		if errors.Is(err, sql.ErrNoRows) {
			err = sqlstore.ErrNoHead
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}
