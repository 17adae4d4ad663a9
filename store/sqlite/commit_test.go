package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func namespace(base fleet.Head, id string) fleet.Commit {
	return fleet.Commit{Revision: base.Revision + 1, ID: uuid.New(), Changes: []fleet.Change{
		{Kind: fleet.KindNamespace, ID: id, After: json.RawMessage(`{}`)},
	}}
}

// If COMMIT itself fails, the log decides.
func TestUnclearCommit(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	for name, tc := range map[string]struct {
		commit func(*Store, string) func(context.Context, *sql.Conn) error
		check  func(*testing.T, error)
		in     bool
	}{
		"it was done": {
			commit: func(*Store, string) func(context.Context, *sql.Conn) error {
				return func(ctx context.Context, c *sql.Conn) error { return errors.Join(lost, commit(ctx, c)) }
			},
			check: func(t *testing.T, err error) { require.NoError(t, err) },
			in:    true,
		},
		"it was not done": {
			commit: func(*Store, string) func(context.Context, *sql.Conn) error {
				return func(context.Context, *sql.Conn) error { return lost }
			},
			check: func(t *testing.T, err error) {
				require.ErrorIs(t, err, lost)
				require.NotErrorIs(t, err, store.ErrUnknown)
			},
		},
		"the connection died": {
			commit: func(*Store, string) func(context.Context, *sql.Conn) error {
				return func(_ context.Context, c *sql.Conn) error {
					discard(c)
					return lost
				}
			},
			check: func(t *testing.T, err error) { require.ErrorIs(t, err, lost) },
		},
		"nobody can tell": {
			commit: func(s *Store, _ string) func(context.Context, *sql.Conn) error {
				return func(ctx context.Context, c *sql.Conn) error {
					return errors.Join(lost, commit(ctx, c), s.open.reader.Close())
				}
			},
			check: func(t *testing.T, err error) {
				require.ErrorIs(t, err, store.ErrUnknown)
				require.ErrorIs(t, err, lost)
			},
			in: true,
		},
		"the file was gone by then": {
			commit: func(_ *Store, path string) func(context.Context, *sql.Conn) error {
				return func(ctx context.Context, c *sql.Conn) error {
					return errors.Join(os.Rename(path, path+".away"), commit(ctx, c), os.Rename(path+".away", path+".there"))
				}
			},
			check: func(t *testing.T, err error) { require.ErrorIs(t, err, store.ErrUnknown) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s := openStore(t, Config{Path: path})
			first := namespace(fleet.Head{}, "a")
			require.NoError(t, s.Commit(t.Context(), fleet.Head{}, first))
			second := namespace(first.Head(), "b")
			s.commit = tc.commit(s, path)
			tc.check(t, s.Commit(t.Context(), first.Head(), second))
			if _, err := os.Stat(path); err != nil {
				return
			}
			fresh := openStore(t, Config{Path: path})
			head, err := fresh.Head(t.Context())
			require.NoError(t, err)
			if tc.in {
				require.Equal(t, second.Head(), head)
			} else {
				require.Equal(t, first.Head(), head)
			}
			require.NoError(t, fresh.Commit(t.Context(), head, namespace(head, "c")), "no lock is left behind")
		})
	}
}

// A caller that gives up while its commit is on the way does not turn it into a failure.
func TestContextEndsDuringCommit(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{Path: newFile(t)})
	ctx, cancel := context.WithCancel(t.Context())
	s.commit = func(inner context.Context, c *sql.Conn) error {
		cancel()
		return commit(inner, c)
	}
	c := namespace(fleet.Head{}, "a")
	require.NoError(t, s.Commit(ctx, fleet.Head{}, c))
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Head(), head)
}

// A writer waits for another process's lock, and no longer than its caller.
func TestCommitWaitsForTheLock(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := openStore(t, Config{Path: path})
	other, err := connect(path, accessWrite, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	tx, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Commit(ctx, fleet.Head{}, namespace(fleet.Head{}, "a")), context.DeadlineExceeded)
	_, err = s.Load(t.Context())
	require.NoError(t, err, "readers do not wait for writers")

	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), fleet.Head{}, namespace(fleet.Head{}, "a")) }()
	select { // longer than SQLite itself would wait
	case err := <-done:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(3 * writerBusy):
	}
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-done)
}

// A file that goes away while a commit waits for its turn is not written to, and the caller knows.
func TestFileGoesAwayBeforeCommit(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := openStore(t, Config{Path: path})
	other, err := connect(path, accessWrite, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	tx, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	writer := s.open.writer
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), fleet.Head{}, namespace(fleet.Head{}, "a")) }()
	require.Eventually(t, func() bool { return writer.Stats().InUse == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, os.Rename(path, path+".away"))
	require.NoError(t, tx.Rollback())
	err = <-done
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
}
