package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
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

// backup copies the database while there are no writers.
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
	for _, end := range []string{"-wal", "-shm"} {         // removed when the last connection was closed
		if err := os.Remove(w.path + end); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Rename(fresh, w.path))
}

// replacements are ways a store comes to have another history than the one that is served.
func replacements(t *testing.T) map[string]func(*testing.T, *world) []byte {
	t.Helper()
	another := func(clusters ...string) func(*testing.T, *world) []byte {
		return func(t *testing.T, _ *world) []byte {
			t.Helper()
			w := setup(t)
			require.NoError(t, w.replica.Load(t.Context()))
			if len(clusters) > 0 {
				w.update(t, createClusters(clusters...))
			}
			return backup(t, w)
		}
	}
	return map[string]func(*testing.T, *world) []byte{
		"an empty store":               another(),
		"another fleet, smaller":       another("a"),
		"another fleet with our names": another("a", "b", "c", "d"),
		"an older backup": func(t *testing.T, w *world) []byte {
			t.Helper()
			data := backup(t, w)
			w.update(t, createNamespace("since"))
			return data
		},
	}
}

func TestReplicaQuarantinesReplacedHistory(t *testing.T) {
	t.Parallel()
	for name, replacement := range replacements(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			require.NoError(t, w.replica.Load(t.Context()))
			w.update(t, createClusters("a", "b", "c", "d"))
			other := replacement(t, w)
			w.run(t)
			before, own := w.replica.State(), backup(t, w)

			restore(t, w, other)
			w.holds(t, before)
			loads, heads := w.faulty.loads.Load(), w.faulty.heads.Load()
			eventually(t, func() bool { return w.faulty.heads.Load() > heads+20 })
			require.Equal(t, loads, w.faulty.loads.Load(), "what is refused is not loaded")
			require.Equal(t, 1, w.logs.count("history was replaced;"), "said once")
			require.ErrorIs(t, w.replica.Healthy(t.Context()), store.ErrReplaced)
			require.Contains(t, w.replica.Status().QuarantineReason, store.FormatHead(before.Head()))

			restore(t, w, own)
			eventually(t, func() bool { return w.replica.Status().Following })
			require.Empty(t, w.replica.Status().QuarantineReason)
			require.Same(t, before, w.replica.State())

			restore(t, w, other)
			w.holds(t, before)
			w.accept(t, fleet.Head{})
			eventually(t, func() bool { return w.replica.Status().Following })
			require.Equal(t, 1, w.logs.count("replaced by the store's new content"), "said loudly")
			require.EqualValues(t, 1, w.replica.Status().Reloads)
			restarted := attach(t, w.path)
			require.NoError(t, restarted.replica.Load(t.Context()))
			require.Equal(t, restarted.replica.State().Head(), w.replica.State().Head())
			require.Equal(t, restarted.replica.State().Clusters(), w.replica.State().Clusters())
			w.update(t, createNamespace("next"))
		})
	}
}

// holds waits until the replica has quarantined the store's history, and requires that it continues with before and refuses
// changes.
func (w *world) holds(t *testing.T, before *fleet.State) {
	t.Helper()
	eventually(t, func() bool { return w.replica.Status().QuarantineReason != "" })
	heads := w.faulty.heads.Load()
	eventually(t, func() bool { return w.faulty.heads.Load() > heads+5 })
	require.Same(t, before, w.replica.State())
	require.NotEmpty(t, w.replica.Status().QuarantineReason)
	require.False(t, w.replica.Status().Following)
	_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("refused"))
	require.ErrorIs(t, err, store.ErrReplaced)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Same(t, before, w.replica.State())
}

// accept runs the operator's acceptance on a separate connection.
func (w *world) accept(t *testing.T, replaces fleet.Head) {
	t.Helper()
	s := open(t, w.path)
	snap, err := s.Load(t.Context())
	require.NoError(t, err)
	paused, err := fleet.PauseAutomation(snap.Records)
	require.NoError(t, err)
	_, err = store.Accept(t.Context(), s, snap.Head, replaces, clock, paused...)
	require.NoError(t, err)
}

// An acceptance is about one replacement and not about the next, whether it is in the backup or not.
func TestReplicaAcceptanceIsForOneReplacement(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	first := backup(t, w)
	w.update(t, createClusters("b"))
	w.run(t)
	restore(t, w, first)
	w.holds(t, w.replica.State())
	w.accept(t, fleet.Head{})
	eventually(t, func() bool { return w.replica.Status().Following })
	second := backup(t, w) // has the acceptance
	w.update(t, createClusters("c"))
	before := w.replica.State() // which the follower may have published before Update did

	restore(t, w, second)
	w.holds(t, before)
	restore(t, w, first)
	w.holds(t, before)
	w.accept(t, fleet.Head{Revision: 1, ID: before.Head().ID}) // is for another process
	w.holds(t, before)
	w.accept(t, before.Head())
	eventually(t, func() bool { return w.replica.State() != before })
	require.False(t, has(w.replica.State(), fleet.KindCluster, "b"))
}

// An acceptance that names the replaced head also reaches a process that sees the new history only afterwards.
func TestReplicaAcceptedBeforeItLooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	data := backup(t, w)
	before := w.update(t, createClusters("b")).State
	restore(t, w, data)
	w.accept(t, fleet.Head{})
	w.run(t)
	w.holds(t, before)
	w.stop()

	late := setup(t)
	require.NoError(t, late.replica.Load(t.Context()))
	ours := late.update(t, createClusters("c")).State
	restore(t, late, data)
	late.accept(t, ours.Head())
	late.run(t)
	eventually(t, func() bool { return late.replica.State() != ours })
	require.False(t, has(late.replica.State(), fleet.KindCluster, "c"))
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
	require.Empty(t, b.replica.Status().QuarantineReason)
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

// A log that no longer reaches back to the served State cannot prove that it contains that State.
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
	b.run(t)
	b.holds(t, b.replica.State())
	b.accept(t, b.replica.State().Head())
	eventually(t, func() bool { return has(b.replica.State(), fleet.KindNamespace, "n1") })
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

// TestAcceptBesideServers: servers record their quarantine beside the head, which makes a concurrent commit stale. An
// acceptance applies to a history, and succeeds all the same unless that history has continued.
func TestAcceptBesideServers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	head := w.replica.State().Head()
	require.NoError(t, w.faulty.Quarantine(t.Context(), store.NewQuarantine(w.replica.State(), clock)))
	w.faulty.stale.Store(3)
	accepted, err := store.Accept(t.Context(), w.faulty, head, fleet.Head{}, clock)
	require.NoError(t, err)
	require.Equal(t, head.Revision+1, accepted.Revision)

	heads := w.faulty.heads.Load()
	_, err = store.Accept(t.Context(), w.faulty, head, fleet.Head{}, clock)
	require.ErrorIs(t, err, store.ErrStale)
	require.Equal(t, heads+1, w.faulty.heads.Load(), "it looked, and did not try again")
}
