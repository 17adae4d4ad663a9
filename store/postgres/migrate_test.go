package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

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

// A killed migrator leaves each migration whole or not at all, and no lock.
func TestKilledMigrator(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		url := pgtest.URL(t)
		testrig.KillAfter(t, command(t, "migrate further", url), 1+round)
		status, err := Status(t.Context(), url)
		require.NoError(t, err)
		require.False(t, status.Dirty)
		require.GreaterOrEqual(t, status.Current, round)
		for version := newestVersion() + 1; version <= status.Current; version++ {
			pgtest.Exec(t, url, fmt.Sprintf(`CREATE TEMP TABLE whole (fits boolean CHECK (fits)); INSERT INTO whole SELECT count(*) = %d FROM made_%d`, storetest.MadeRows, version))
		}
		files, err := storetest.Migrations(migrations.Postgres, migrationsDir, status.Current+1)
		require.NoError(t, err)
		require.NoError(t, migrateTo(t.Context(), url, files, migrateLockTimeout), "nothing of the next one is left")
		status.Current++
		now, err := Status(t.Context(), url)
		require.NoError(t, err)
		require.Equal(t, status, now)
	}
}

func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	status, err := Status(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, store.SchemaStatus{Newest: newestVersion()}, status)
	_, err = Open(t.Context(), Config{URL: url})
	require.ErrorIs(t, err, store.ErrNotInitialised)

	require.NoError(t, Migrate(t.Context(), url))
	require.NoError(t, Migrate(t.Context(), url), "once more changes nothing")
	fill(t, url, 1)
	status, err = Status(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, store.SchemaStatus{Current: newestVersion(), Newest: newestVersion(), Revision: 1}, status)
	require.NoError(t, Migrate(t.Context(), url))
	openStore(t, Config{URL: url})
}

// A database of a development build is refused, and stays as it is.
func TestDevelopmentDatabase(t *testing.T) {
	t.Parallel()
	for name, sql := range storetest.DevelopmentDatabases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			fill(t, url, 1)
			pgtest.Exec(t, url, sql)
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(context.Background())) }()
			content := func() (text string) {
				require.NoError(t, conn.QueryRow(t.Context(), `SELECT schema_to_xml('public', true, false, '')::text`).Scan(&text))
				return text
			}
			before := content()
			check := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, "databases of development builds are not supported: export with the old program and apply to a new database")
				require.Equal(t, before, content())
			}
			check(Migrate(t.Context(), url))
			_, err = Status(t.Context(), url)
			check(err)
			_, err = Open(t.Context(), Config{URL: url})
			check(err)
			_, err = Open(t.Context(), Config{URL: url, ReadOnly: true})
			check(err)
		})
	}
}

func TestOtherSchemaVersions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sql      string
		shows    int
		migrates bool
		is       error
	}{
		"newer":           {sql: `UPDATE schema_version SET version = 41`, shows: 41, is: store.ErrSchema},
		"left half-way":   {sql: `UPDATE schema_version SET dirty = true`, shows: newestVersion(), is: store.ErrSchema},
		"tables are gone": {sql: `DROP TABLE head CASCADE`, shows: newestVersion(), is: store.ErrSchema},
		"no version":      {sql: `DELETE FROM schema_version`, shows: 0, is: store.ErrNotInitialised},
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
		pgtest.Exec(t, url, `UPDATE schema_version SET version = 41`)
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

	err = migrateTo(t.Context(), url, migrations.Postgres, 10*time.Millisecond)
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
		"golang-migrate's, too":   `CREATE TABLE schema_version (version bigint, dirty boolean); INSERT INTO schema_version VALUES (1, false)`,
		"a table called commits":  `CREATE TABLE commits (sha text)`,
		"a table called versions": `CREATE TABLE schema_version (version text); INSERT INTO schema_version VALUES ('20240101')`,
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
	require.Equal(t, names(migrations.SQLite, "sqlite"), names(migrations.Postgres, migrationsDir))
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
