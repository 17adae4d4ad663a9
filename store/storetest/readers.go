package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testReadersStarveNobody: with any number of readers of the history, the follower, head queries and commits do not wait for
// all of those. The test counts how many readers finish first.
func testReadersStarveNobody(t *testing.T, b *bench) {
	const readers, rounds = 100, 5
	for i := range 150 {
		b.commit(create(fleet.KindNamespace, fmt.Sprint("n", i), body(`{"n":%d}`, i)))
	}
	ctx, stop := context.WithCancel(b.ctx())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	var read atomic.Int64
	for range readers {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.Store.Summaries(ctx, store.HistoryQuery{Limit: 1000}, 21); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				read.Add(1)
			}
		})
	}
	before := b.head
	questions := map[string]func() error{
		"Head":   func() error { _, err := b.Store.Head(ctx); return err },
		"Since":  func() error { _, err := b.Store.Since(ctx, before, 100); return err },
		"Latest": func() error { _, _, err := b.Store.Latest(ctx, fleet.KindToken, before); return err },
		"Summaries": func() error {
			_, err := b.Store.Summaries(store.WithPriority(ctx), store.HistoryQuery{Before: 2, Limit: 1}, 0)
			return err
		},
		"Changes": func() error { _, err := b.Store.Changes(store.WithPriority(ctx), 1, 0, 10); return err },
		"Barrier": func() error { _, err := b.Store.Barrier(ctx); return err },
		"Commit":  func() error { b.commit(create(fleet.KindCluster, fmt.Sprint(b.head.Revision), body(`{}`))); return nil },
	}
	first := map[string][]int64{}
	require.Eventually(t, func() bool { return read.Load() > readers/4 }, testTimeout, time.Millisecond)
	for range rounds {
		for name, ask := range questions {
			from := read.Load()
			require.NoError(t, ask(), name)
			first[name] = append(first[name], read.Load()-from)
		}
	}
	for name, counts := range first {
		slices.Sort(counts)
		require.Less(t, counts[rounds/2], int64(readers/4), "%s waited for so many reads of history: %v", name, counts)
	}
}
