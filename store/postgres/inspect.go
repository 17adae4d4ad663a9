package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

const (
	// versionTable is golang-migrate's. It exists in every database a migrator of ours has touched.
	versionTable = sqlstore.VersionTable
	// migrationsDir is the directory of the embedded migrations.
	migrationsDir = "postgres"
)

// oldestServer is the oldest PostgreSQL that is tested, as server_version_num has it.
const oldestServer = 140000

// newestVersion is the schema this binary works with: the highest number among the embedded migrations.
var newestVersion = sync.OnceValue(func() int { return sqlstore.NewestVersion(migrations.Postgres, migrationsDir) })

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// contents is the part of a database's content that decides how it may be used.
type contents struct {
	sqlstore.Schema
	server   int
	encoding string
	versions bool // there is a table of versions
	head     bool // there is a table called head
}

// ours returns nil if the database has our schema, ErrNotInitialised if it has none, and ErrSchema if it has another one.
func (c contents) ours(name string) error {
	if err := c.usable(name); err != nil {
		return err
	}
	return c.Fits(newestVersion(), name)
}

// usable refuses a database for reasons other than its schema.
func (c contents) usable(name string) error {
	switch {
	case c.server < oldestServer:
		return fmt.Errorf("%s is PostgreSQL %d: version 14 or newer is needed", name, c.server/10000)
	case c.encoding != "UTF8":
		return fmt.Errorf("%s has the encoding %s: it must be UTF8, or it cannot hold every text", name, c.encoding)
	case c.Version > 0 && !c.head:
		return fmt.Errorf("%w: %s says it has version %d and has none of its tables: it was damaged, or the table %s belongs to "+
			"another program; this binary needs version %d", store.ErrSchema, name, c.Version, versionTable, newestVersion())
	}
	return nil
}

// revision returns the head's, and 0 for a database without our schema.
func (c contents) revision(ctx context.Context, q querier) (revision int64, err error) {
	if c.head && c.Version > 0 {
		err = q.QueryRow(ctx, `SELECT revision FROM head`).Scan(&revision)
	}
	return revision, err
}

// inspect looks into a database without changing it. ErrSchema if a development build made it.
func inspect(ctx context.Context, q querier, name string) (contents, error) {
	var c contents
	var development bool
	err := q.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
		to_regclass('`+versionTable+`') IS NOT NULL, to_regclass('head') IS NOT NULL, to_regclass('`+sqlstore.DevelopmentTable+`') IS NOT NULL`).
		Scan(&c.server, &c.encoding, &c.versions, &c.head, &development)
	if err == nil && development && c.head && !c.versions {
		err = sqlstore.ErrDevelopment(name)
	}
	if err != nil || !c.versions {
		return c, err
	}
	err = q.QueryRow(ctx, `SELECT version, dirty FROM `+versionTable+` LIMIT 1`).Scan(&c.Version, &c.Dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return c, err
}
