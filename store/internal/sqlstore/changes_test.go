package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// TestRowOfAnotherRevision: one flipped bit in the index of an SQLite file finds changes of another revision than those read.
func TestRowOfAnotherRevision(t *testing.T) {
	t.Parallel()
	commits := []fleet.Commit{{Revision: 7}, {Revision: 8}}
	c, err := commitOf(byRevision(commits), 8)
	require.NoError(t, err)
	require.Same(t, &commits[1], c)
	_, err = commitOf(byRevision(commits), 9)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "revision 9")
}
