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

// testQuarantine: a quarantine is visible to every caller, refuses every change, is superseded only by one for a newer State,
// and ends with the acceptance.
func testQuarantine(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	head := b.head
	writers, readers := b.handles()
	served := func(rev fleet.Revision) store.Quarantine {
		return store.Quarantine{Reason: store.QuarantineReplaced, At: time.Now(), Served: store.FormatHead(fleet.Head{Revision: rev, ID: uuid.New()})}
	}
	first, older, newer := served(7), served(6), served(8)
	for _, step := range []struct{ put, want store.Quarantine }{{first, first}, {older, first}, {newer, newer}, {served(8), newer}, {store.Quarantine{Reason: store.QuarantineSeeded}, newer}} {
		require.NoError(t, b.Store.Quarantine(b.ctx(), step.put))
		for _, s := range append(readers, writers...) {
			got, err := s.Head(b.ctx())
			require.ErrorIs(t, err, store.ErrQuarantined)
			require.ErrorIs(t, err, store.ErrReplaced)
			var quarantined *store.QuarantinedError
			require.ErrorAs(t, err, &quarantined)
			require.Equal(t, head, got)
			require.Equal(t, head, quarantined.Head)
			require.Equal(t, step.want.Served, quarantined.Quarantine.Served)
			snap, err := s.Load(b.ctx())
			require.NoError(t, err)
			require.Equal(t, step.want.Served, snap.Quarantine.Served)
			require.Len(t, snap.Records, 1)
			require.NoError(t, s.Ping(b.ctx()))
		}
	}
	for _, s := range writers {
		require.ErrorIs(t, s.Commit(b.ctx(), head, next(head, create(fleet.KindNamespace, "b", body(`{}`)))), store.ErrQuarantined)
	}
	accepted, err := store.Accept(b.ctx(), b.Store, head, fleet.Head{}, time.Now())
	require.NoError(t, err)
	for _, s := range append(readers, writers...) {
		got, err := s.Head(b.ctx())
		require.NoError(t, err)
		require.Equal(t, accepted, got)
		snap, err := s.Load(b.ctx())
		require.NoError(t, err)
		require.Nil(t, snap.Quarantine)
	}
	c := next(accepted, create(fleet.KindNamespace, "b", body(`{}`)))
	require.NoError(t, writers[len(writers)-1].Commit(b.ctx(), accepted, c))
}

// testQuarantineSeeded: a store that is about to be filled is quarantined from its first commit on, and a store with a history
// is never quarantined as seeded.
func testQuarantineSeeded(t *testing.T, b *bench) {
	seeded := store.Quarantine{Reason: store.QuarantineSeeded, At: time.Now()}
	require.NoError(t, b.Store.Quarantine(b.ctx(), seeded))
	got, err := b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Zero(t, got)
	c := next(fleet.Head{}, create(fleet.KindNamespace, "a", body(`{}`)))
	require.NoError(t, b.Store.Commit(b.ctx(), fleet.Head{}, c))
	_, err = b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrQuarantined)
	require.ErrorIs(t, b.Store.Commit(b.ctx(), c.Head(), next(c.Head(), create(fleet.KindNamespace, "b", body(`{}`)))), store.ErrQuarantined)
	accepted, err := store.Accept(b.ctx(), b.Store, c.Head(), fleet.Head{}, time.Now())
	require.NoError(t, err)
	require.NoError(t, b.Store.Quarantine(b.ctx(), seeded))
	got, err = b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Equal(t, accepted, got)
}

// testQuarantineWhileWriting: no commit that was not acknowledged before it follows a hold.
func testQuarantineWhileWriting(t *testing.T, b *bench) {
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
				if errors.Is(err, store.ErrQuarantined) {
					return
				}
				if err != nil && !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("a commit: %v", err)
					return
				}
			}
		})
	}
	quarantine := store.Quarantine{Reason: store.QuarantineReplaced, Served: store.FormatHead(fleet.Head{Revision: 1 << 40, ID: uuid.New()})}
	for errors.Is(b.Store.Quarantine(b.ctx(), quarantine), store.ErrUnavailable) {
	}
	at, err := b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrQuarantined)
	wg.Wait()
	now, err := b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrQuarantined)
	require.Equal(t, at, now)
}
