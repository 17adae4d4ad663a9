package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// asked counts how often it is asked whether it answers.
type asked struct {
	store.Store
	pings atomic.Int64
}

func (s *asked) Ping(ctx context.Context) error {
	s.pings.Add(1)
	return s.Store.Ping(ctx)
}

// The cost of readiness checks for the store does not grow with their number.
func TestHealthIsFoundOutForAllWhoAsk(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := &asked{Store: w.faulty}
	r := store.NewReplica(store.Config{Store: s})
	require.NoError(t, r.Load(t.Context()))
	const people, times = 100, 5
	var asking sync.WaitGroup
	for range people {
		asking.Go(func() {
			for range times {
				if err := r.Healthy(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	asking.Wait()
	require.LessOrEqual(t, s.pings.Load(), int64(people*times/10))
	t.Logf("%d questions for %d", s.pings.Load(), people*times)
}
