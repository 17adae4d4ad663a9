package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
// ErrSchema: the file's schema is newer than this binary's, or a migration left it in an unknown state. ErrUnavailable: another
// process holds the migration lock or the database for too long. *[LostFileError]: the file is lost, but files of it remain.
func Migrate(ctx context.Context, path string) error {
	return withMigrator(ctx, path, func(m *migrate.Migrate, found contents) error {
		if newest := newestVersion(); found.version > newest {
			return found.ours(path)
		}
		return ignoreNoChange(m.Up())
	})
}

// MigrateDown takes migrations back until the file has the version to. If it already has that version it does nothing, so an
// interrupted call can be repeated. Version 0 is no schema: ErrNotEmpty once a commit has been made. ErrSchema if the file's
// schema is newer than this binary's, which then cannot take it back.
func MigrateDown(ctx context.Context, path string, to int) error {
	status, err := Status(ctx, path)
	if err == nil && status.Dirty { // the recorded version may differ from the actual one
		err = withMigrator(ctx, path, func(_ *migrate.Migrate, repaired contents) error { status.Current = repaired.version; return nil })
	}
	if err == nil {
		err = sqlstore.UnpackFor(ctx, status, to, func() error { return Migrate(ctx, path) }, func() (*Store, error) { return Open(ctx, Config{Path: path}) })
	}
	if err != nil {
		return err
	}
	return withMigrator(ctx, path, func(m *migrate.Migrate, found contents) error {
		if newest := newestVersion(); found.version > newest {
			return found.ours(path)
		}
		if err := sqlstore.CheckDown(path, found.version, to, found.revision); err != nil {
			return err
		}
		if to == 0 {
			return ignoreNoChange(m.Down())
		}
		return ignoreNoChange(m.Migrate(uint(to)))
	})
}

func ignoreNoChange(err error) error {
	if errors.Is(err, migrate.ErrNoChange) {
		return nil
	}
	return err
}

// create creates an empty file, which is an empty database. A file created by SQLite would be world-readable.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// withMigrator runs do under the migration lock, on a file with a clean version.
func withMigrator(ctx context.Context, path string, do func(*migrate.Migrate, contents) error) (err error) {
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
	if err := found.adoptable(path); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	db, err := connect(path, accessMigrate, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	m, err := newMigrator(db)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer func() {
		source, database := m.Close() // closes db too
		err = errors.Join(err, source, database)
	}()
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	if found.dirty {
		if err := repair(m, path, &found); err != nil {
			return err
		}
	}
	return translate(ctx, doing, do(m, found))
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

// adoptable refuses the database of some other program. The reference's is welcome: our tables go beside its own.
func (c contents) adoptable(path string) error {
	if len(c.tables) == 0 || c.has(versionTable) || c.isReference() {
		return nil
	}
	return fmt.Errorf("%s belongs to another program: it has tables like %q and none of ours", path, c.tables[0])
}

// newMigrator takes over db and closes it on an error.
func newMigrator(db *sql.DB) (*migrate.Migrate, error) {
	target, err := migratesqlite.WithInstance(db, &migratesqlite.Config{MigrationsTable: versionTable})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	source, err := iofs.New(migrations.SQLite, "sqlite")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", target)
	if err != nil {
		return nil, errors.Join(err, source.Close(), db.Close())
	}
	return m, nil
}

// repair clears the mark of an interrupted migration. A migration and its user_version are one transaction, so user_version is
// the file's real version, regardless of golang-migrate's record.
func repair(m *migrate.Migrate, path string, found *contents) error {
	if d := found.userVersion - found.version; d < -1 || d > 1 || found.userVersion > newestVersion() {
		return fmt.Errorf("%w: a migration of %s to version %d was interrupted and the file itself says %d, which no migration leaves "+
			"behind; this binary needs version %d: restore a backup, then run `flux-resourceset migrate up`",
			store.ErrSchema, path, found.version, found.userVersion, newestVersion())
	}
	version := found.userVersion
	if version == 0 {
		version = -1 // golang-migrate's "none"
	}
	if err := m.Force(version); err != nil {
		return fmt.Errorf("clearing the mark of an interrupted migration of %s: %w", path, err)
	}
	found.version, found.dirty = found.userVersion, false
	return nil
}
