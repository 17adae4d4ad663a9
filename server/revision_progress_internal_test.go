package server

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestChangedInputsCache: it keeps a commit once, and no more than maxCachedBytes: those that were used last.
func TestChangedInputsCache(t *testing.T) {
	t.Parallel()
	inputs := func(clusters int) changedInputs {
		out := changedInputs{}
		for i := range clusters {
			out[fmt.Sprintf("c%06d", i)] = make([]fleet.ChangedInput, 10)
		}
		return out
	}
	small, half := inputs(10), inputs(1)
	for n := 1000; half.size() < maxCachedBytes*2/5; n += 1000 {
		half = inputs(n)
	}
	var c changedInputsCache
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	has := func(id uuid.UUID) bool { _, ok := c.get(id); return ok }
	for range 2 { // two requests may compute the same at once
		c.put(ids[0], half)
	}
	require.Len(t, c.known, 1)
	c.put(ids[1], half)
	require.True(t, has(ids[0]), "both fit; this one was used last")
	c.put(ids[2], half)
	require.False(t, has(ids[1]))
	require.True(t, has(ids[0]))
	require.True(t, has(ids[2]))
	for range 20 {
		c.put(uuid.New(), small)
	}
	require.True(t, has(ids[0]), "many small ones fit beside large ones")
	huge := changedInputs{}
	for id, of := range half {
		for i := range 3 {
			huge[fmt.Sprint(id, i)] = of
		}
	}
	c.put(ids[3], huge)
	require.False(t, has(ids[3]), "it is larger than the cache")
	require.True(t, has(ids[0]))
}
