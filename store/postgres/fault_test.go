package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

func namespace(base fleet.Head, id string) fleet.Commit {
	return fleet.Commit{Revision: base.Revision + 1, ID: uuid.New(), Changes: []fleet.Change{
		{Kind: fleet.KindNamespace, ID: id, After: json.RawMessage(`{}`)},
	}}
}

// fill makes n commits and returns the last one's head.
func fill(t *testing.T, url string, n int) (at fleet.Head) {
	t.Helper()
	s := openStore(t, Config{URL: url})
	at, err := s.Head(t.Context())
	require.NoError(t, err)
	for range n {
		c := namespace(at, fmt.Sprint(at.Revision))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
	return at
}

// eventually runs do until it succeeds. It does not measure: the deadline only ends a test that hangs.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := do(); err != nil; err = do() {
		require.NoError(t, ctx.Err(), err)
		pause(ctx)
	}
}

func ask(ctx context.Context, s *Store) error {
	_, err := s.Head(ctx)
	return err
}

// If the answer to COMMIT is lost, the log decides.
func TestUnclearCommit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		commit func(*testing.T, *testrig.Proxy, string) func(*testrig.Conn, []byte)
		check  func(*testing.T, error)
		in     bool
	}{
		"it was done": {
			commit: func(*testing.T, *testrig.Proxy, string) func(*testrig.Conn, []byte) { return testrig.UnansweredCommit },
			check:  func(t *testing.T, err error) { require.NoError(t, err) },
			in:     true,
		},
		"it never arrived": {
			commit: func(*testing.T, *testrig.Proxy, string) func(*testrig.Conn, []byte) { return testrig.LostCommit(0) },
			check: func(t *testing.T, err error) {
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.NotErrorIs(t, err, store.ErrUnknown)
			},
		},
		// The client is cut off first, and looks up its commit before the server has received it.
		"it arrives late": {
			commit: func(t *testing.T, _ *testrig.Proxy, url string) func(*testrig.Conn, []byte) {
				return func(c *testrig.Conn, message []byte) {
					c.DropClient()
					eventually(t, func() error { return waitsForHead(t, url) })
					c.Deliver(message)
				}
			},
			check: func(t *testing.T, err error) { require.NoError(t, err) },
			in:    true,
		},
		"nobody can tell": {
			commit: func(_ *testing.T, p *testrig.Proxy, _ string) func(*testrig.Conn, []byte) {
				return func(c *testrig.Conn, message []byte) {
					p.Set(testrig.Trouble{Refuse: true})
					c.DropClient() // before there is an answer that could reach it
					p.Cut()
					c.Deliver(message)
				}
			},
			check: func(t *testing.T, err error) { require.ErrorIs(t, err, store.ErrUnknown) },
			in:    true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			p, through := newProxy(t, url)
			s := openStore(t, Config{URL: through})
			first := namespace(fleet.Head{}, "a")
			require.NoError(t, s.Commit(t.Context(), fleet.Head{}, first))
			second := namespace(first.Head(), "b")
			handle := tc.commit(t, p, url)
			p.Set(testrig.Trouble{Commit: func(c *testrig.Conn, message []byte) {
				p.Set(testrig.Trouble{})
				handle(c, message)
			}})
			tc.check(t, s.Commit(t.Context(), first.Head(), second))
			p.Set(testrig.Trouble{})

			fresh := openStore(t, Config{URL: url})
			want := first.Head()
			if tc.in {
				want = second.Head()
			}
			eventually(t, func() error { // the server may still be busy with it if the outcome is unknown
				head, err := fresh.Head(t.Context())
				if err == nil && head != want {
					err = fmt.Errorf("the head is revision %d", head.Revision)
				}
				return err
			})
			for _, s := range []*Store{fresh, s} {
				c := namespace(want, fmt.Sprint("c", want.Revision))
				require.NoError(t, s.Commit(t.Context(), want, c), "no lock is left behind")
				want = c.Head()
			}
		})
	}
}

// waitsForHead returns nil when a session waits for a lock in the database.
func waitsForHead(t *testing.T, url string) error {
	s := openStore(t, Config{URL: url})
	defer func() { _ = s.Close() }()
	var waiting int
	err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND (query LIKE '%FOR UPDATE%' OR query LIKE '%FOR SHARE%')`).Scan(&waiting)
	if err == nil && waiting == 0 {
		err = errors.New("nobody waits")
	}
	return err
}

// A caller that gives up while its commit is on the way does not turn it into a failure.
func TestContextEndsDuringCommit(t *testing.T) {
	t.Parallel()
	p, url := newProxy(t, newDatabase(t))
	s := openStore(t, Config{URL: url})
	ctx, cancel := context.WithCancel(t.Context())
	p.Set(testrig.Trouble{Commit: func(c *testrig.Conn, message []byte) {
		cancel()
		c.Deliver(message)
	}})
	c := namespace(fleet.Head{}, "a")
	require.NoError(t, s.Commit(ctx, fleet.Head{}, c))
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Head(), head)
}

// A server that accepts connections without answering is detected within the caller's two seconds, by our own deadline, and
// used again as soon as it answers.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	direct := newDatabase(t)
	at := fill(t, direct, 3)
	p, url := newProxy(t, direct)
	s := openStore(t, Config{URL: url})
	for name, do := range map[string]func(context.Context) error{
		"Head":    func(ctx context.Context) error { return ask(ctx, s) },
		"Ping":    s.Ping,
		"Load":    func(ctx context.Context) error { _, err := s.Load(ctx); return err },
		"Since":   func(ctx context.Context) error { _, err := s.Since(ctx, fleet.Head{}, 10); return err },
		"History": func(ctx context.Context) error { _, err := s.History(ctx, store.HistoryQuery{Limit: 1}); return err },
		"Commit":  func(ctx context.Context) error { return s.Commit(ctx, at, namespace(at, "x")) },
		"Open": func(ctx context.Context) error {
			_, err := Open(ctx, Config{URL: url})
			return err
		},
	} {
		p.Set(testrig.Trouble{Silent: true})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // far beyond the store's own limit, also on a busy machine
		err := do(ctx)
		cancel()
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: the deadline was not the caller's", name)
		p.Set(testrig.Trouble{})
		eventually(t, func() error { return ask(t.Context(), s) })
	}
	snap, err := s.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, snap.Head)
}

// Dead connections in the pool cost no answer when the server is there: a first question is put again.
func TestLostConnectionsHeal(t *testing.T) {
	t.Parallel()
	direct := newDatabase(t)
	p, url := newProxy(t, direct)
	s := openStore(t, Config{URL: url})
	at := fleet.Head{}
	for i := range 5 {
		var wg sync.WaitGroup
		for range maxConns {
			wg.Go(func() { _, _ = s.Load(t.Context()) }) // every connection is used
		}
		wg.Wait()
		p.Cut()
		c := namespace(at, fmt.Sprint(i))
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
		p.Cut()
		require.NoError(t, ask(t.Context(), s))
	}
	p.Set(testrig.Trouble{Refuse: true})
	p.Cut()
	require.ErrorIs(t, ask(t.Context(), s), store.ErrUnavailable)
	require.ErrorIs(t, s.Commit(t.Context(), at, namespace(at, "x")), store.ErrUnavailable)
	p.Set(testrig.Trouble{})
	require.NoError(t, ask(t.Context(), s))
}

// A truncated result is an error, regardless of the rows that were read.
func TestLoadCutOff(t *testing.T) {
	t.Parallel()
	direct := newDatabase(t)
	s := openStore(t, Config{URL: direct})
	c := namespace(fleet.Head{}, "first")
	for i := range 2000 {
		c.Changes = append(c.Changes, fleet.Change{Kind: fleet.KindCluster, ID: fmt.Sprint(i), After: json.RawMessage(fmt.Sprintf(`{"n":"%01000d"}`, i))})
	}
	require.NoError(t, s.Commit(t.Context(), fleet.Head{}, c))
	p, url := newProxy(t, direct)
	through := openStore(t, Config{URL: url})
	p.Set(testrig.Trouble{CutAfter: func() int { return 500_000 }})
	snap, err := through.Load(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Empty(t, snap)
	commits, err := through.Since(t.Context(), fleet.Head{}, 10)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Empty(t, commits)
	p.Set(testrig.Trouble{})
	snap, err = through.Load(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Records, 2001)
}

func TestCommitsAreDurable(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	cfg, err := Config{URL: url}.pool()
	require.NoError(t, err)
	for configured, want := range map[string]string{"off": "on", "local": "local", "remote_write": "remote_write", "on": "on", "remote_apply": "remote_apply"} {
		pgtest.Exec(t, url, fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = %s`, cfg.ConnConfig.Database, configured))
		s := openStore(t, Config{URL: url})
		require.NoError(t, s.write(t.Context(), sqlstore.Job{}, func(ctx context.Context, tx sqlstore.WriteTx, _ sqlstore.HeadRow) error {
			_, done, err := tx.Prepare(ctx, namespace(fleet.Head{}, "a"))
			require.NoError(t, err)
			defer done()
			require.NoError(t, tx.Flush(ctx))
			var got string
			require.NoError(t, sqlstore.QueryOne(ctx, tx, []any{&got}, `SHOW synchronous_commit`))
			require.Equal(t, want, got)
			return nil
		}))
	}
}
