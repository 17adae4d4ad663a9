package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// writers commit to a server that is killed meanwhile, and remember the acknowledged commits.
type writers struct {
	mu           sync.Mutex
	acknowledged map[fleet.Head]bool // not by revision: another commit takes the revision of a lost one
	unknown      int
}

// write commits until ctx ends, with its own document in every commit.
func (w *writers) write(ctx context.Context, s *Store, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		head, err := s.Head(ctx)
		if err != nil {
			pause(ctx)
			continue
		}
		c := namespace(head, fmt.Sprint(name, "-", n))
		err = s.Commit(ctx, head, c)
		w.mu.Lock()
		switch {
		case err == nil:
			w.acknowledged[c.Head()] = true
		case errors.Is(err, store.ErrUnknown):
			w.unknown++
		}
		w.mu.Unlock()
	}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged)
}

// killUnderLoad kills a server several times under several writers, and returns how many acknowledged commits are not
// in the log in the end, of how many.
func killUnderLoad(t *testing.T, kills int, durability string) (lost, of int) {
	t.Helper()
	// The log is written to disk for the sake of commits only, so that one that does not wait for it is lost.
	server := pgtest.NewServer(t, "wal_writer_delay=10s", "wal_writer_flush_after=1GB")
	url := server.Database(t, "fleet")
	require.NoError(t, Migrate(t.Context(), url))
	w := &writers{acknowledged: map[fleet.Head]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 4 {
		s := openStore(t, Config{URL: url})
		s.durability = durability
		wg.Go(func() { w.write(ctx, s, fmt.Sprint(i)) })
	}
	for range kills {
		// Some more are acknowledged each time, so the writers have recovered by themselves.
		for enough := w.count() + 50; w.count() < enough; {
			pause(ctx)
		}
		server.Kill(t)
		server.Start(t)
	}
	stop()
	wg.Wait()
	reader := openStore(t, Config{URL: url, ReadOnly: true})
	log, err := reader.Since(t.Context(), fleet.Head{}, 1_000_000)
	require.NoError(t, err)
	known := map[fleet.Head]bool{}
	for _, c := range log {
		known[c.Head()] = true
	}
	for head := range w.acknowledged {
		if !known[head] {
			lost++
		}
	}
	snap, err := reader.Load(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Records, len(log), "every commit is whole")
	t.Logf("%d kills, %d commits acknowledged, %d unknown, %d lost", kills, len(w.acknowledged), w.unknown, lost)
	return lost, len(w.acknowledged)
}

func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	lost, of := killUnderLoad(t, 5, durable)
	require.Zero(t, lost, "of %d", of)
}

// The test above can fail: without waiting for the disk, commits are lost.
func TestKilledServerLosesWhatIsNotSynced(t *testing.T) {
	t.Parallel()
	lost, of := killUnderLoad(t, 2, `SET LOCAL synchronous_commit = off`)
	require.NotZero(t, lost, "of %d", of)
}

// One session that is ended by an administrator is a lost connection and no more.
func TestTerminatedBackend(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := openStore(t, Config{URL: url})
	at := fleet.Head{}
	for i := range 5 {
		pgtest.Exec(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flux-resourceset' AND datname = current_database()`)
		c := namespace(at, fmt.Sprint(i))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
}

// A standby serves readers, takes no writes, and being behind is not another history.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewServer(t, "wal_level=replica")
	url := primary.Database(t, "fleet")
	require.NoError(t, Migrate(t.Context(), url))
	at := fill(t, url, 3)
	standby := primary.Standby(t).URL("fleet")
	reader := openStore(t, Config{URL: standby, ReadOnly: true})
	follow := func(at fleet.Head) {
		eventually(t, func() error {
			head, err := reader.Head(t.Context())
			if err == nil && head != at {
				err = fmt.Errorf("it is at revision %d", head.Revision)
			}
			return err
		})
	}
	follow(at)
	snap, err := reader.Load(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Records, 3)
	commits, err := reader.Since(t.Context(), fleet.Head{}, 10)
	require.NoError(t, err)
	require.Len(t, commits, 3)
	commits, err = reader.History(t.Context(), store.HistoryQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, commits, 3)

	writer := openStore(t, Config{URL: standby})
	err = writer.Commit(t.Context(), at, namespace(at, "x"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, Migrate(t.Context(), standby), store.ErrUnavailable)

	pgtest.Exec(t, standby, `SELECT pg_wal_replay_pause()`)
	ahead := fill(t, url, 2)
	_, err = reader.Since(t.Context(), ahead, 10)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrDiverged)
	pgtest.Exec(t, standby, `SELECT pg_wal_replay_resume()`)
	follow(ahead)
	_, err = reader.Since(t.Context(), fleet.Head{Revision: ahead.Revision, ID: at.ID}, 10)
	require.ErrorIs(t, err, store.ErrDiverged, "another commit at that revision is another history on a standby, too")
}

// The rights of roles as described in 0001_log.up.sql.
func TestReadOnlyRole(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	at := fill(t, url, 3)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	role := "reader_" + conn.Config().Database
	require.NoError(t, conn.Close(t.Context()))
	pgtest.Exec(t, url, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD 'sesame';
		GRANT USAGE ON SCHEMA public TO %[1]s;
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO %[1]s;
		ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO %[1]s`, role))
	t.Cleanup(func() { pgtest.ExecLate(t, url, fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role)) })
	as := pgtest.WithUser(url, role, "sesame")

	reader := openStore(t, Config{URL: as, ReadOnly: true})
	head, err := reader.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, head)
	snap, err := reader.Load(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Records, 3)
	commits, err := reader.Since(t.Context(), fleet.Head{}, 10)
	require.NoError(t, err)
	require.Len(t, commits, 3)
	commits, err = reader.History(t.Context(), store.HistoryQuery{Kind: fleet.KindNamespace, ID: "1", Limit: 10})
	require.NoError(t, err)
	require.Len(t, commits, 1)
	require.NoError(t, reader.Ping(t.Context()))
	require.ErrorIs(t, reader.Commit(t.Context(), at, namespace(at, "x")), store.ErrReadOnly)
	status, err := Status(t.Context(), as)
	require.NoError(t, err)
	require.Equal(t, newestVersion(), status.Current)

	// The database itself would not let it write either.
	writer := openStore(t, Config{URL: as})
	err = writer.Commit(t.Context(), at, namespace(at, "x"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "the role may not do this")
	pgtest.Exec(t, url, `DROP TABLE changes, commits, documents, head, ended_sessions, observations, schema_version`)
	require.NoError(t, Migrate(t.Context(), url))
	require.NoError(t, reader.Ping(t.Context()), "tables made later are readable, too")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	for name, bad := range map[string]string{
		"no such database": pgtest.WithDatabase(url, "nowhere"),
		"no such role":     pgtest.WithUser(url, "nobody_at_all", "sesame"),
		"nobody listens":   "postgres://someone:sesame@127.0.0.1:1/fleet?sslmode=disable",
	} {
		_, err := Open(t.Context(), Config{URL: bad})
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotContains(t, err.Error(), "sesame", name)
		err = Migrate(t.Context(), bad)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotContains(t, err.Error(), "sesame", name)
	}
	for name, bad := range map[string]string{
		"nothing":          "",
		"another scheme":   "sqlite://fleet.db",
		"a bad port":       "postgres://someone:sesame@host:port/fleet",
		"a bad pool size":  "postgres://someone:sesame@host/fleet?pool_max_conns=many",
		"a bad tls mode":   "postgres://someone:sesame@host/fleet?sslmode=perhaps",
		"a key=value list": "host=localhost password=sesame",
	} {
		_, err := ParseURL(bad)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "sesame", name)
	}
	cfg, err := ParseURL("postgresql://me@a:1,b:2/fleet?target_session_attrs=read-write&pool_max_conns=9")
	require.NoError(t, err)
	p, err := cfg.pool()
	require.NoError(t, err)
	require.EqualValues(t, 9, p.MaxConns)
}
