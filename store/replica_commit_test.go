package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A commit may take the longer the more it changes: this one would never end within the time of a small one.
func TestReplicaLargeCommit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := store.NewReplica(store.Config{Store: w.faulty, CommitTimeout: time.Millisecond})
	require.NoError(t, r.Load(t.Context()))
	var ids []string
	for i := range 8000 {
		ids = append(ids, fmt.Sprintf("c%d-%s", i, strings.Repeat("x", 40)))
	}
	res, err := r.Update(t.Context(), store.Meta{Actor: "test"}, createClusters(ids...))
	require.NoError(t, err)
	require.Greater(t, store.CommitPatience(res.Commit), 2*time.Second)
}

func TestCommitPatience(t *testing.T) {
	t.Parallel()
	of := func(before, after int) time.Duration {
		return store.CommitPatience(fleet.Commit{Changes: []fleet.Change{{Before: make([]byte, before)}, {After: make([]byte, after)}}})
	}
	require.Zero(t, of(1000, 1000))
	require.Equal(t, 20*time.Second, of(0, 10<<20))
	require.Equal(t, 20*time.Second, of(8<<20, 2<<20))
	require.Equal(t, 15*time.Minute, of(300<<20, 300<<20), "nothing takes for ever")
}
