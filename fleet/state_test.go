package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllReturnsACopy: the caller of All may change the list, which the State keeps.
func TestAllReturnsACopy(t *testing.T) {
	t.Parallel()
	w := demo(t)
	before := w.state.All(KindCluster)
	require.NotEmpty(t, before)
	changed := w.state.All(KindCluster)
	clear(changed)
	require.Equal(t, before, w.state.All(KindCluster))
}
