package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// A quarantined store is reachable all the same: a process that serves the named State does not report the store as
// unreachable.
func TestQuarantinedStoreIsReachable(t *testing.T) {
	t.Parallel()
	w, dir, _ := kept(t)
	state := w.replica.State()
	s := open(t, w.path)
	require.NoError(t, s.Quarantine(t.Context(), store.NewQuarantine(state, clock)))

	next := keeping(t, w.path, dir)
	require.True(t, next.replica.Restore(t.Context()))
	require.True(t, next.replica.Status().FromDisk)
	require.ErrorIs(t, next.replica.Load(t.Context()), store.ErrQuarantined)
	status := next.replica.Status()
	require.False(t, status.FromDisk)
	require.False(t, status.Cold)
	require.False(t, status.LastContact.IsZero())
	require.ErrorIs(t, status.LastError, store.ErrQuarantined)
	_, _, err := next.replica.StateForPolls()
	require.NoError(t, err)

	gone := errors.New("gone")
	next.fail(gone)
	require.ErrorIs(t, next.replica.Load(t.Context()), gone)
	require.Equal(t, status.LastContact, next.replica.Status().LastContact)
}
