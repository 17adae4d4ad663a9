package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Every poll passes identify and mayPoll: they must not make garbage.
func TestIdentifyDoesNotAllocate(t *testing.T) { //nolint:paralleltest // what others allocate would count
	secret := fleet.FormatSecret([32]byte{7})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st, err := fleet.NewState(fleet.Rules{}, fleet.Head{}, at, []fleet.Record{
		{Kind: fleet.KindCluster, ID: "a", Body: []byte(`{"id":"a","cluster_dns":"a.example.com","platform_components":[],"namespaces":[],"rolebindings":[]}`)},
		{Kind: fleet.KindToken, ID: "t", Body: fmt.Appendf(nil, `{"id":"t","name":"n","role":"poll","cluster_id":"a","expires_at":"2027-01-01T00:00:00Z","secrets":[{"sha256":"%x"}]}`, sha256.Sum256([]byte(secret)))},
	})
	require.NoError(t, err)
	a := New(Config{Holders: store.NewReplica(store.Config{}), Now: func() time.Time { return at }, Tokens: Tokens{Read: "read", ReadPrevious: "before", Write: "write"}})
	cluster, _ := st.ByDNS("a.example.com")
	certificate := &tls.ConnectionState{
		VerifiedChains: [][]*x509.Certificate{{}}, PeerCertificates: []*x509.Certificate{{DNSNames: []string{"a.example.com"}}},
	}
	for name, r := range map[string]*http.Request{
		"a static token":       {Header: http.Header{"Authorization": {"Bearer before"}}},
		"a managed token":      {Header: http.Header{"Authorization": {"Bearer " + secret}}},
		"a client certificate": {Header: http.Header{}, TLS: certificate},
	} {
		who, err := a.Identify(r, st)
		require.NoError(t, err, name)
		require.True(t, who.MayPoll(cluster, "a.example.com"), name)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			who, err := a.Identify(r, st)
			if err != nil || !who.MayPoll(cluster, "a.example.com") {
				panic("not identified")
			}
		}), name)
	}
	for name, r := range map[string]*http.Request{
		"nobody":          {Header: http.Header{}},
		"an unknown one":  {Header: http.Header{"Authorization": {"Bearer unknown"}}},
		"something other": {Header: http.Header{"Authorization": {"Basic eA=="}}},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := a.Identify(r, st); err == nil {
				panic("identified")
			}
		}), name)
	}
}

// The number of remembered addresses is limited; the ones with the most recent failures stay.
func TestFailureMemoryBounded(t *testing.T) {
	t.Parallel()
	var f failureTracker
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	flood := netip.MustParsePrefix("192.0.2.1/32")
	for range failureBurst {
		require.Zero(t, f.record(flood, false, now))
	}
	for i := range 3 * maxFailureAddresses {
		require.Zero(t, f.record(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), false, now))
		require.LessOrEqual(t, f.record(flood, false, now), failureInterval)
		require.Positive(t, f.record(flood, false, now), i)
	}
	require.Len(t, f.addresses, maxFailureAddresses)
	require.Equal(t, maxFailureAddresses, f.byAge.Len())
	require.Zero(t, f.record(flood, false, now.Add(2*failureInterval)))
}

func TestSourceNetwork(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:1":                "192.0.2.1/32",
		"[::ffff:192.0.2.1]:1":       "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":           "fe80::/64",
		"@":                          "invalid Prefix",
	} {
		require.Equal(t, want, SourceNetwork(&http.Request{RemoteAddr: remote}).String(), remote)
	}
}
