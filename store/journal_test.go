package store_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// journalled returns a directory as a kill leaves it: the files at each revision, copied while the process ran.
func journalled(t *testing.T) (path string, dirs []string) {
	t.Helper()
	path = setup(t).path
	dir := t.TempDir()
	w := &world{path: path, faulty: &faulty{Store: open(t, path)}, logs: &logs{}}
	w.replica = store.NewReplica(store.Config{
		Store: w.faulty, Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Interval: time.Millisecond, StateDir: dir, KeepInterval: time.Hour,
	})
	require.NoError(t, w.replica.Load(t.Context()))
	w.run(t)
	eventually(t, func() bool { // once it is there, the next update waits until the journal leads on from it
		_, err := os.Stat(filepath.Join(dir, "last-good.state"))
		return err == nil
	})
	for _, id := range []string{"a", "b", "c"} {
		if id == "b" {
			w.faulty.stale.Store(10) // so that it is committed with the lock held
		}
		w.update(t, createNamespace(id))
		left := filepath.Join(t.TempDir(), "left") // the moment it is published
		require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
		dirs = append(dirs, left)
	}
	w.stop()
	return path, dirs
}

// restored starts a replica on a directory, with a clock on the wall that is ahead by so much.
func restored(t *testing.T, path, dir string, maxAge, ahead time.Duration) *world {
	t.Helper()
	w := &world{path: path, faulty: &faulty{Store: open(t, path)}, logs: &logs{}}
	w.replica = store.NewReplica(store.Config{
		Store: w.faulty, Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Interval: time.Millisecond, StateDir: dir,
		StateMaxAge: maxAge, Now: func() time.Time { return time.Now().Add(ahead) },
	})
	w.replica.Restore(t.Context())
	return w
}

func TestEveryStateIsOnDiskBeforeItIsPublished(t *testing.T) {
	t.Parallel()
	path, dirs := journalled(t)
	for n, dir := range dirs {
		w := restored(t, path, dir, time.Hour, 0)
		st, _, err := w.replica.StateForPolls()
		require.NoError(t, err)
		require.EqualValues(t, n+1, st.Revision())
		require.Equal(t, n+1, st.Count(fleet.KindNamespace))
		require.NoError(t, w.replica.Load(t.Context()), "the store leads on from there")
		require.EqualValues(t, len(dirs), w.replica.State().Revision())
	}
}

// The rest of an unpublished record, left by a kill, is cut off. A damaged record that was once complete may have been served:
// then no State is served.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	path, dirs := journalled(t)
	read := func(dir string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "journal"))
		require.NoError(t, err)
		return data
	}
	before, after := read(dirs[1]), read(dirs[2])
	require.True(t, bytes.HasPrefix(after, before), "the last record is the third namespace")
	const header = 12
	whole := state(t, dirs[2])
	// with starts on the files that a kill would have left, in a separate directory, since the lock is released with the
	// process.
	with := func(journal []byte) *world {
		dir := filepath.Join(t.TempDir(), "state")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "last-good.state"), whole, 0o600))
		if journal != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "journal"), journal, 0o600))
		}
		return restored(t, path, dir, time.Hour, 0)
	}
	for cut := len(before); cut < len(after); cut++ {
		unfinished := bytes.Clone(after[:cut]) // the header is written last
		clear(unfinished[len(before):min(cut, len(before)+header)])
		st := with(unfinished).replica.State()
		require.NotNil(t, st, cut)
		require.EqualValues(t, 2, st.Revision(), cut)
	}
	damaged := [][]byte{nil, {}}
	for cut := len(before) + header; cut < len(after); cut++ {
		damaged = append(damaged, after[:cut])
	}
	for at := range after {
		flipped := bytes.Clone(after)
		flipped[at] ^= 0x10
		damaged = append(damaged, flipped)
	}
	gap := append(read(dirs[0]), after[len(before):]...) // without the second namespace
	for _, journal := range append(damaged, gap) {
		w := with(journal)
		require.Nil(t, w.replica.State())
		require.Equal(t, 1, w.logs.count("cannot be used"))
	}
}

func state(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "last-good.state"))
	require.NoError(t, err)
	return data
}

// Reads are refused from a State that is too old, or of a time to come, until the store has been asked.
func TestStateOnDiskHasAnAge(t *testing.T) {
	t.Parallel()
	path, dirs := journalled(t)
	again := func(maxAge, ahead time.Duration) *world {
		dir := filepath.Join(t.TempDir(), "state")
		require.NoError(t, os.CopyFS(dir, os.DirFS(dirs[2])))
		return restored(t, path, dir, maxAge, ahead)
	}
	for name, w := range map[string]*world{"old": again(24*time.Hour, 25*time.Hour), "of the future": again(24*time.Hour, -2*time.Hour)} {
		_, _, err := w.replica.StateForPolls()
		require.ErrorIs(t, err, store.ErrTooOld, name)
		_, _, err = w.replica.StateForReads()
		require.ErrorIs(t, err, store.ErrTooOld, name)
		status := w.replica.Status()
		require.True(t, status.TooOld && status.Cold, name)
		require.WithinDuration(t, time.Now(), status.ConfirmedAt, time.Hour)
		require.Equal(t, 1, w.logs.count("too old to be served"), name)
		require.NoError(t, w.replica.Load(t.Context()))
		_, _, err = w.replica.StateForPolls()
		require.NoError(t, err, name)
	}
	for name, w := range map[string]*world{"young": again(24*time.Hour, 23*time.Hour), "any age": again(0, 1000*time.Hour)} {
		_, age, err := w.replica.StateForPolls()
		require.NoError(t, err, name)
		require.Greater(t, age, 22*time.Hour, name)
	}
}

// A directory is one process's: another neither reads nor writes there.
func TestDirectoryOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path, dirs := journalled(t)
	first := restored(t, path, dirs[2], time.Hour, 0)
	require.NotNil(t, first.replica.State())
	second := restored(t, path, dirs[2], time.Hour, 0)
	require.Nil(t, second.replica.State())
	require.Equal(t, 1, second.logs.count("another process keeps its state"))
	before := state(t, dirs[2])
	require.NoError(t, second.replica.Load(t.Context()))
	second.update(t, createNamespace("d"))
	require.Equal(t, before, state(t, dirs[2]))
	require.FileExists(t, filepath.Join(dirs[2], "journal"))
	require.True(t, first.replica.Status().Cold)
}
