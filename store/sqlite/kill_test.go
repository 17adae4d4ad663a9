package sqlite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// A writer killed at any moment loses no acknowledged commit and leaves none half-done, with a reader attached that sees every
// commit.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	reader := openStore(t, Config{Path: path, ReadOnly: true})
	acknowledged := map[fleet.Revision]string{}
	for round := range 8 {
		for _, line := range testrig.KillAfter(t, command(t, "write", path), 1+round*7) {
			var rev fleet.Revision
			var id string
			_, err := fmt.Sscan(line, &rev, &id)
			require.NoError(t, err, line)
			require.NotContains(t, acknowledged, rev)
			acknowledged[rev] = id
		}
		writer, err := Open(t.Context(), Config{Path: path})
		require.NoError(t, err)
		for _, s := range []*Store{reader, writer} {
			log, err := s.Since(t.Context(), fleet.Head{}, 100_000)
			require.NoError(t, err)
			known := map[fleet.Revision]string{}
			for _, c := range log {
				known[c.Revision] = c.ID.String()
				require.Len(t, c.Changes, 2)
			}
			for rev, id := range acknowledged {
				require.Equal(t, id, known[rev], "revision %d", rev)
			}
			snap, err := s.Load(t.Context())
			require.NoError(t, err)
			require.Len(t, snap.Records, 2*len(log))
		}
		require.NoError(t, writer.Close())
	}
}
