package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Status returns the schema version of the database. It changes no data. Only other tools than [Migrate] make it dirty.
func Status(ctx context.Context, url string) (store.SchemaStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var status store.SchemaStatus
	err := withConn(ctx, url, "reading the schema of", func(conn *pgx.Conn, name string) error {
		c, err := inspect(ctx, conn, name)
		if err != nil {
			return err
		}
		status = store.SchemaStatus{Current: c.Version, Newest: newestVersion(), Dirty: c.Dirty}
		status.Revision, err = c.revision(ctx, conn)
		return err
	})
	return status, err
}

// Migrate brings the database to the schema of this binary. Any number of processes may do so at once; one that is
// killed leaves the schema as it was. The role needs CREATE on the schema and will own the tables.
//
// ErrSchema: the database's schema is newer than this binary's, or was left half-way by another tool, or a development build made
// it. ErrUnavailable: the server does not answer, or another process holds the migration lock or the tables for too long.
func Migrate(ctx context.Context, url string) error {
	return migrateTo(ctx, url, migrations.Postgres, migrateLockTimeout)
}

// migrateTo is Migrate with other migrations: tests add some. It runs in one transaction that holds the migration lock. The schema
// and its version change together or not at all, and the lock goes away with the transaction, also behind pgbouncer.
func migrateTo(ctx context.Context, url string, files fs.ReadDirFS, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	return withConn(ctx, url, "migrating", func(conn *pgx.Conn, name string) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin(writing, migrateTimeout)})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // no effect after a commit
		if err := lock(ctx, tx, timeout); err != nil {
			return err
		}
		found, err := inspect(ctx, tx, name)
		if err == nil {
			err = found.migratable(name, sqlstore.NewestVersion(files, migrationsDir))
		}
		if err == nil {
			err = runMigrations(ctx, tx, files, found)
		}
		switch {
		case errors.Is(err, migrate.ErrNoChange):
			return nil
		case err != nil:
			return err
		}
		return tx.Commit(ctx)
	})
}

// withConn runs do on one connection, and adds the operation and the database to its error.
func withConn(ctx context.Context, url, doing string, do func(conn *pgx.Conn, name string) error) error {
	cfg, err := Config{URL: url}.pool()
	if err != nil {
		return err
	}
	name := name(cfg.ConnConfig)
	doing += " " + name
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return translate(doing, fmt.Errorf("%w: %w", errLost, err))
	}
	err = do(conn, name)
	if err != nil && conn.IsClosed() {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = conn.Close(closing) // only the end of the transaction counts
	return translate(doing, err)
}

// migrationLock is the key of the advisory lock that migrators of one database share: "flux-res" in ASCII.
const migrationLock = 0x666c75782d726573

// lock takes the migration lock. It is ours because golang-migrate's for Postgres waits for ever.
func lock(ctx context.Context, tx pgx.Tx, timeout time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf(`SET LOCAL lock_timeout = %d`, timeout.Milliseconds()))
	b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	err := tx.SendBatch(ctx, b).Close()
	if hasCode(err, codeLockTimeout) {
		return fmt.Errorf("another process holds the migration lock, advisory lock %d, for more than %s: %w",
			int64(migrationLock), timeout, err)
	}
	return err
}

// migratable refuses a database with a version that no migration starts from.
func (c contents) migratable(name string, newest int) error {
	if err := c.usable(name); err != nil {
		return err
	}
	if c.Dirty {
		return fmt.Errorf("%w: another tool left %s half-way at version %d, and this binary needs version %d: bring the tables to the "+
			"state of one version by hand, or restore a backup, and note it in %s", store.ErrSchema, name, c.Version, newest, versionTable)
	}
	if c.Version == 0 && c.head {
		return fmt.Errorf("%s belongs to another program: it has a table called head and no version of ours", name)
	}
	if c.Version > newest {
		return c.Fits(newest, name)
	}
	return nil
}

func runMigrations(ctx context.Context, tx pgx.Tx, files fs.FS, found contents) (err error) {
	source, err := iofs.New(files, migrationsDir)
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "postgres", &target{ctx: ctx, tx: tx, head: found.head})
	if err != nil {
		return errors.Join(err, source.Close())
	}
	defer func() {
		source, database := m.Close()
		err = errors.Join(err, source, database)
	}()
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+versionTable+` (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`); err != nil {
		return err
	}
	return m.Up()
}

// target is golang-migrate's view of our transaction: it decides which migrations to run, and we lock and commit.
type target struct {
	ctx  context.Context //nolint:containedctx // golang-migrate hands none on
	tx   pgx.Tx
	head bool // there is a table head, and with it processes that may be writing
}

var _ database.Driver = (*target)(nil)

// Run implements database.Driver. From here on the old tables are neither read nor written: an operation that comes in between
// sees the new version, by readHead or because its commit moved no head.
func (t *target) Run(migration io.Reader) error {
	statements, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	if t.head {
		if _, err := t.tx.Exec(t.ctx, `LOCK TABLE head IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		t.head = false
	}
	_, err = t.tx.Exec(t.ctx, string(statements))
	return err
}

// SetVersion implements database.Driver.
func (t *target) SetVersion(version int, dirty bool) error {
	if _, err := t.tx.Exec(t.ctx, `DELETE FROM `+versionTable); err != nil {
		return err
	}
	_, err := t.tx.Exec(t.ctx, `INSERT INTO `+versionTable+` (version, dirty) VALUES ($1, $2)`, version, dirty)
	return err
}

// Version implements database.Driver.
func (t *target) Version() (version int, dirty bool, err error) {
	err = t.tx.QueryRow(t.ctx, `SELECT version, dirty FROM `+versionTable).Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

// Lock, Unlock and Close implement database.Driver. They do nothing: the caller owns the transaction.
func (*target) Lock() error   { return nil }
func (*target) Unlock() error { return nil }
func (*target) Close() error  { return nil }

// Open and Drop implement database.Driver, and are not used.
func (*target) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }
func (*target) Drop() error                          { return errors.ErrUnsupported }
