package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

func TestKilledMigratorIsRepaired(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	for range 10 {
		testrig.KillAfter(t, command(t, "migrate up and down", path), 1)
		require.NoError(t, Migrate(t.Context(), path))
		s, err := Open(t.Context(), Config{Path: path})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// Every state in which a migrator can die, made by hand.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	down1 := sqlFile(t, "0001_log.down.sql")
	down2 := sqlFile(t, "0002_history.down.sql")
	up5, down5 := sqlFile(t, "0005_operations.up.sql"), sqlFile(t, "0005_operations.down.sql")
	down3 := down5 + sqlFile(t, "0004_hold.down.sql") + sqlFile(t, "0003_packed.down.sql")
	const at5 = `PRAGMA user_version = 5;`
	mark := func(version int) string {
		return fmt.Sprintf(`DELETE FROM schema_migrations; INSERT INTO schema_migrations VALUES (%d, true);`, version)
	}
	for name, tc := range map[string]struct {
		sql string
	}{
		"up, before the migration":   {down5 + mark(5)},
		"up, after the migration":    {at5 + mark(5)},
		"up, before the first":       {down3 + down2 + down1 + mark(1)},
		"down, before the migration": {at5 + mark(4)},
		"down, after the migration":  {down5 + mark(4)},
		"down, before the first":     {down3 + down2 + mark(-1)},
		"down, after the first":      {down3 + down2 + down1 + mark(-1)},
		"nothing noted at all":       {down3 + down2 + down1 + `DROP TABLE schema_migrations;`},
		"only the table of versions": {down3 + down2 + down1 + `DELETE FROM schema_migrations;`},
		"down and up again by hand":  {down5 + up5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			if strings.Contains(tc.sql, "schema_migrations") { // the others leave the newest schema
				execFile(t, path, sqlFile(t, "0008_sessions.down.sql")+sqlFile(t, "0007_chain.down.sql"))
			}
			execFile(t, path, tc.sql)
			if strings.Contains(tc.sql, ", true);") {
				status, err := Status(t.Context(), path)
				require.NoError(t, err)
				require.True(t, status.Dirty)
				_, err = Open(t.Context(), Config{Path: path})
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, "flux-resourceset migrate up")
			}
			require.NoError(t, Migrate(t.Context(), path))
			openStore(t, Config{Path: path})
			status, err := Status(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, store.SchemaStatus{Current: newestVersion(), Newest: newestVersion()}, status)
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

func sqlFile(t *testing.T, name string) string {
	t.Helper()
	sql, err := fs.ReadFile(migrations.SQLite, "sqlite/"+name)
	require.NoError(t, err)
	return string(sql)
}

// repair relies on it: see package migrations.
func TestMigrationsNoteTheirVersionInTheFile(t *testing.T) {
	t.Parallel()
	files, err := fs.ReadDir(migrations.SQLite, "sqlite")
	require.NoError(t, err)
	name := regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.(up|down)\.sql$`)
	seen := map[string]int{}
	for _, f := range files {
		m := name.FindStringSubmatch(f.Name())
		require.NotNil(t, m, f.Name())
		var version int
		_, err := fmt.Sscan(strings.TrimLeft(m[1], "0"), &version)
		require.NoError(t, err)
		if m[2] == "down" {
			version--
		}
		require.Contains(t, sqlFile(t, f.Name()), fmt.Sprintf("\nPRAGMA user_version = %d;\n", version), f.Name())
		seen[m[1]]++
	}
	for number, n := range seen {
		require.Equal(t, 2, n, "%s goes up and down", number)
	}
	require.Len(t, seen, newestVersion(), "numbers have no gaps")
}

func TestMigrateDownAndUp(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	require.Error(t, MigrateDown(t.Context(), path, -1))
	require.Error(t, MigrateDown(t.Context(), path, newestVersion()+1))
	openStore(t, Config{Path: path})
	require.NoError(t, MigrateDown(t.Context(), path, newestVersion()), "it has it")
	require.NoError(t, MigrateDown(t.Context(), path, 0))
	found, err := inspect(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, []string{versionTable}, found.tables)
	require.Zero(t, found.version)
	_, err = Open(t.Context(), Config{Path: path})
	require.ErrorIs(t, err, store.ErrNotInitialised)
	require.NoError(t, Migrate(t.Context(), path))
	openStore(t, Config{Path: path})
}

// For changes written before the log had a column for the kind of change, the migration computes it.
func TestMigrationOfActions(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	want := storetest.Actions(t, openStore(t, Config{Path: path}))
	require.NoError(t, MigrateDown(t.Context(), path, 1))
	require.NoError(t, Migrate(t.Context(), path))
	got, err := openStore(t, Config{Path: path}).Summaries(t.Context(), store.HistoryQuery{Limit: 100}, 10)
	require.NoError(t, err)
	for i := range want {
		want[i].Operations = nil // earlier versions have not kept them
	}
	require.Equal(t, want, got)
}

func TestOtherSchemaVersions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version  int
		migrates bool
	}{
		"newer": {version: newestVersion() + 41},
		"older": {version: newestVersion() - 1, migrates: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			if tc.version == 0 {
				t.Skip("there is no older version yet")
			}
			running := openStore(t, Config{Path: path, ReadOnly: true})
			execFile(t, path, fmt.Sprintf(`UPDATE schema_migrations SET version = %d`, tc.version))
			both := func(err error) {
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, fmt.Sprint(tc.version))
				require.ErrorContains(t, err, fmt.Sprint(newestVersion()))
			}
			_, err := Open(t.Context(), Config{Path: path})
			both(err)
			_, err = Open(t.Context(), Config{Path: path, ReadOnly: true})
			both(err)
			// A process that was running while another one migrated stops reading data that it may misread.
			_, err = running.Load(t.Context())
			both(err)
			if !tc.migrates {
				both(Migrate(t.Context(), path))
				both(MigrateDown(t.Context(), path, 1))
			}
		})
	}
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
