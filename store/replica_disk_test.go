package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// keeping is attach with a directory for the last good State.
func keeping(t *testing.T, path, dir string) *world {
	t.Helper()
	w := &world{path: path, faulty: &faulty{Store: open(t, path)}, logs: &logs{}}
	w.replica = store.NewReplica(store.Config{
		Store: w.faulty, Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Interval: time.Millisecond, MaxBackoff: 2 * time.Millisecond,
		StateDir: dir, KeepInterval: time.Millisecond,
	})
	return w
}

// kept returns a world that has run and ended, and the directory with its files.
func kept(t *testing.T) (w *world, dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	file = filepath.Join(dir, "last-good.state")
	w = keeping(t, setup(t).path, dir)
	require.False(t, w.replica.Restore(t.Context()), "there is nothing yet")
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a", "b"))
	w.run(t)
	w.update(t, createNamespace("n"))
	w.stop()
	return w, dir, file
}

func TestLastGoodStateOnDisk(t *testing.T) {
	t.Parallel()
	w, dir, file := kept(t)
	want := w.replica.State()

	next := keeping(t, w.path, dir)
	next.fail(store.ErrUnavailable)
	require.True(t, next.replica.Restore(t.Context()))
	got := next.replica.State()
	require.Equal(t, want.Head(), got.Head())
	require.True(t, want.At().Equal(got.At()))
	require.Equal(t, documents(want), documents(got))
	require.True(t, next.replica.Status().FromDisk)
	require.ErrorIs(t, next.replica.Load(t.Context()), store.ErrUnavailable)
	next.run(t)
	_, err := next.replica.Update(t.Context(), store.Meta{}, createNamespace("x"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, next.replica.Healthy(t.Context()), store.ErrUnavailable)

	w.update(t, createNamespace("later")) // the store was there all the time, for others
	before, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, before.Mode().Perm())
	next.heal()
	eventually(t, func() bool { return has(next.replica.State(), fleet.KindNamespace, "later") })
	eventually(t, func() bool { return next.replica.Status().Following })
	require.False(t, next.replica.Status().FromDisk)
	require.Zero(t, next.faulty.loads.Load(), "it goes on from there, and need not load everything")
	eventually(t, func() bool {
		now, err := os.Stat(file)
		return err == nil && !os.SameFile(before, now)
	})
	next.stop()

	// Without changes there are no writes.
	still := keeping(t, w.path, dir)
	require.True(t, still.replica.Restore(t.Context()))
	before, err = os.Stat(file)
	require.NoError(t, err)
	still.run(t)
	eventually(t, func() bool { return still.faulty.heads.Load() > 20 })
	still.stop()
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "the state, the journal and the lock, and no half-written files")
}

func documents(s *fleet.State) map[string]fleet.Record {
	all := map[string]fleet.Record{}
	for r := range s.Records() {
		r.CreatedAt, r.UpdatedAt = r.CreatedAt.UTC(), r.UpdatedAt.UTC()
		all[string(r.Kind)+"/"+r.ID] = r
	}
	return all
}

// A damaged file is not served, and the process waits for the store.
func TestDamagedStateFileIsRefused(t *testing.T) {
	t.Parallel()
	w, dir, file := kept(t)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	damaged := map[string][]byte{
		"empty":               {},
		"of another program":  []byte("SQLite format 3\x00 and so on and so forth, for longer than a checksum is"),
		"of another version":  bytes.Replace(good, []byte("state 2\n"), []byte("state 3\n"), 1),
		"only its first line": good[:bytes.IndexByte(good, '\n')+1],
		"with something more": append(bytes.Clone(good), 0),
	}
	for _, n := range []int{1, 20, 32, 33, len(good) / 2, len(good) - 1} {
		damaged["cut to "+string(rune('a'+n%26))] = good[:n]
	}
	for at := 0; at < len(good); at += max(1, len(good)/64) {
		flipped := bytes.Clone(good)
		flipped[at] ^= 0x10
		damaged["flipped "+time.Duration(at).String()] = flipped
	}
	journal, err := os.ReadFile(filepath.Join(dir, "journal"))
	require.NoError(t, err)
	for name, data := range damaged {
		require.NoError(t, os.WriteFile(file, data, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "journal"), journal, 0o600))
		next := keeping(t, w.path, dir)
		require.False(t, next.replica.Restore(t.Context()), name)
		require.Nil(t, next.replica.State(), name)
		require.Equal(t, 1, next.logs.count("cannot be used"), name)
		require.NoError(t, next.replica.Load(t.Context()))
		require.Equal(t, 2, next.replica.State().Clusters())
		next.run(t)
		next.stop() // gives the directory up
	}
	require.NoError(t, os.WriteFile(file, good, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal"), journal, 0o600))
	require.True(t, keeping(t, w.path, dir).replica.Restore(t.Context()), "the undamaged one is good")
}

// A quarantine survives a restart of the process.
func TestQuarantineSurvivesRestart(t *testing.T) {
	t.Parallel()
	w, dir, file := kept(t)
	other := setup(t)
	require.NoError(t, other.replica.Load(t.Context()))
	other.update(t, createClusters("z"))

	wrong := keeping(t, other.path, dir)
	require.True(t, wrong.replica.Restore(t.Context()))
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	ours := wrong.replica.State()
	wrong.run(t)
	wrong.holds(t, ours)
	eventually(t, func() bool { return !wrong.replica.Status().FromDisk }) // the store answers that it is quarantined
	wrong.stop()
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, w.replica.State().Head(), ours.Head())
}

func TestStateFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "taken")
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // a file is in the way
	w := keeping(t, setup(t).path, dir)
	require.NoError(t, w.replica.Load(t.Context()))
	w.run(t)
	for _, id := range []string{"a", "b", "c"} {
		w.update(t, createClusters(id))
	}
	eventually(t, func() bool { return w.logs.count("cannot be written") == 1 })
	require.NoError(t, os.Remove(dir))
	eventually(t, func() bool { return w.logs.count("written to disk again") == 1 })
	w.stop()
	require.Equal(t, 1, w.logs.count("cannot be written"), "said once")
	next := keeping(t, w.path, dir)
	require.True(t, next.replica.Restore(t.Context()))
	require.Equal(t, 3, next.replica.State().Clusters())
}

func TestLeftOversOnDiskDoNotAddUp(t *testing.T) {
	t.Parallel()
	w, dir, file := kept(t)
	killed := file + ".1.tmp"
	require.NoError(t, os.WriteFile(killed, []byte("half"), 0o600))

	next := keeping(t, w.path, dir)
	next.run(t)
	eventually(t, func() bool { _, err := os.Stat(killed); return errors.Is(err, fs.ErrNotExist) })
	next.stop()
	require.FileExists(t, file)
}
