package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func testBarrier(t *testing.T, b *bench) {
	writers, _ := b.handles()
	for i := range 5 {
		for _, s := range writers {
			for range 2 { // the first leaves no state that breaks the second
				head, err := s.Barrier(b.ctx())
				require.NoError(t, err)
				require.Equal(t, b.head, head)
			}
		}
		b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`)))
	}
	b.unchanged(func() {
		_, err := b.Store.Barrier(b.ctx())
		require.NoError(t, err)
	})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Store.Barrier(cancelled)
	require.ErrorIs(t, err, context.Canceled)
}

func testBarrierReadOnly(t *testing.T, b *bench) {
	reader := b.again(true)
	_, err := reader.Barrier(b.ctx())
	require.ErrorIs(t, err, store.ErrReadOnly)
}

// testBarrierWhileWriting: a head returned by Barrier is never behind a commit that was acknowledged before, and later commits
// follow it.
func testBarrierWhileWriting(t *testing.T, b *bench) {
	const n = 60
	writers, _ := b.handles()
	ctx, done := flipping(b, n)
	confirmed := map[fleet.Revision]fleet.Head{}
	var last fleet.Head
	for last.Revision < n {
		for _, s := range writers {
			acknowledged, err := s.Head(ctx)
			require.NoError(t, err, context.Cause(ctx))
			head, err := s.Barrier(ctx)
			require.NoError(t, err, context.Cause(ctx))
			require.GreaterOrEqual(t, head.Revision, acknowledged.Revision)
			require.GreaterOrEqual(t, head.Revision, last.Revision)
			confirmed[head.Revision], last = head, head
		}
	}
	require.NoError(t, <-done)
	for _, c := range b.since(fleet.Head{}, 1000) {
		if head, ok := confirmed[c.Revision]; ok {
			require.Equal(t, c.Head(), head)
		}
	}
}

// testBarrierCanceled: a caller that stops waiting leaves the store usable.
func testBarrierCanceled(t *testing.T, b *bench) {
	writers, _ := b.handles()
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			defer cancel()
			if head, err := writers[i%len(writers)].Barrier(ctx); err == nil && head != b.head {
				t.Errorf("the head is %v", head)
			}
		})
	}
	wg.Wait()
	b.commit(create(fleet.KindNamespace, "b", body(`{}`)))
}
