package fleet

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInParallelCallsEachOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 63, 64, 65, 128, 10_000} {
		calls := make([]atomic.Int32, n)
		inParallel(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			require.EqualValues(t, 1, calls[i].Load(), "%d of %d", i, n)
		}
	}
}

func TestInParallelPanicsInItsCaller(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 1000} {
		func() {
			defer func() { require.Contains(t, fmt.Sprint(recover()), "here") }()
			inParallel(n, func(i int) {
				if i == n/2 {
					panic("here")
				}
			})
		}()
	}
}

// TestProblemsOfManyDocumentsComeInOrder, however many processors look for them.
func TestProblemsOfManyDocumentsComeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindNamespace), `{"id":"n"}`)
	create := func(namespace string) func(*Tx) error {
		return func(tx *Tx) error {
			for i := range 500 {
				body := fmt.Sprintf(`{"id":"k%03d","cluster_dns":"k%03d.example.com","environment":"dev","namespaces":[{"id":"%s"}]}`, i, i, namespace)
				if _, err := tx.Create(KindCluster, []byte(body)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	_, err := w.try(create("gone"))
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 500)
	for i, p := range refused.Problems {
		require.Equal(t, fmt.Sprintf("k%03d", i), p.ID)
	}
	res, err := w.try(create("n"))
	require.NoError(t, err)
	followed, err := w.state.Apply(res.Commit)
	require.NoError(t, err)
	require.Equal(t, 500, followed.Clusters())
	loaded, err := NewState(Rules{}, followed.Head(), followed.At(), slices.Collect(followed.Records()))
	require.NoError(t, err)
	require.Equal(t, 500, loaded.Clusters())
}
