package rig

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// postgres is a PostgreSQL server; for processes, with a database fleet and the two roles of docs/databases.md: one that
// owns the tables, and one that may only read them.
type postgres struct{ *testrig.Postgres }

// startPostgres starts a server with a database and roles. Its directory is not beside the logs: PostgreSQL refuses to run as
// root, and another user may not be able to reach the checkout.
func startPostgres(ctx context.Context, logs string) (*postgres, error) {
	pg, err := startPostgresServer(testrig.PostgresConfig{Settings: []string{"fsync=off"}}, logs)
	if err != nil {
		return nil, err
	}
	return pg, errors.Join(
		pg.sql(ctx, "postgres", "CREATE ROLE fleet_owner LOGIN"),
		pg.sql(ctx, "postgres", "CREATE DATABASE fleet OWNER fleet_owner ENCODING 'UTF8' TEMPLATE template0"),
		pg.sql(ctx, "postgres", "CREATE ROLE fleet_reader LOGIN"),
	)
}

// startPostgresServer starts a server with its log beside the others.
func startPostgresServer(config testrig.PostgresConfig, logs string) (*postgres, error) {
	config.Log = filepath.Join(logs, "postgres.log")
	pg, err := testrig.StartPostgres(config)
	if err != nil {
		return nil, err
	}
	return &postgres{pg}, nil
}

// letReaderRead gives the reader its rights, once the tables are there.
func (pg *postgres) letReaderRead(ctx context.Context) error {
	return errors.Join(
		pg.sql(ctx, "fleet", "GRANT USAGE ON SCHEMA public TO fleet_reader"),
		pg.sql(ctx, "fleet", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader"),
		// Also SELECT: it may have been made just now, after the line above.
		pg.sql(ctx, "fleet", "GRANT SELECT, INSERT, UPDATE ON observations TO fleet_reader"),
	)
}

// sql runs a statement as the superuser.
func (pg *postgres) sql(ctx context.Context, database, statement string) error {
	return pg.run(ctx, "postgres", database, statement)
}

// run runs statements as a role, each in a transaction of its own.
func (pg *postgres) run(ctx context.Context, role, database, statements string) error {
	psql := pg.Command(ctx, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-", pg.URLAs(role, database))
	psql.Stdin = strings.NewReader(statements)
	if out, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}
