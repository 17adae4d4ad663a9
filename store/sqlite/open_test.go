package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(t *testing.T, path string)
		is   error
		says string
	}{
		"missing file":        {func(*testing.T, string) {}, store.ErrNotInitialised, "does not exist"},
		"missing directory":   {func(t *testing.T, path string) { require.NoError(t, os.Remove(filepath.Dir(path))) }, store.ErrNotInitialised, "does not exist"},
		"empty file":          {containing(""), store.ErrNotInitialised, "no schema"},
		"not a database":      {containing(strings.Repeat("this is a letter to my aunt. ", 100)), store.ErrCorrupt, "not an SQLite database"},
		"a database cut off":  {truncate, store.ErrCorrupt, ""},
		"a directory":         {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, nil, "is not a file"},
		"not in WAL mode":     {journalDelete, nil, "journal_mode=delete"},
		"schema, but no head": {func(t *testing.T, path string) { migrated(t, path, `DELETE FROM head`) }, store.ErrCorrupt, "head"},
		"locked by another":   {locked, store.ErrUnavailable, "locked by another process"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dir", "fleet.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			tc.make(t, path)
			_, err := Open(t.Context(), Config{Path: path, ReadOnly: true})
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, path)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			if name != "not in WAL mode" { // which a writer puts right
				_, err = Open(t.Context(), Config{Path: path})
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
	_, err := Open(t.Context(), Config{})
	require.Error(t, err)
	_, err = Open(t.Context(), Config{Memory: true, ReadOnly: true})
	require.Error(t, err)
}

func containing(content string) func(*testing.T, string) {
	return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
}

func migrated(t *testing.T, path, sql string) {
	require.NoError(t, Migrate(t.Context(), path))
	execFile(t, path, sql)
}

func truncate(t *testing.T, path string) {
	migrated(t, path, ``)
	require.NoError(t, os.Truncate(path, 8192))
}

func journalDelete(t *testing.T, path string) { migrated(t, path, `PRAGMA journal_mode = DELETE`) }

func locked(t *testing.T, path string) {
	require.NoError(t, Migrate(t.Context(), path))
	db, err := connect(path, accessWrite, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.Exec(`PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE head SET at = at; COMMIT`)
	require.NoError(t, err)
}

// TestHalfMigrated: an intermediate state is no reason to give up while a migration runs, but is one afterwards.
func TestHalfMigrated(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a step is under way":    `UPDATE schema_version SET dirty = true`,
		"of a newer binary, too": `UPDATE schema_version SET version = version + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			execFile(t, path, sql)
			migrator := flock.New(path + ".lock")
			require.NoError(t, migrator.Lock())
			_, err := Open(t.Context(), Config{Path: path, ReadOnly: true})
			require.ErrorIs(t, err, store.ErrContended)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrSchema)
			require.NoError(t, migrator.Unlock())
			_, err = Open(t.Context(), Config{Path: path, ReadOnly: true})
			require.ErrorIs(t, err, store.ErrSchema)
			require.NoError(t, os.Remove(path+".lock"))
			_, err = Open(t.Context(), Config{Path: path, ReadOnly: true})
			require.ErrorIs(t, err, store.ErrSchema)
			require.NoFileExists(t, path+".lock")
		})
	}
}

func TestNotADatabaseIsNotMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letter.txt")
	containing("dear aunt, this is not a database, and long enough not to look like an empty one")(t, path)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ErrorIs(t, Migrate(t.Context(), path), store.ErrCorrupt)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of a user who may not read the file")
	}
	dir, err := os.MkdirTemp("", "unreadable") //nolint:usetesting // t.TempDir is below a directory only root may enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "fleet.db")
	require.NoError(t, Migrate(t.Context(), path))
	require.NoError(t, os.Chmod(path, 0o600))
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	binary := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(binary, self, 0o755))
	cmd := command(t, "open", path)
	cmd.Path, cmd.Dir = binary, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), path)
	require.Contains(t, string(out), store.ErrUnavailable.Error())
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{Path: newFile(t)})
	for name, want := range map[string][2]string{ // of the writer, of a reader
		"journal_mode": {"wal", "wal"},
		"synchronous":  {"2", "2"},
		"foreign_keys": {"1", "1"},
		"query_only":   {"0", "1"},
		"busy_timeout": {fmt.Sprint(writerBusy.Milliseconds()), fmt.Sprint(readerBusy.Milliseconds())},
	} {
		var got [2]string
		require.NoError(t, s.open.writer.QueryRow(`PRAGMA `+name).Scan(&got[0]))
		require.NoError(t, s.open.reader.QueryRow(`PRAGMA `+name).Scan(&got[1]))
		require.Equal(t, want, got, name)
	}
	for _, table := range []string{"head", "documents", "commits", "changes"} {
		_, err := s.open.reader.Exec(`DELETE FROM ` + table)
		require.Error(t, err)
	}
	// A connection on which a pragma did not take is never used.
	for _, want := range []pragma{{"synchronous", "", "3"}, {"no_such_pragma", "", "1"}} {
		inner, err := sqlite.NewConnector("file:" + t.TempDir() + "/x.db")
		require.NoError(t, err)
		db := sql.OpenDB(checkedConnector{Connector: inner, want: []pragma{want}})
		require.ErrorContains(t, db.PingContext(t.Context()), want.name)
		require.NoError(t, db.Close())
	}
}

// A file that was put in place of ours is another history, and the process notices.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	for name, readOnly := range map[string]bool{"reader": true, "writer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, other := newFile(t), newFile(t)
			old := fill(t, path, 3)
			fill(t, other, 5)
			s := openStore(t, Config{Path: path, ReadOnly: readOnly})
			require.NoError(t, ask(t.Context(), s))

			require.NoError(t, os.Rename(other, path))
			require.ErrorIs(t, ask(t.Context(), s), store.ErrUnavailable)
			// The old file's log lies beside the new file. SQLite would mix the two.
			err := ask(t.Context(), s)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, path+"-wal")
			if !readOnly {
				require.ErrorIs(t, s.Commit(t.Context(), old, namespace(old, "x")), store.ErrUnavailable)
			}

			require.NoError(t, os.Remove(path+"-wal"))
			require.NoError(t, os.Remove(path+"-shm"))
			require.NoError(t, ask(t.Context(), s))
			_, err = s.Since(t.Context(), old, 10)
			require.ErrorIs(t, err, store.ErrDiverged)
			snap, err := s.Load(t.Context())
			require.NoError(t, err)
			require.Len(t, snap.Records, 5)
			if !readOnly {
				require.NoError(t, s.Commit(t.Context(), snap.Head, namespace(snap.Head, "x")))
			}
		})
	}
}

func TestDeletedFile(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	old := fill(t, path, 3)
	writer, reader := openStore(t, Config{Path: path}), openStore(t, Config{Path: path, ReadOnly: true})
	require.NoError(t, os.Remove(path))
	for range 2 {
		require.ErrorIs(t, ask(t.Context(), reader), store.ErrUnavailable)
		require.ErrorIs(t, writer.Commit(t.Context(), old, namespace(old, "x")), store.ErrUnavailable)
		_, err := reader.Load(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.NoFileExists(t, path, "nobody made an empty one in its place")

	err := Migrate(t.Context(), path)
	lost, ok := errors.AsType[*LostFileError](err)
	require.True(t, ok, err)
	_, err = lost.SetAside(time.Now())
	require.NoError(t, err)
	require.NoError(t, Migrate(t.Context(), path))
	require.NoError(t, ask(t.Context(), reader))
	require.NoError(t, writer.Commit(t.Context(), fleet.Head{}, namespace(fleet.Head{}, "y")))
	_, err = reader.Since(t.Context(), old, 10)
	require.ErrorIs(t, err, store.ErrDiverged)
}

func ask(ctx context.Context, s *Store) error {
	_, err := s.Head(ctx)
	return err
}

// fill makes n commits and returns the last one's head.
func fill(t *testing.T, path string, n int) (at fleet.Head) {
	t.Helper()
	s, err := Open(t.Context(), Config{Path: path})
	require.NoError(t, err)
	for i := range n {
		c := namespace(at, fmt.Sprint(i))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
	require.NoError(t, s.Close())
	return at
}

func TestReadingLeavesTheFileAlone(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	fill(t, path, 3)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	s, err := Open(t.Context(), Config{Path: path, ReadOnly: true})
	require.NoError(t, err)
	_, err = s.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
