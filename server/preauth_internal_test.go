package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Guesses above the limit of unauthenticated requests count as well.
func TestGuessesBeyondPreauthLimitCount(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := New(Config{Now: func() time.Time { return at }, Tokens: Tokens{Read: "read", Write: "write"}, Replica: store.NewReplica(store.Config{})})
	require.NoError(t, err)
	places := admission.NewPreauthLimit()
	for i, free := byte(0), true; free; i++ {
		free = places.Acquire(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 32))
	}
	admitted := func(token string) bool {
		r := httptest.NewRequest(http.MethodGet, "/clusters", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		return s.admitPreauth(&request{Context: s.echo.NewContext(r, nil)}, places)
	}
	for range 60 { // as many guesses lock the address out
		require.True(t, admitted("write"))
		require.False(t, admitted("guess"))
	}
	require.False(t, admitted("write"))
}
