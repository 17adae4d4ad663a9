package store_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// whileFollowing calls observe whenever the replica asks for the next commits.
type whileFollowing struct {
	store.Store
	observe func()
}

func (s *whileFollowing) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	s.observe()
	return s.Store.Since(ctx, after, limit)
}

// A process that must not serve a quarantined store's content follows it for reads. Each State on the way is as quarantined as
// its predecessor: clusters are never answered from it, not even for a moment.
func TestStateAfterAQuarantinedOneIsQuarantined(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := attach(t, w.path)
	require.NoError(t, other.replica.Load(t.Context()))
	other.update(t, createNamespace("a"))
	watched := &whileFollowing{Store: w.faulty, observe: func() {}}
	replica := store.NewReplica(store.Config{Store: watched, BatchSize: 1})
	require.NoError(t, replica.Load(t.Context()))
	for _, id := range []string{"b", "c", "d"} {
		other.update(t, createNamespace(id))
	}
	elsewhere := fleet.Head{Revision: 9, ID: uuid.New()}
	require.NoError(t, other.faulty.Quarantine(t.Context(), store.Quarantine{Reason: store.QuarantineReplaced, Served: store.FormatHead(elsewhere)}))

	var between []fleet.Revision
	watched.observe = func() {
		if rev := replica.State().Revision(); rev > 1 {
			between = append(between, rev)
			_, _, err := replica.StateForPolls()
			require.ErrorIs(t, err, store.ErrQuarantined, "revision %d", rev)
		}
	}
	require.ErrorIs(t, replica.Load(t.Context()), store.ErrQuarantined)
	require.Equal(t, []fleet.Revision{2, 3}, between)
	_, _, err := replica.StateForPolls()
	require.ErrorIs(t, err, store.ErrQuarantined)
	st, _, err := replica.StateForReads()
	require.NoError(t, err)
	require.EqualValues(t, 4, st.Revision())
}

// A quarantine record that cannot be read, because another version wrote it or it was damaged, quarantines the store all the
// same: it refuses polls and changes until an operator accepts.
func TestUnreadableQuarantineRecordQuarantines(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{"not JSON": "for maintenance", "cut off": `{"reason":"replaced","ser`, "of another type": `[1]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			require.NoError(t, w.replica.Load(t.Context()))
			w.update(t, createClusters("c"))
			exec(t, w.path, `UPDATE head SET hold = '`+record+`'`)
			for _, r := range []*world{w, attach(t, w.path)} { // one that serves, and one that starts
				require.ErrorIs(t, r.replica.Load(t.Context()), store.ErrQuarantined)
				_, _, err := r.replica.StateForPolls()
				require.ErrorIs(t, err, store.ErrQuarantined)
				_, err = r.replica.Update(t.Context(), store.Meta{}, createNamespace("n"))
				require.ErrorIs(t, err, store.ErrReplaced)
				require.Contains(t, r.replica.Status().QuarantineReason, "flux-resourceset accept")
			}
			w.accept(t, fleet.Head{})
			require.NoError(t, w.replica.Load(t.Context()))
			_, _, err := w.replica.StateForPolls()
			require.NoError(t, err)
		})
	}
}
