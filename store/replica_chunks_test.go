package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// The chunks of a commit from before the store was replaced are not mixed with chunks of the commit at the same revision.
func TestReplicaChunksAreOfOneCommit(t *testing.T) {
	t.Parallel()
	many := func(name string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) (err error) {
			for i := range 100 {
				err = errors.Join(err, createNamespace(fmt.Sprint(name, i))(tx))
			}
			return err
		}
	}
	ours, other := setup(t), setup(t)
	require.NoError(t, ours.replica.Load(t.Context()))
	ours.update(t, createClusters("a"))
	restore(t, other, backup(t, ours))
	b := attach(t, ours.path)
	require.NoError(t, b.replica.Load(t.Context()))
	ours.update(t, many("ours"))
	b.faulty.cut.Store(true)
	eventually(t, func() bool { return b.replica.Load(t.Context()) != nil && b.faulty.parts.Load() > 0 })
	require.EqualValues(t, 1, b.replica.State().Revision())

	eventually(t, func() bool { return other.replica.Load(t.Context()) == nil })
	theirs := other.update(t, many("theirs"))
	restore(t, b, backup(t, other))
	b.faulty.cut.Store(false)
	b.run(t)
	eventually(t, func() bool { return b.replica.State().Head() == theirs.Commit.Head() })
	require.False(t, has(b.replica.State(), fleet.KindNamespace, "ours0"))
	for i := range 100 {
		require.True(t, has(b.replica.State(), fleet.KindNamespace, fmt.Sprint("theirs", i)))
	}
}
