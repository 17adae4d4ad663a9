package sqlite

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// For every manipulation of the files under a running process: each acknowledged write is in the database that the next process
// opens.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	removed := func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }
	replaced := func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path+".other", make([]byte, 64<<10), 0o600))
		require.NoError(t, os.Rename(path+".other", path))
	}
	overwritten := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	}
	truncated := func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) }
	cut := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, info.Size()/2))
	}
	for _, tc := range []struct {
		file, what string
		do         func(*testing.T, string)
		mended     bool // earlier acknowledged commits are kept as well, and writing continues
	}{
		{"-wal", "removed", removed, true},
		{"-wal", "replaced", replaced, true},
		{"-wal", "truncated", truncated, false},
		{"-wal", "cut", cut, false},
		{"-wal", "overwritten", overwritten, false},
		{"-shm", "removed", removed, true},
		{"-shm", "replaced", replaced, true},
		{"-shm", "truncated", truncated, true},
		{"", "removed", removed, false},
		{"", "replaced", replaced, false},
		{"", "truncated", truncated, false},
		{"", "cut", cut, false},
	} {
		t.Run(fmt.Sprintf("main%s %s", tc.file, tc.what), func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			at := fill(t, path, 5)
			s, err := Open(t.Context(), Config{Path: path})
			require.NoError(t, err)
			write := func() error {
				c := namespace(at, fmt.Sprint("n", at.Revision))
				err := s.Commit(t.Context(), at, c)
				if err == nil {
					at = c.Head()
				}
				return err
			}
			for range 20 {
				require.NoError(t, write())
			}
			before := at

			tc.do(t, path+tc.file)
			err = write()
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknown)
			require.ErrorContains(t, err, path+tc.file)
			for range 30 {
				err := write()
				if tc.mended {
					require.NoError(t, err)
				}
			}
			if !tc.mended {
				require.Equal(t, before, at, "nothing is acknowledged")
			}
			require.NoError(t, s.Close())

			if fresh, err := Open(t.Context(), Config{Path: path}); err == nil {
				head, err := fresh.Head(t.Context())
				require.NoError(t, err)
				if tc.mended {
					require.Equal(t, at, head, "all that was acknowledged is there")
				}
				require.NoError(t, fresh.Close())
			} else {
				require.False(t, tc.mended, err)
			}
		})
	}
}

// A WAL that grows beyond a checkpoint, restarts, and is truncated by a checkpoint of another process is not damage.
func TestCheckpointsAreNoDamage(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := openStore(t, Config{Path: path})
	var at fleet.Head
	for i := range 60 {
		c := namespace(at, fmt.Sprint(i))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
		switch i % 10 {
		case 3:
			execFile(t, path, `PRAGMA wal_checkpoint(TRUNCATE)`)
		case 6:
			execFile(t, path, `PRAGMA wal_checkpoint(RESTART)`)
		case 9:
			execFile(t, path, `VACUUM`)
		}
		require.NoError(t, ask(t.Context(), s))
	}
}
