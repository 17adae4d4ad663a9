package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResponseBuffer(t *testing.T) {
	t.Parallel()
	r := responseBuffer{perPrincipal: map[string]int{}}
	require.Nil(t, r.reserve("a", maxBuffered+1), "nobody has room for it")
	large := r.reserve("a", maxBufferedPerPrincipal+1)
	require.NotNil(t, large, "the first one may be large")
	require.Nil(t, r.reserve("a", 1), "and then it is the only one")
	rest := r.reserve("b", maxBuffered-maxBufferedPerPrincipal-1)
	require.NotNil(t, rest)
	require.Nil(t, r.reserve("c", 1), "there is an end for all together")
	rest()
	small := r.reserve("c", 1)
	require.NotNil(t, small)
	large()
	small()
	require.Zero(t, r.total)
	require.Empty(t, r.perPrincipal)
}
