package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testHold: everybody who asks sees a hold, it refuses every change, gives way to one for a newer State only, and ends with
// the acceptance.
func testHold(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	head := b.head
	writers, readers := b.handles()
	served := func(rev fleet.Revision) store.Hold {
		return store.Hold{Reason: store.HoldReplaced, At: time.Now(), Served: store.FormatHead(fleet.Head{Revision: rev, ID: uuid.New()})}
	}
	first, older, newer := served(7), served(6), served(8)
	for _, step := range []struct{ put, want store.Hold }{{first, first}, {older, first}, {newer, newer}, {served(8), newer}, {store.Hold{Reason: store.HoldSeeded}, newer}} {
		require.NoError(t, b.Store.Hold(b.ctx(), step.put))
		for _, s := range append(readers, writers...) {
			got, err := s.Head(b.ctx())
			require.ErrorIs(t, err, store.ErrHeld)
			require.ErrorIs(t, err, store.ErrReplaced)
			var held *store.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, head, got)
			require.Equal(t, head, held.Head)
			require.Equal(t, step.want.Served, held.Hold.Served)
			snap, err := s.Load(b.ctx())
			require.NoError(t, err)
			require.Equal(t, step.want.Served, snap.Hold.Served)
			require.Len(t, snap.Records, 1)
			require.NoError(t, s.Ping(b.ctx()))
		}
	}
	for _, s := range writers {
		require.ErrorIs(t, s.Commit(b.ctx(), head, next(head, create(fleet.KindNamespace, "b", body(`{}`)))), store.ErrHeld)
	}
	accepted, err := store.Accept(b.ctx(), b.Store, head, fleet.Head{}, time.Now())
	require.NoError(t, err)
	for _, s := range append(readers, writers...) {
		got, err := s.Head(b.ctx())
		require.NoError(t, err)
		require.Equal(t, accepted, got)
		snap, err := s.Load(b.ctx())
		require.NoError(t, err)
		require.Nil(t, snap.Hold)
	}
	c := next(accepted, create(fleet.KindNamespace, "b", body(`{}`)))
	require.NoError(t, writers[len(writers)-1].Commit(b.ctx(), accepted, c))
}

// testHoldSeeded: a store that is about to be filled is held from its first commit on, whatever happens in between, and
// one that has a history is never held as seeded.
func testHoldSeeded(t *testing.T, b *bench) {
	seeded := store.Hold{Reason: store.HoldSeeded, At: time.Now()}
	require.NoError(t, b.Store.Hold(b.ctx(), seeded))
	got, err := b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Zero(t, got)
	c := next(fleet.Head{}, create(fleet.KindNamespace, "a", body(`{}`)))
	require.NoError(t, b.Store.Commit(b.ctx(), fleet.Head{}, c))
	_, err = b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrHeld)
	require.ErrorIs(t, b.Store.Commit(b.ctx(), c.Head(), next(c.Head(), create(fleet.KindNamespace, "b", body(`{}`)))), store.ErrHeld)
	accepted, err := store.Accept(b.ctx(), b.Store, c.Head(), fleet.Head{}, time.Now())
	require.NoError(t, err)
	require.NoError(t, b.Store.Hold(b.ctx(), seeded))
	got, err = b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Equal(t, accepted, got)
}

// testHoldWhileWriting: no commit that was not acknowledged before it follows a hold.
func testHoldWhileWriting(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	writers, _ := b.handles()
	var wg sync.WaitGroup
	for _, s := range writers {
		wg.Go(func() {
			for {
				head, err := s.Head(b.ctx())
				if err == nil {
					err = s.Commit(b.ctx(), head, next(head))
				}
				if errors.Is(err, store.ErrHeld) {
					return
				}
				if err != nil && !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("a commit: %v", err)
					return
				}
			}
		})
	}
	hold := store.Hold{Reason: store.HoldReplaced, Served: store.FormatHead(fleet.Head{Revision: 1 << 40, ID: uuid.New()})}
	for errors.Is(b.Store.Hold(b.ctx(), hold), store.ErrUnavailable) {
	}
	at, err := b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrHeld)
	wg.Wait()
	now, err := b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrHeld)
	require.Equal(t, at, now)
}
