package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestTenProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "fleet.db")
	var wg sync.WaitGroup
	failed := make([]string, 10)
	for i := range failed {
		cmd := command(t, "migrate", path)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				failed[i] = fmt.Sprintf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	require.Equal(t, make([]string, 10), failed)
	openStore(t, Config{Path: path})
}

// A killed migrator leaves each migration whole or not at all, and the next one goes on.
func TestKilledMigratorIsRepaired(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		path := filepath.Join(t.TempDir(), "fleet.db")
		testrig.KillAfter(t, command(t, "migrate further", path), 1+round)
		found, err := inspect(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, migrateTo(t.Context(), path, testMigrations(t, max(found.version, 1))))
		found, err = inspect(t.Context(), path)
		require.NoError(t, err)
		require.False(t, found.dirty)
		require.GreaterOrEqual(t, found.version, round)
		require.Equal(t, found.version, found.userVersion)
		if found.version == newestVersion() {
			openStore(t, Config{Path: path})
		}
		made := 0
		for _, table := range found.tables {
			if strings.HasPrefix(table, "made_") {
				made++
				execFile(t, path, fmt.Sprintf(`CREATE TEMP TABLE whole (fits INTEGER CHECK (fits)); INSERT INTO whole SELECT count(*) = %d FROM %s`, storetest.MadeRows, table))
			}
		}
		require.Equal(t, found.version-newestVersion(), made)
	}
}

func testMigrations(t *testing.T, newest int) fs.ReadDirFS {
	t.Helper()
	files, err := storetest.Migrations(migrations.SQLite, migrationsDir, newest)
	require.NoError(t, err)
	return files
}

// Every state in which a migrator can die, made by hand.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	files := testMigrations(t, newestVersion()+1)
	second, err := fs.ReadFile(files, fmt.Sprintf("%s/%04d_made.up.sql", migrationsDir, newestVersion()+1))
	require.NoError(t, err)
	const empty = `DROP TABLE changes; DROP TABLE commits; DROP TABLE documents; DROP TABLE head; DROP TABLE ended_sessions; PRAGMA user_version = 0;`
	mark := func(version int) string {
		return fmt.Sprintf(`DELETE FROM %s; INSERT INTO %[1]s VALUES (%d, true);`, versionTable, version)
	}
	for name, sql := range map[string]string{
		"before the first":           empty + mark(1),
		"after the first":            mark(1),
		"before another one":         mark(newestVersion() + 1),
		"after another one":          string(second) + mark(newestVersion()+1),
		"nothing noted at all":       empty + `DROP TABLE ` + versionTable,
		"only the table of versions": empty + `DELETE FROM ` + versionTable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			execFile(t, path, sql)
			if strings.Contains(sql, ", true);") {
				status, err := Status(t.Context(), path)
				require.NoError(t, err)
				require.True(t, status.Dirty)
				_, err = Open(t.Context(), Config{Path: path})
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, "flux-resourceset migrate up")
			}
			require.NoError(t, migrateTo(t.Context(), path, files))
			found, err := inspect(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, newestVersion()+1, found.version)
			require.Equal(t, found.version, found.userVersion)
			require.False(t, found.dirty)
			require.True(t, found.has("head") && found.has("made_2"))
		})
	}

	t.Run("nobody can tell", func(t *testing.T) {
		t.Parallel()
		path := newFile(t)
		execFile(t, path, mark(2)+`PRAGMA user_version = 7`)
		err := Migrate(t.Context(), path)
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "flux-resourceset migrate up")
		require.ErrorContains(t, err, "7")
	})
}

// runMigrations relies on it: see package migrations.
func TestMigrationsNoteTheirVersionInTheFile(t *testing.T) {
	t.Parallel()
	files, err := fs.ReadDir(migrations.SQLite, migrationsDir)
	require.NoError(t, err)
	for i, f := range files {
		require.Regexp(t, fmt.Sprintf(`^%04d_[a-z0-9_]+\.up\.sql$`, i+1), f.Name(), "numbers have no gaps, and migrations go up only")
		sql, err := fs.ReadFile(migrations.SQLite, migrationsDir+"/"+f.Name())
		require.NoError(t, err)
		require.Contains(t, string(sql), fmt.Sprintf("\nPRAGMA user_version = %d;\n", i+1), f.Name())
	}
}

// A database of a development build is refused, and stays as it is.
func TestDevelopmentDatabase(t *testing.T) {
	t.Parallel()
	for name, sql := range storetest.DevelopmentDatabases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s, err := Open(t.Context(), Config{Path: path})
			require.NoError(t, err)
			require.NoError(t, s.Commit(t.Context(), fleet.Head{}, namespace(fleet.Head{}, "a")))
			require.NoError(t, s.Close())
			execFile(t, path, sql)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			check := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, "databases of development builds are not supported: export with the old program and apply to a new database")
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, after)
			}
			check(Migrate(t.Context(), path))
			_, err = Status(t.Context(), path)
			check(err)
			_, err = Open(t.Context(), Config{Path: path})
			check(err)
			_, err = Open(t.Context(), Config{Path: path, ReadOnly: true})
			check(err)
		})
	}
}

func TestNewerSchemaVersion(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	running := openStore(t, Config{Path: path, ReadOnly: true})
	execFile(t, path, `UPDATE schema_version SET version = 41`)
	both := func(err error) {
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "version 41")
		require.ErrorContains(t, err, fmt.Sprint(newestVersion()))
	}
	_, err := Open(t.Context(), Config{Path: path})
	both(err)
	_, err = Open(t.Context(), Config{Path: path, ReadOnly: true})
	both(err)
	// A process that was running while another one migrated stops reading data that it may misread.
	_, err = running.Load(t.Context())
	both(err)
	both(Migrate(t.Context(), path))
}

func TestStatusChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	status, err := Status(t.Context(), filepath.Join(dir, "fleet.db"))
	require.NoError(t, err)
	require.Equal(t, store.SchemaStatus{Newest: newestVersion()}, status)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestMigrationLockIsHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	l := flock.New(path + ".lock")
	require.NoError(t, l.Lock())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := Migrate(ctx, path)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, path+".lock")
	require.NoFileExists(t, path)
	require.NoError(t, l.Unlock())
	require.NoError(t, Migrate(t.Context(), path))
}

func TestMigrateRefusesOtherPrograms(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := connect(path, accessMigrate, 1)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE invoices (id TEXT)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.ErrorContains(t, Migrate(t.Context(), path), "invoices")
	found, err := inspect(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, []string{"invoices"}, found.tables)
}

// Remaining files of a database that was deleted or moved away may contain commits: no database is created beside them, and they do not
// change. After SetAside, the new database does not use them.
func TestRemainingFilesOfLostDatabase(t *testing.T) {
	t.Parallel()
	for _, linked := range []bool{false, true} { // SQLite puts its files beside the target of a symbolic link
		t.Run(fmt.Sprintf("linked %t", linked), func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			path := file
			if linked {
				path = filepath.Join(t.TempDir(), "link.db")
				require.NoError(t, os.Symlink(file, path))
			}
			old := openStore(t, Config{Path: path}) // open, so that its log stays
			last := fleet.Head{}
			for i := range 20 { // which are in the log only
				c := namespace(last, fmt.Sprint(i))
				require.NoError(t, old.Commit(t.Context(), last, c))
				last = c.Head()
			}
			before, err := os.ReadFile(file + "-wal")
			require.NoError(t, err)
			for _, lost := range []func() error{
				func() error { return os.Remove(file) },
				func() error { return os.WriteFile(file, nil, 0o600) },
			} {
				require.NoError(t, lost())
				out, err := command(t, "migrate", path).CombinedOutput() // another process: locks do not hold against one's own
				require.Error(t, err)
				require.Contains(t, string(out), file+"-wal remains and may contain commits")
				_, err = Status(t.Context(), path)
				require.ErrorIs(t, err, store.ErrUnavailable)
				_, err = Open(t.Context(), Config{Path: path})
				require.ErrorIs(t, err, store.ErrUnavailable)
				after, err := os.ReadFile(file + "-wal")
				require.NoError(t, err)
				require.Equal(t, before, after)
				info, err := os.Stat(file)
				require.True(t, errors.Is(err, os.ErrNotExist) || info.Size() == 0)
			}
			require.NoError(t, os.Remove(file))
			_, err = Status(t.Context(), path)
			lost, ok := errors.AsType[*LostFileError](err)
			require.True(t, ok, err)
			names, err := lost.SetAside(time.Now())
			require.NoError(t, err)
			require.Len(t, names, 2, "the log and its index")
			out, err := command(t, "migrate", path).CombinedOutput()
			require.NoError(t, err, string(out))
			s := openStore(t, Config{Path: path})
			c := namespace(fleet.Head{}, "a")
			require.NoError(t, s.Commit(t.Context(), fleet.Head{}, c))

			// The store that had the deleted file open returns one error, and then opens the new file without harming it.
			_, err = old.Head(t.Context())
			require.ErrorIs(t, err, store.ErrUnavailable)
			for _, each := range []*Store{old, s} {
				head, err := each.Head(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.Head(), head)
			}
			after, err := os.ReadFile(names[0])
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}
