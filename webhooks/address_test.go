package webhooks

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllowedAddress: the addresses that requests may be sent to, without and with WEBHOOK_ALLOW_PRIVATE.
func TestAllowedAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		addresses        []string
		public, internal bool
	}{
		{[]string{"8.8.8.8", "140.82.112.3", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"}, true, true},
		{[]string{
			"127.0.0.1", "127.255.255.254", "::1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12:3456::1",
			"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1", "64:ff9b:1::a00:1", "::127.0.0.1", "198.18.0.1",
			"203.0.113.7", "2001:db8::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::10.0.0.1",
		}, false, true},
		{[]string{
			"0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
			"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "ff02::1", "fec0::1",
			"::ffff:0.0.0.0", "64:ff9b::", "::169.254.169.254",
		}, false, false},
	} {
		for _, text := range test.addresses {
			addr := netip.MustParseAddr(text)
			require.Equal(t, test.public, allowedAddress(addr, false), text)
			require.Equal(t, test.internal, allowedAddress(addr, true), "%s with WEBHOOK_ALLOW_PRIVATE", text)
		}
	}
	require.False(t, allowedAddress(netip.Addr{}, true))
}

// TestCheckURL: URLs that a webhook may have.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{ // strict, with http and private addresses
		"https://hooks.example.com/x": {true, true},
		"https://8.8.8.8/":            {true, true},
		"http://hooks.example.com/":   {false, true},
		"https://127.0.0.1/":          {false, true},
		"https://[::1]:8443/":         {false, true},
		"https://[::ffff:10.0.0.1]/":  {false, true},
		"https://169.254.169.254/":    {false, false},
		"https://[fe80::1%25eth0]/":   {false, false},
		"ftp://hooks.example.com/":    {false, false},
		"file:///etc/passwd":          {false, false},
		"https://%zz":                 {false, false},
	} {
		for i, d := range []*Deliverer{New(Config{}), New(Config{AllowHTTP: true, AllowPrivate: true})} {
			require.Equal(t, want[i], d.CheckURL(text) == nil, "%s %d", text, i)
		}
	}
}
