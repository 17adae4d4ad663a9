// Package pgtest gives tests real PostgreSQL databases. It uses the server of TEST_DATABASE_URL, or starts one with the
// programs on the machine. Without either the test fails with the name of the missing package.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// testTimeout ends a test that hangs; it is not used to measure.
const testTimeout = time.Minute

// forAll is the server we started for all tests of this binary. It has to be kept: when the pipe to its keeper is
// collected as garbage, the server ends.
var forAll *testrig.Postgres

// shared is the URL of the server of all tests of this binary. It runs until the process ends, however it ends.
var shared = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("TEST_DATABASE_URL"); given != "" { //nolint:forbidigo // for tests only, which no cmd starts
		return given, nil
	}
	var err error
	if forAll, err = testrig.StartPostgres(testrig.PostgresConfig{}); err != nil {
		return "", err
	}
	return forAll.URL("postgres"), nil
})

// URL returns the URL of a new, empty database, which is dropped when the test ends. Its role owns the server, or is
// the one TEST_DATABASE_URL names, which must be allowed to create databases.
//
// Where the server can, the database sorts text as a language does and not by bytes, as production databases do.
func URL(t testing.TB) string {
	t.Helper()
	admin, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return create(t, admin)
}

// create makes a database on a server, of which admin names another database.
func create(t testing.TB, admin string) string {
	t.Helper()
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	options := "TEMPLATE template0 ENCODING 'UTF8'"
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	conn := connect(ctx, t, admin)
	if version := conn.PgConn().ParameterStatus("server_version"); hasICU(ctx, t, conn, version) {
		options += " LOCALE_PROVIDER icu ICU_LOCALE 'en'"
	}
	run(ctx, t, conn, fmt.Sprintf("CREATE DATABASE %s %s", name, options))
	_ = conn.Close(ctx) // the test is over
	t.Cleanup(func() { ExecLate(t, admin, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	return WithDatabase(admin, name)
}

// WithDatabase is a server's URL with another database.
func WithDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // it was connected to
	}
	u.Path = "/" + name
	return u.String()
}

// Exec runs SQL on a database, in one transaction.
func Exec(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	conn := connect(ctx, t, database)
	run(ctx, t, conn, sql)
	_ = conn.Close(ctx) // the test is over
}

// ExecLate is Exec for use in t.Cleanup, when the test's context has ended.
func ExecLate(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testTimeout)
	defer cancel()
	conn := connect(ctx, t, database)
	run(ctx, t, conn, sql)
	_ = conn.Close(ctx) // the test is over
}

// WithUser is a database's URL for another role.
func WithUser(database, name, password string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // it was connected to
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

// hasICU reports whether databases can have an ICU collation: from PostgreSQL 15 on, if it was built with ICU.
func hasICU(ctx context.Context, t testing.TB, conn *pgx.Conn, version string) bool {
	t.Helper()
	if strings.HasPrefix(version, "14") {
		return false
	}
	var has bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')`).Scan(&has); err != nil {
		t.Fatal(err)
	}
	return has
}

func connect(ctx context.Context, t testing.TB, database string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatalf("the test server's URL: %v", err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // the server may be behind pgbouncer
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatalf("connecting to the test server: %v", err)
	}
	return conn
}

func run(ctx context.Context, t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
