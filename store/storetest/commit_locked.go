package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// following makes the commit that creates a namespace on top of a head.
func following(id uuid.UUID, name string) func(context.Context, fleet.Head) (fleet.Commit, error) {
	return func(_ context.Context, head fleet.Head) (fleet.Commit, error) {
		c := next(head, create(fleet.KindNamespace, name, body(`{}`)))
		c.ID = id
		return c, nil
	}
}

func testCommitLocked(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	id := uuid.New()
	require.NoError(t, b.Store.CommitLocked(b.ctx(), id, following(id, "b")))
	b.head = fleet.Head{Revision: 2, ID: id}
	require.Equal(t, b.head, b.load().Head)
	require.Len(t, b.load().Records, 2)

	mine := errors.New("mine")
	b.unchanged(func() {
		err := b.Store.CommitLocked(b.ctx(), uuid.New(), func(_ context.Context, head fleet.Head) (fleet.Commit, error) {
			require.Equal(t, b.head, head)
			commits, err := b.Store.Since(b.ctx(), fleet.Head{}, 10)
			require.NoError(t, err, "what it does may be read meanwhile")
			require.Len(t, commits, 2)
			return fleet.Commit{}, mine
		})
		require.ErrorIs(t, err, mine)
		err = b.Store.CommitLocked(b.ctx(), uuid.New(), func(context.Context, fleet.Head) (fleet.Commit, error) {
			return next(fleet.Head{}), nil // on top of an old head
		})
		require.Error(t, err)
		cancelled, cancel := context.WithCancel(t.Context())
		err = b.Store.CommitLocked(cancelled, id, func(ctx context.Context, head fleet.Head) (fleet.Commit, error) {
			cancel()
			return following(uuid.New(), "c")(ctx, head)
		})
		require.ErrorIs(t, err, context.Canceled)
	})
	b.commit(create(fleet.KindNamespace, "c", body(`{}`)))
}

// testCommitLockedIsNotOvertaken: no other commit lands between the head that a locked commit was computed from and the commit,
// however busy other writers are.
func testCommitLockedIsNotOvertaken(t *testing.T, b *bench) {
	if b.Again == nil {
		t.Skip("this backend has one handle per database, whose writers take turns")
	}
	ctx, stop := context.WithCancel(b.ctx())
	var others sync.WaitGroup
	var made atomic.Int64
	for w := range 3 {
		s := b.again(false)
		others.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = commitRetrying(ctx, s, func(store.Snapshot) []fleet.Change {
					return []fleet.Change{create(fleet.KindNamespace, fmt.Sprintf("other-%d-%d", w, i), body(`{}`))}
				})
				made.Add(1)
			}
		})
	}
	for i := range 5 {
		before := made.Load()
		require.Eventually(t, func() bool { return made.Load() > before+3 }, testTimeout, time.Millisecond)
		id := uuid.New()
		var base fleet.Head
		computeSlowly := func(ctx context.Context, head fleet.Head) (fleet.Commit, error) {
			base = head
			for range 20 { // time for the others to come between
				now, err := b.Store.Head(ctx)
				if err != nil || now != head {
					return fleet.Commit{}, errors.Join(err, fmt.Errorf("the head moved to %d", now.Revision))
				}
				time.Sleep(time.Millisecond)
			}
			return following(id, fmt.Sprint("mine-", i))(ctx, head)
		}
		require.NoError(t, persist(b.ctx(), func() error { return b.Store.CommitLocked(b.ctx(), id, computeSlowly) }))
		commits, err := b.Store.Since(b.ctx(), base, 1)
		require.NoError(t, err)
		require.Equal(t, id, commits[0].ID)
	}
	stop()
	others.Wait()
	b.load()
}

func testProbe(t *testing.T, b *bench) {
	require.NoError(t, b.Store.Probe(b.ctx()))
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	b.unchanged(func() {
		for range 3 {
			require.NoError(t, b.Store.Probe(b.ctx()))
		}
	})
	b.commit(create(fleet.KindNamespace, "b", body(`{}`)))
	if b.Again != nil {
		require.ErrorIs(t, b.again(true).Probe(b.ctx()), store.ErrReadOnly)
	}
	b.exec(`ALTER TABLE changes RENAME TO elsewhere`)
	require.Error(t, b.Store.Probe(b.ctx()))
	b.exec(`ALTER TABLE elsewhere RENAME TO changes`)
	require.NoError(t, b.Store.Probe(b.ctx()))
}
