package sqlite

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// If the WAL is removed while a commit holds the lock and reads its base, that commit fails, no caller waits for ever, and no
// acknowledged commit is lost.
func TestLogRemovedDuringALockedCommit(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	at := fill(t, path, 5)
	s := openStore(t, Config{Path: path})
	c := namespace(at, "before")
	require.NoError(t, s.Commit(t.Context(), at, c))
	id := uuid.New()
	err := s.CommitLocked(t.Context(), id, func(ctx context.Context, base fleet.Head) (fleet.Commit, error) {
		if err := os.Remove(path + "-wal"); err != nil {
			return fleet.Commit{}, err
		}
		if _, err := s.Since(ctx, at, 10); err != nil {
			return fleet.Commit{}, err
		}
		return fleet.Commit{}, errors.New("what was taken away can be read")
	})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, ask(t.Context(), s), store.ErrUnavailable)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Head(), head)
}
