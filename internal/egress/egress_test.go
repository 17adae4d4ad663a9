package egress

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllowedAddress: the addresses that requests may be sent to, without and with AllowPrivate.
func TestAllowedAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		addresses        []string
		public, internal bool
	}{
		{[]string{"8.8.8.8", "140.82.112.3", "2606:4700::1111", "::ffff:8.8.8.8", "::ffff:0:808:808", "64:ff9b::808:808", "2002:808:808::1"}, true, true},
		{[]string{
			"127.0.0.1", "127.255.255.254", "::1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12:3456::1",
			"::ffff:127.0.0.1", "::ffff:0:7f00:1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1", "64:ff9b:1::a00:1", "::127.0.0.1", "198.18.0.1",
			"203.0.113.7", "2001:db8::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::10.0.0.1",
		}, false, true},
		{[]string{
			"0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "::ffff:0:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
			"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "ff02::1", "fec0::1",
			"::ffff:0.0.0.0", "64:ff9b::", "::169.254.169.254",
		}, false, false},
	} {
		for _, text := range test.addresses {
			addr := netip.MustParseAddr(text)
			require.Equal(t, test.public, AllowedAddress(addr, false), text)
			require.Equal(t, test.internal, AllowedAddress(addr, true), "%s with private addresses", text)
		}
	}
	require.False(t, AllowedAddress(netip.Addr{}, true))
}

// TestCheckURL: URLs that requests may be sent to.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	strict, open := Config{}, Config{AllowHTTP: true, AllowPrivate: true}
	for text, want := range map[string][2]error{
		"https://hooks.example.com/x": {nil, nil},
		"https://8.8.8.8/":            {nil, nil},
		"http://hooks.example.com/":   {ErrScheme, nil},
		"https://127.0.0.1/":          {ErrAddress, nil},
		"https://[::1]:8443/":         {ErrAddress, nil},
		"https://[::ffff:10.0.0.1]/":  {ErrAddress, nil},
		"https://169.254.169.254/":    {ErrAddress, ErrAddress},
		"https://[fe80::1%25eth0]/":   {ErrAddress, ErrAddress},
		"ftp://hooks.example.com/":    {ErrScheme, ErrScheme},
		"file:///etc/passwd":          {ErrScheme, ErrScheme},
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want[0], strict.CheckURL(u), text)
		require.Equal(t, want[1], open.CheckURL(u), text)
	}
}

// TestCheckRequest: a redirect from https to http is refused, even where http is allowed.
func TestCheckRequest(t *testing.T) {
	t.Parallel()
	request := func(text string, from *http.Request) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, text, nil)
		require.NoError(t, err)
		if from != nil {
			req.Response = &http.Response{Request: from}
		}
		return req
	}
	c := Config{AllowHTTP: true}
	require.NoError(t, c.CheckRequest(request("http://a.example.com/", nil)))
	require.NoError(t, c.CheckRequest(request("http://a.example.com/", request("http://b.example.com/", nil))))
	require.NoError(t, c.CheckRequest(request("https://a.example.com/", request("https://b.example.com/", nil))))
	require.ErrorIs(t, c.CheckRequest(request("http://a.example.com/", request("https://a.example.com/", nil))), ErrDowngrade)
	require.ErrorIs(t, c.CheckRequest(request("https://169.254.169.254/", request("https://a.example.com/", nil))), ErrAddress)
}

// TestControl: the address of a connection is checked, whatever the name was.
func TestControl(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Config{}.control("tcp", "127.0.0.1:443", nil), ErrAddress)
	require.NoError(t, Config{AllowPrivate: true}.control("tcp", "127.0.0.1:443", nil))
	require.NoError(t, Config{}.control("tcp", "8.8.8.8:443", nil))
	require.ErrorIs(t, Config{AllowPrivate: true}.control("tcp", "[fe80::1%eth0]:443", nil), ErrAddress)
}
