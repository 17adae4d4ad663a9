// Package egress restricts the requests that the service sends to addresses that documents of the fleet name: a user of the API
// must not reach the metadata service of a cloud, or a private network, through the service.
//
// The rules apply to each address that a name resolves to, at each connection, so that a name cannot change after a check.
package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"
)

var (
	// ErrAddress is the reason of a refused connection. It does not name the address: the error could be used to map a network.
	ErrAddress = errors.New("the address is not allowed: it is private, local or reserved")
	// ErrScheme is the reason of a refused URL.
	ErrScheme = errors.New("only https:// is allowed")
	// ErrDowngrade is the reason of a refused redirect.
	ErrDowngrade = errors.New("a redirect from https:// to http:// is not allowed")
)

// Config configures the requests. The zero value allows https to public addresses.
type Config struct {
	// AllowHTTP permits URLs without TLS, AllowPrivate loopback and private addresses.
	AllowHTTP, AllowPrivate bool
	// Proxy forwards all requests, and must then restrict the addresses, since only it knows them; nil: none.
	Proxy *url.URL
	// Timeout limits a connection and its TLS handshake.
	Timeout time.Duration
	// TLS and Resolver are those of connections; nil: the defaults.
	TLS      *tls.Config
	Resolver *net.Resolver
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

var (
	// neverAllowed are link-local, multicast and reserved addresses, and those of the metadata services of clouds.
	neverAllowed = prefixes("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200/32", "168.63.129.16/32",
		"192.0.0.0/24", "::/128", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32")
	// private are loopback and private addresses, those of carriers, documentation and benchmarks.
	private = prefixes("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "::1/128", "fc00::/7", "2001:db8::/32", "100::/64", "64:ff9b:1::/48", "2001::/23")
	// embedding are IPv6 prefixes that contain an IPv4 address, at a byte.
	embedding = []struct {
		prefix netip.Prefix
		at     int
	}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("64:ff9b:1::/48"), 12}, {netip.MustParsePrefix("2002::/16"), 2}, {netip.MustParsePrefix("::/96"), 12}, {netip.MustParsePrefix("::ffff:0:0:0/96"), 12}}
)

// AllowedAddress reports whether requests may be sent to an address.
func AllowedAddress(addr netip.Addr, allowPrivate bool) bool {
	addr = addr.Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case !addr.IsValid(), slices.ContainsFunc(neverAllowed, in):
		return false
	case addr == netip.IPv6Loopback():
		return allowPrivate
	}
	for _, e := range embedding {
		if e.prefix.Contains(addr) {
			bytes := addr.As16()
			return AllowedAddress(netip.AddrFrom4([4]byte(bytes[e.at:e.at+4])), allowPrivate)
		}
	}
	return allowPrivate || !slices.ContainsFunc(private, in)
}

// CheckURL returns ErrScheme or ErrAddress if requests must not be sent to a URL. Names are checked again at each connection, after
// their resolution.
func (c Config) CheckURL(u *url.URL) error {
	if u.Scheme != "https" && (u.Scheme != "http" || !c.AllowHTTP) {
		return ErrScheme
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !AllowedAddress(addr, c.AllowPrivate) {
		return ErrAddress
	}
	return nil
}

// CheckRequest is CheckURL for a request that may be the result of a redirect.
func (c Config) CheckRequest(req *http.Request) error {
	if from := req.Response; from != nil && from.Request != nil && from.Request.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return ErrDowngrade
	}
	return c.CheckURL(req.URL)
}

// control refuses connections to addresses that are not allowed. It runs after the resolution of names, for each address.
func (c Config) control(_, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil || !AllowedAddress(host.Addr(), c.AllowPrivate) {
		return ErrAddress
	}
	return nil
}

// Transport returns a transport that checks the address of each connection. It uses no proxy unless one is configured, and does not
// decompress.
func (c Config) Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: c.Timeout, Control: c.control, Resolver: c.Resolver}
	t := &http.Transport{
		DialContext:        dialer.DialContext,
		DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		TLSHandshakeTimeout: c.Timeout, TLSClientConfig: c.TLS,
	}
	if c.Proxy != nil {
		t.Proxy = http.ProxyURL(c.Proxy)
		t.DialContext = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	return t
}

// RetryAfter returns the duration of a header Retry-After, at most longest; 0: there is none, or it is invalid.
func RetryAfter(header string, now time.Time, longest time.Duration) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longest)
}
