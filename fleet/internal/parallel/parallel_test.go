package parallel_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

func TestEachCallsEachOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 63, 64, 65, 128, 10_000} {
		calls := make([]atomic.Int32, n)
		parallel.Each(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			require.EqualValues(t, 1, calls[i].Load(), "%d of %d", i, n)
		}
	}
}

func TestEachPanicsInItsCaller(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 1000} {
		func() {
			defer func() { require.Contains(t, fmt.Sprint(recover()), "here") }()
			parallel.Each(n, func(i int) {
				if i == n/2 {
					panic("here")
				}
			})
		}()
	}
}

// TestErrors: the result is the same on any machine.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 1000} {
		var calls atomic.Int32
		err := parallel.Errors(n, func(i int) error {
			calls.Add(1)
			if i < n/3 {
				return nil
			}
			return fmt.Errorf("%d", i)
		})
		require.EqualError(t, err, fmt.Sprint(n/3))
		require.EqualValues(t, n, calls.Load())
	}
	require.NoError(t, parallel.Errors(100, func(int) error { return nil }))
}
