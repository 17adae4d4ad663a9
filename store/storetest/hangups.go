package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testHangUps: thousands of callers cancel their commits and reads at random instants. The store stays usable: the next commit
// succeeds, acknowledged commits are in the log, and failed ones are not.
func testHangUps(t *testing.T, b *bench) {
	const callers, each = 6, 400
	var mu sync.Mutex
	outcomes := map[uuid.UUID]error{}
	first := b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	writers, _ := b.handles() // two processes: they also go away while they wait for each other
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			s := writers[i%len(writers)]
			at := first.Head()
			for n := range each {
				ctx, cancel := context.WithTimeout(b.ctx(), rand.N(300*time.Microsecond<<(n%5)))
				if n%10 == 0 {
					_, _ = s.Load(ctx) // it may be cut off, and must not leave anything behind
				}
				c := next(at, update(fleet.KindNamespace, "a", body(`{}`), body(`{}`)))
				err := s.Commit(ctx, at, c)
				cancel()
				mu.Lock()
				outcomes[c.ID] = err
				mu.Unlock()
				if err == nil {
					at = c.Head()
				} else if head, err := s.Head(b.ctx()); err == nil {
					at = head
				}
			}
		})
	}
	wg.Wait()

	var last fleet.Commit
	for i, s := range writers {
		head, err := s.Head(b.ctx())
		require.NoError(t, err)
		last = next(head, create(fleet.KindNamespace, fmt.Sprint("afterwards", i), body(`{}`)))
		require.NoError(t, s.Commit(b.ctx(), head, last))
	}
	require.Len(t, b.load().Records, 1+len(writers))
	inLog := map[uuid.UUID]bool{}
	for at := (fleet.Head{}); at != last.Head(); {
		for _, c := range b.since(at, 1000) {
			inLog[c.ID], at = true, c.Head()
		}
	}
	for id, err := range outcomes {
		switch {
		case err == nil:
			require.True(t, inLog[id], "an acknowledged commit is lost")
		case errors.Is(err, store.ErrUnknown):
		default:
			require.False(t, inLog[id], "it is in the log, and was answered with %v", err)
			if !errors.Is(err, store.ErrStale) && !errors.Is(err, context.DeadlineExceeded) {
				require.ErrorIs(t, err, store.ErrUnavailable, "its caller went away, nothing else happened")
			}
		}
	}
}
