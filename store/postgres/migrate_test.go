package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestTenProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	failed := make([]string, 10)
	for i := range failed {
		cmd := command(t, "migrate", url)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				failed[i] = fmt.Sprintf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	require.Equal(t, make([]string, 10), failed)
	fill(t, url, 1)
}

// A killed migrator leaves a whole schema or none, and no lock.
func TestKilledMigrator(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for range 5 {
		testrig.KillAfter(t, command(t, "migrate up and down", url), 1)
		status, err := Status(t.Context(), url)
		require.NoError(t, err)
		require.False(t, status.Dirty)
		require.NoError(t, Migrate(t.Context(), url))
		s, err := Open(t.Context(), Config{URL: url})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

func TestMigrateDownAndUp(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	status, err := Status(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, store.SchemaStatus{Newest: newestVersion()}, status)
	_, err = Open(t.Context(), Config{URL: url})
	require.ErrorIs(t, err, store.ErrNotInitialised)
	require.Error(t, MigrateDown(t.Context(), url, 1))

	require.NoError(t, Migrate(t.Context(), url))
	require.NoError(t, Migrate(t.Context(), url), "once more changes nothing")
	fill(t, url, 1)
	status, err = Status(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, store.SchemaStatus{Current: newestVersion(), Newest: newestVersion(), Revision: 1}, status)
	require.Error(t, MigrateDown(t.Context(), url, -1))
	require.Error(t, MigrateDown(t.Context(), url, newestVersion()+1))
	require.NoError(t, MigrateDown(t.Context(), url, newestVersion()), "it has it")
	require.ErrorIs(t, MigrateDown(t.Context(), url, 0), store.ErrNotEmpty)
	require.NoError(t, MigrateDown(t.Context(), url, 1))
	require.NoError(t, Migrate(t.Context(), url))
	pgtest.Exec(t, url, `UPDATE head SET revision = 0`)
	require.NoError(t, MigrateDown(t.Context(), url, 0))
	_, err = Open(t.Context(), Config{URL: url})
	require.ErrorIs(t, err, store.ErrNotInitialised)
	require.NoError(t, Migrate(t.Context(), url))
	openStore(t, Config{URL: url})
}

// For changes written before the log had a column for the kind of change, the migration computes it.
func TestMigrationOfActions(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.NoError(t, Migrate(t.Context(), url))
	want := storetest.Actions(t, openStore(t, Config{URL: url}))
	require.NoError(t, MigrateDown(t.Context(), url, 1))
	require.NoError(t, Migrate(t.Context(), url))
	got, err := openStore(t, Config{URL: url}).Summaries(t.Context(), store.HistoryQuery{Limit: 100}, 10)
	require.NoError(t, err)
	for i := range want {
		want[i].Operations = nil // earlier versions have not kept them
	}
	require.Equal(t, want, got)
}

func TestOtherSchemaVersions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sql      string
		shows    int
		migrates bool
		is       error
	}{
		"newer":           {sql: `UPDATE schema_migrations SET version = 41`, shows: 41, is: store.ErrSchema},
		"left half-way":   {sql: `UPDATE schema_migrations SET dirty = true`, shows: newestVersion(), is: store.ErrSchema},
		"tables are gone": {sql: `DROP TABLE head CASCADE`, shows: newestVersion(), is: store.ErrSchema},
		"no version":      {sql: `DELETE FROM schema_migrations`, shows: 0, is: store.ErrNotInitialised},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			running := openStore(t, Config{URL: url, ReadOnly: true})
			pgtest.Exec(t, url, tc.sql)
			check := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, tc.is)
				require.NotContains(t, err.Error(), "password")
				if tc.shows > 0 {
					require.ErrorContains(t, err, fmt.Sprint("version ", tc.shows))
					require.ErrorContains(t, err, fmt.Sprint(newestVersion()))
				}
			}
			_, err := Open(t.Context(), Config{URL: url})
			check(err)
			_, err = Open(t.Context(), Config{URL: url, ReadOnly: true})
			check(err)
			// A process that was running during the migration stops reading data that it may misread.
			_, err = running.Load(t.Context())
			require.ErrorIs(t, err, tc.is)
			require.Error(t, Migrate(t.Context(), url))
			require.Error(t, MigrateDown(t.Context(), url, 1))
		})
	}
}

// A commit that has begun when a migration comes in between does not write to the new schema.
func TestMigrationDuringCommit(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := openStore(t, Config{URL: url})
	c := namespace(fleet.Head{}, "a")
	err := s.CommitLocked(t.Context(), c.ID, func(context.Context, fleet.Head) (fleet.Commit, error) {
		pgtest.Exec(t, url, `UPDATE schema_migrations SET version = 41`)
		return c, nil
	})
	require.ErrorIs(t, err, store.ErrStale, "the caller looks at the head again, and sees the new version")
	require.ErrorIs(t, ask(t.Context(), s), store.ErrSchema)
}

func TestMigrationLockIsHeld(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, int64(migrationLock))
	require.NoError(t, err)

	err = migrateWithin(t.Context(), url, 10*time.Millisecond, func(m *migrate.Migrate, _ contents, _ pgx.Tx) error { return m.Up() })
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, fmt.Sprint("advisory lock ", migrationLock))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, Migrate(ctx, url), store.ErrUnavailable)
	status, err := Status(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, status.Current)

	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
	require.NoError(t, err)
	require.NoError(t, Migrate(t.Context(), url))
}

func TestMigrateRefusesOtherPrograms(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a table of that name":    `CREATE TABLE head (id text)`,
		"golang-migrate's, too":   `CREATE TABLE schema_migrations (version bigint, dirty boolean); INSERT INTO schema_migrations VALUES (1, false)`,
		"a table called commits":  `CREATE TABLE commits (sha text)`,
		"a table called versions": `CREATE TABLE schema_migrations (version text); INSERT INTO schema_migrations VALUES ('20240101')`,
	} {
		url := pgtest.URL(t)
		pgtest.Exec(t, url, sql)
		require.Error(t, Migrate(t.Context(), url), name)
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		var tables int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables))
		require.Equal(t, 1, tables, name)
		require.NoError(t, conn.Close(t.Context()))
	}
}

// A database that is not UTF-8 would refuse some texts, or change them.
func TestWrongEncoding(t *testing.T) {
	t.Parallel()
	latin := pgtest.NewServer(t).Database(t, "latin", "TEMPLATE template0", "ENCODING 'LATIN1'")
	require.ErrorContains(t, Migrate(t.Context(), latin), "LATIN1")
	_, err := Open(t.Context(), Config{URL: latin})
	require.ErrorContains(t, err, "LATIN1")
}

// "Schema version 3" is the same schema for every database.
func TestMigrationsAreNamedAsForSQLite(t *testing.T) {
	t.Parallel()
	names := func(files fs.FS, dir string) (all []string) {
		entries, err := fs.ReadDir(files, dir)
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	require.Equal(t, names(migrations.SQLite, "sqlite"), names(migrations.Postgres, "postgres"))
}

// Status of a database with a locked version table returns an error and does not wait for ever.
func TestStatusOfTablesThatAreLocked(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), `BEGIN; LOCK TABLE `+versionTable+` IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	_, err = Status(t.Context(), url)
	require.ErrorIs(t, err, store.ErrUnavailable)
}
