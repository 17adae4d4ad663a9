package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// testSessions: a session that one process ends has ended for every process, and no revision is made for it.
func testSessions(t *testing.T, b *bench) {
	s := b.Store
	b.unchanged(func() {
		for range 2 {
			require.NoError(t, s.EndSession(b.ctx(), "one", time.Now().Add(time.Hour)))
		}
		require.NoError(t, s.EndSession(b.ctx(), "old", time.Now().Add(-time.Hour)))
		require.NoError(t, s.EndSession(b.ctx(), "two", time.Now().Add(time.Hour)))
	})
	others := []store.Store{s}
	if b.Again != nil {
		reader := b.again(true)
		require.ErrorIs(t, reader.EndSession(b.ctx(), "x", time.Now()), store.ErrReadOnly)
		others = append(others, b.again(false), reader)
	}
	for _, s := range others {
		for id, want := range map[string]bool{"one": true, "two": true, "three": false, "old": false} {
			ended, err := s.SessionEnded(b.ctx(), id)
			require.NoError(t, err)
			require.Equal(t, want, ended, id)
		}
	}
}
