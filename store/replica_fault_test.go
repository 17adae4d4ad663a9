package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func TestReplicaOutlivesItsStore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a", "b"))
	w.run(t)
	eventually(t, func() bool { return w.replica.Status().Following })
	before := w.replica.State()

	broken := fmt.Errorf("%w: pulled the plug", store.ErrUnavailable)
	w.fail(broken)
	eventually(t, func() bool { return !w.replica.Status().Following })
	heads := w.faulty.heads.Load()
	eventually(t, func() bool { return w.faulty.heads.Load() > heads+10 })
	require.Same(t, before, w.replica.State())
	require.ErrorIs(t, w.replica.Status().LastError, broken)
	require.ErrorIs(t, w.replica.Healthy(t.Context()), store.ErrUnavailable)
	_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("x"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, 1, w.logs.count("cannot be followed; the last"), "logged once, not with every attempt")

	w.heal()
	eventually(t, func() bool { return w.replica.Status().Following })
	require.NoError(t, w.replica.Healthy(t.Context()))
	require.Equal(t, 1, w.logs.count("following the store"))
	require.Same(t, before, w.replica.State())
	require.Zero(t, w.replica.Status().Reloads)
}

func TestReplicaFirstLoadFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.fail(store.ErrCorrupt)
	require.ErrorIs(t, w.replica.Load(t.Context()), store.ErrCorrupt)
	require.Nil(t, w.replica.State(), "no answer is better than an empty one")
	require.False(t, w.replica.Status().Loaded)
	w.run(t)
	w.heal()
	eventually(t, func() bool { return w.replica.State() != nil })
}

func TestReplicaHangingStore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := store.NewReplica(store.Config{
		Store: w.faulty, Interval: time.Millisecond, QueryTimeout: 10 * time.Millisecond,
		LoadTimeout: 10 * time.Millisecond, CommitTimeout: 10 * time.Millisecond,
	})
	w.faulty.hang.Store(true)
	require.ErrorIs(t, r.Load(t.Context()), context.DeadlineExceeded)
	w.faulty.hang.Store(false)
	eventually(t, func() bool { return r.Load(t.Context()) == nil })
	w.faulty.hang.Store(true)
	_, err := r.Update(t.Context(), store.Meta{}, createNamespace("a"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, r.Load(t.Context()), context.DeadlineExceeded)
	require.ErrorIs(t, r.Healthy(t.Context()), store.ErrUnavailable)
}

// backup copies the database while nobody writes to it.
func backup(t *testing.T, w *world) []byte {
	t.Helper()
	copied := t.TempDir() + "/backup.db"
	exec(t, w.path, `VACUUM INTO '`+copied+`'`)
	data, err := os.ReadFile(copied)
	require.NoError(t, err)
	return data
}

// restore puts another database in place of the replica's own, as an operator does: with its log gone.
func restore(t *testing.T, w *world, data []byte) {
	t.Helper()
	fresh := w.path + ".new"
	require.NoError(t, os.WriteFile(fresh, data, 0o600))
	require.NoError(t, sqlite.Migrate(t.Context(), fresh)) // VACUUM INTO does not keep the WAL mode
	require.NoError(t, os.Remove(w.path+"-wal"))
	require.NoError(t, os.Remove(w.path+"-shm"))
	require.NoError(t, os.Rename(fresh, w.path))
}

func TestReplicaRestoredBackup(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a", "b", "c"))
	w.update(t, createNamespace("old"))
	data := backup(t, w)
	w.update(t, createClusters("d"))
	w.update(t, createNamespace("new"))
	w.run(t)

	restore(t, w, data)
	eventually(t, func() bool { return w.replica.State().Revision() == 2 })
	eventually(t, func() bool { return w.replica.Status().Following })
	require.Equal(t, 3, w.replica.State().Clusters())
	require.False(t, has(w.replica.State(), fleet.KindNamespace, "new"))
	require.EqualValues(t, 1, w.replica.Status().Reloads)
	require.Empty(t, w.replica.Status().Refused)
	require.Equal(t, 1, w.logs.count("replaced by the store's new content"), "said loudly")
	res := w.update(t, createNamespace("next"))
	require.EqualValues(t, 3, res.Commit.Revision)
}

func TestReplicaRefusesAShrunkenFleet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		clusters []string
		refused  bool
	}{
		"none":     {nil, true},
		"one of 4": {[]string{"a"}, true},
		"two of 4": {[]string{"a", "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := setup(t)
			require.NoError(t, other.replica.Load(t.Context()))
			other.update(t, createNamespace("other"))
			if tc.clusters != nil {
				other.update(t, createClusters(tc.clusters...))
			}
			w := setup(t)
			require.NoError(t, w.replica.Load(t.Context()))
			w.update(t, createClusters("a", "b", "c", "d"))
			w.run(t)
			before, own := w.replica.State(), backup(t, w)

			restore(t, w, backup(t, other))
			if !tc.refused {
				eventually(t, func() bool { return w.replica.State().Clusters() == len(tc.clusters) })
				return
			}
			eventually(t, func() bool { return w.replica.Status().Refused != "" })
			loads, heads := w.faulty.loads.Load(), w.faulty.heads.Load()
			eventually(t, func() bool { return w.faulty.heads.Load() > heads+20 })
			require.Equal(t, loads, w.faulty.loads.Load(), "what was refused is not loaded again and again")
			require.Same(t, before, w.replica.State())
			require.False(t, w.replica.Status().Following)
			require.ErrorIs(t, w.replica.Healthy(t.Context()), store.ErrDiverged)
			require.Equal(t, 1, w.logs.count("is refused"))
			_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("x"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.Same(t, before, w.replica.State())

			restarted := attach(t, w.path)
			require.NoError(t, restarted.replica.Load(t.Context()))
			require.Equal(t, len(tc.clusters), restarted.replica.State().Clusters(), "a restart takes what there is")

			restore(t, w, own)
			eventually(t, func() bool { return w.replica.Status().Following })
			require.Empty(t, w.replica.Status().Refused)
			require.Same(t, before, w.replica.State())
		})
	}
}

// Removing clusters through the API is a decision, however many they are.
func TestReplicaFollowsRemovals(t *testing.T) {
	t.Parallel()
	a := setup(t)
	require.NoError(t, a.replica.Load(t.Context()))
	a.update(t, createClusters("a", "b"))
	b := attach(t, a.path)
	require.NoError(t, b.replica.Load(t.Context()))
	res := a.update(t, func(tx *fleet.Tx) error {
		_, err := tx.Delete(fleet.KindCluster, "a", fleet.DeleteOptions{Orphan: true})
		_, err2 := tx.Delete(fleet.KindCluster, "b", fleet.DeleteOptions{})
		return errors.Join(err, err2)
	})
	b.run(t)
	require.NoError(t, b.replica.WaitFor(t.Context(), res.Commit.Revision))
	require.Zero(t, b.replica.State().Clusters())
	require.Empty(t, b.replica.Status().Refused)
}

func TestReplicaDamagedStore(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"an emptied table":  `DELETE FROM documents`,
		"a dropped table":   `DROP TABLE documents`,
		"a lost head":       `DELETE FROM head`,
		"a shortened log":   `DELETE FROM changes; DELETE FROM commits; UPDATE documents SET body = 'x'`,
		"a replaced commit": `UPDATE commits SET id = '` + uuid.NewString() + `' WHERE revision = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			require.NoError(t, w.replica.Load(t.Context()))
			w.update(t, createClusters("a"))
			before := w.update(t, createClusters("b")).State
			// Another process commits once more, so that there is something to follow, and the file is damaged.
			other := attach(t, w.path)
			require.NoError(t, other.replica.Load(t.Context()))
			other.update(t, createNamespace("n"))
			exec(t, w.path, damage)
			w.run(t)
			eventually(t, func() bool { return w.faulty.heads.Load() > 20 })
			now := w.replica.State()
			require.True(t, has(now, fleet.KindCluster, "a") && has(now, fleet.KindCluster, "b"))
			require.GreaterOrEqual(t, now.Revision(), before.Revision())
		})
	}
}

// A compacted log is no other history: everything is loaded and nothing goes back.
func TestReplicaCompactedLog(t *testing.T) {
	t.Parallel()
	a := setup(t)
	require.NoError(t, a.replica.Load(t.Context()))
	a.update(t, createClusters("a"))
	b := attach(t, a.path)
	require.NoError(t, b.replica.Load(t.Context()))
	a.update(t, createNamespace("n1"))
	a.update(t, createNamespace("n2"))
	exec(t, a.path, `DELETE FROM changes WHERE revision < 3; DELETE FROM commits WHERE revision < 3`)
	require.NoError(t, b.replica.Load(t.Context()))
	require.Equal(t, a.replica.State().Head(), b.replica.State().Head())
	require.True(t, has(b.replica.State(), fleet.KindNamespace, "n1"))
	require.EqualValues(t, 1, b.replica.Status().Reloads)
}

// exec changes the database behind everybody's back.
func exec(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), query)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
