package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/golang-migrate/migrate/v4"
	migratesqlite "github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// lockTimeout is how long a migrator waits for another one. Migrations of a configuration store take moments; one that
// holds the lock longer than this is stuck, and waiting for ever would hide it.
const lockTimeout = 30 * time.Second

// Status returns the schema version of the file. It changes no data; a file that does not exist has version 0. [Migrate] repairs a
// dirty one.
func Status(ctx context.Context, path string) (store.SchemaStatus, error) {
	c, err := inspect(ctx, path)
	if err != nil {
		return store.SchemaStatus{}, err
	}
	return store.SchemaStatus{Current: c.version, Newest: newestVersion(), Dirty: c.dirty, Revision: c.revision}, nil
}

// Migrate brings the file to the schema of this binary and creates it, with its directory, if it does not exist. Any number of
// processes may call it at once. It repairs the interrupted migration of a killed process.
//
// ErrSchema: the file's schema is newer than this binary's, or a migration left it in an unknown state, or a development build made
// it. ErrUnavailable: another process holds the migration lock or the database for too long. *[LostFileError]: the file is lost, but
// files of it remain.
func Migrate(ctx context.Context, path string) error {
	return migrateTo(ctx, path, migrations.SQLite)
}

// migrateTo is Migrate with other migrations: tests add some.
func migrateTo(ctx context.Context, path string, files fs.ReadDirFS) (err error) {
	doing := "migrating " + path
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()

	found, err := inspect(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if !found.exists {
		if err := create(path); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	newest := sqlstore.NewestVersion(files, migrationsDir)
	if err := found.migratable(path, newest); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	db, err := connect(path, accessMigrate, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return translate(ctx, doing, runMigrations(ctx, db, files, found))
}

// create creates an empty file, which is an empty database. A file created by SQLite would be world-readable.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// lock takes the lock that migrators of one file share. It is ours because golang-migrate's for SQLite works only
// inside one process, and it is a lock of the operating system, so it goes away with a killed process.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	l := flock.New(path + ".lock")
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: another process holds the migration lock %s: %w", store.ErrUnavailable, l.Path(), err)
		}
		return nil, fmt.Errorf("taking the migration lock: %w", err)
	}
	return l.Unlock, nil
}

// unlessMigrating returns the problem with a file's schema, or ErrContended while another process migrates it: the intermediate
// steps are visible from outside, and are no reason to give up.
func unlessMigrating(ctx context.Context, path string, wrong error) error {
	l := flock.New(path+".lock", flock.SetFlag(os.O_RDONLY)) // it is not made here
	free, err := l.TryRLock()
	if err != nil { // there is none, or it may not be looked at
		return wrong
	}
	if !free {
		return fmt.Errorf("%w: %w: another process migrates it: %v", store.ErrUnavailable, store.ErrContended, wrong) //nolint:errorlint // it is not wrong for good
	}
	found, err := inspect(ctx, path) // the migration may have come to its end
	if err == nil {
		err = found.ours(path)
	}
	return errors.Join(err, l.Unlock())
}

// migratable refuses the database of another program, and a version that no migration starts from. The reference's database is
// welcome: our tables go beside its own.
func (c contents) migratable(path string, newest int) error {
	switch d := c.version - c.userVersion; {
	case len(c.tables) > 0 && !c.has(versionTable) && !c.isReference():
		return fmt.Errorf("%s belongs to another program: it has tables like %q and none of ours", path, c.tables[0])
	case c.dirty && (d < 0 || d > 1 || c.userVersion > newest):
		return fmt.Errorf("%w: a migration of %s to version %d was interrupted and the file itself says %d, which no migration leaves "+
			"behind; this binary needs version %d: restore a backup, then run `flux-resourceset migrate up`",
			store.ErrSchema, path, c.version, c.userVersion, newest)
	case !c.dirty && c.version > newest:
		return sqlstore.Schema{Version: c.version}.Fits(newest, path)
	}
	return nil
}

// runMigrations brings a database to the newest version of files, and closes it. A migration and its user_version are one
// transaction, so after an interrupted one user_version is the actual version, regardless of golang-migrate's record.
func runMigrations(ctx context.Context, db *sql.DB, files fs.FS, found contents) (err error) {
	target, err := migratesqlite.WithInstance(db, &migratesqlite.Config{MigrationsTable: versionTable})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	source, err := iofs.New(files, migrationsDir)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", target)
	if err != nil {
		return errors.Join(err, source.Close(), db.Close())
	}
	defer func() {
		source, database := m.Close() // closes db too
		err = errors.Join(err, source, database)
	}()
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	if found.dirty {
		version := found.userVersion
		if version == 0 {
			version = -1 // golang-migrate's "none"
		}
		if err := m.Force(version); err != nil {
			return fmt.Errorf("clearing the mark of an interrupted migration: %w", err)
		}
	}
	if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}
