package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A checked seed is committed without reading and validating it again; but only as the whole content of an empty fleet with
// the same rules.
func TestCheckedSeedsAreNotCheckedAgain(t *testing.T) {
	t.Parallel()
	rules := Rules{Environments: []string{"dev"}}
	seed, err := ParseSeed([]byte(`{"namespaces":[{"id":"web"}],"clusters":[{"_id":"a","cluster_dns":"a.example.com","environment":"dev","namespaces":[{"id":"web"}]}]}`))
	require.NoError(t, err)
	begin := func(rules Rules) *Tx {
		empty, err := NewState(rules, Head{}, time.Time{}, nil)
		require.NoError(t, err)
		return empty.Begin()
	}
	plainTx := begin(rules)
	require.NoError(t, seed.Create(plainTx))
	require.False(t, seed.covers(plainTx), "nobody has checked it")
	want, err := plainTx.Finish(Commit{})
	require.NoError(t, err)

	require.NoError(t, seed.Check(rules, nil))
	for range 2 { // an update that lost a race runs again
		tx := begin(rules)
		require.NoError(t, seed.Create(tx))
		require.True(t, seed.covers(tx))
		require.Same(t, seed[1].doc, tx.raw(KindCluster, "a"))
		got, err := tx.Finish(Commit{})
		require.NoError(t, err)
		require.Equal(t, want.Commit.Changes, got.Commit.Changes)
	}

	other := begin(Rules{Environments: []string{"prod"}})
	require.NoError(t, seed.Create(other))
	_, err = other.Finish(Commit{})
	require.ErrorContains(t, err, "is not an environment here")

	more := begin(rules)
	require.NoError(t, seed.Create(more))
	_, err = more.Create(KindCluster, []byte(`{"id":"b","cluster_dns":"b.example.com","environment":"moon"}`))
	require.NoError(t, err)
	_, err = more.Finish(Commit{})
	require.ErrorContains(t, err, "is not an environment here")

	changed := begin(rules)
	require.NoError(t, seed.Create(changed))
	_, err = changed.Patch(KindCluster, "a", []byte(`{"environment":"moon"}`))
	require.NoError(t, err)
	_, err = changed.Finish(Commit{})
	require.ErrorContains(t, err, "is not an environment here")

	require.ErrorContains(t, seed.Create(want.State.Begin()), "exists already")
}
