package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	r := room{each: map[string]int{}}
	require.Nil(t, r.take("a", roomTotal+1), "nobody has room for it")
	large := r.take("a", roomEach+1)
	require.NotNil(t, large, "the first one may be large")
	require.Nil(t, r.take("a", 1), "and then it is the only one")
	rest := r.take("b", roomTotal-roomEach-1)
	require.NotNil(t, rest)
	require.Nil(t, r.take("c", 1), "there is an end for all together")
	rest()
	small := r.take("c", 1)
	require.NotNil(t, small)
	large()
	small()
	require.Zero(t, r.total)
	require.Empty(t, r.each)
}
