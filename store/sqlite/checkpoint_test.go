package sqlite

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Looking at the file does not take away the locks that keep another process from removing the log under the writer: a
// process loses all its locks on a file when it closes any descriptor of it.
func TestLooksTakeNoLocksAway(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	at := fill(t, path, 300)
	s := openStore(t, Config{Path: path})
	before, err := os.Stat(path)
	require.NoError(t, err)
	execFile(t, path, `DELETE FROM changes; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)`)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, after.Size(), before.Size())
	for range 5 {
		c := namespace(at, fmt.Sprint("late", at.Revision))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
		_, err := s.Head(t.Context())
		require.NoError(t, err)
	}
	out, err := command(t, "look for locks", path).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "locked: true\n", string(out))
	require.FileExists(t, path+"-wal")
	for range 5 {
		c := namespace(at, fmt.Sprint("later", at.Revision))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
	head, err := openStore(t, Config{Path: path}).Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, head)
}

// growing returns a store with a file that has grown since it was opened, and was checkpointed.
func growing(t *testing.T) (s *Store, path string, at fleet.Head, opened int64) {
	t.Helper()
	path = newFile(t)
	at = fill(t, path, 30)
	s = openStore(t, Config{Path: path})
	info, err := os.Stat(path)
	require.NoError(t, err)
	for range 200 {
		c := namespace(at, fmt.Sprint("n", at.Revision))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
	execFile(t, path, `PRAGMA wal_checkpoint(PASSIVE)`)
	_, err = s.Head(t.Context())
	require.NoError(t, err)
	return s, path, at, info.Size()
}

// While a reader uses an older snapshot, SQLite checkpoints the header of that snapshot but not the pages that were written
// again since, so an intact file is smaller than its header indicates.
func TestCheckpointUpToAReader(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	at := fill(t, path, 30)
	s := openStore(t, Config{Path: path})
	db, err := connect(path, accessMigrate, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	exec := func(query string) {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE growing (n INTEGER PRIMARY KEY, body BLOB); PRAGMA wal_checkpoint(TRUNCATE)`)
	exec(`INSERT INTO growing VALUES (1, zeroblob(100000))`)

	reader, err := connect(path, accessRead, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	tx, err := reader.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	var n int
	require.NoError(t, tx.QueryRow(`SELECT count(*) FROM growing`).Scan(&n))

	exec(`UPDATE growing SET body = randomblob(100000)`)
	exec(`PRAGMA wal_checkpoint(PASSIVE)`)
	now, settled, err := s.open.files.readMainFile()
	require.NoError(t, err)
	require.True(t, settled)
	require.Less(t, now.size, now.pages(), "the test makes what it is about")
	for range 3 {
		c := namespace(at, fmt.Sprint("later", at.Revision))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
}

// A file of which a part is gone is found out, however large it was when it was opened.
func TestTruncatedAfterGrowing(t *testing.T) {
	t.Parallel()
	for _, looked := range []bool{true, false} {
		s, path, at, opened := growing(t)
		now, err := os.Stat(path)
		require.NoError(t, err)
		require.Greater(t, now.Size(), opened)
		if !looked { // a checkpoint ran since the last check
			c := namespace(at, "unseen")
			require.NoError(t, s.Commit(t.Context(), at, c))
			at = c.Head()
			execFile(t, path, `PRAGMA wal_checkpoint(PASSIVE)`)
		}
		require.NoError(t, os.Truncate(path, now.Size()-4096))
		for range 3 {
			require.ErrorIs(t, s.Commit(t.Context(), at, namespace(at, "lost")), store.ErrUnavailable)
		}
	}
}

// Another database that is written into the same file, as cp does, is found out.
func TestOverwrittenByABackup(t *testing.T) {
	t.Parallel()
	s, path, at, _ := growing(t)
	execFile(t, path, fmt.Sprintf(`VACUUM INTO '%s'`, path+".backup"))
	backup, err := os.ReadFile(path + ".backup")
	require.NoError(t, err)
	c := namespace(at, "later")
	require.NoError(t, s.Commit(t.Context(), at, c))
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	for range 3 {
		require.ErrorIs(t, s.Commit(t.Context(), c.Head(), namespace(c.Head(), "lost")), store.ErrUnavailable)
	}
}
