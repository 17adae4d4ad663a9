package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// errAddress is the reason of a refused connection. It does not name the address: the error could be used to map a network.
var errAddress = errors.New("the address of the receiver is not allowed: it is private, local or reserved (WEBHOOK_ALLOW_PRIVATE)")

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
	}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("64:ff9b:1::/48"), 12}, {netip.MustParsePrefix("2002::/16"), 2}, {netip.MustParsePrefix("::/96"), 12}}
)

// allowedAddress reports whether requests may be sent to an address.
func allowedAddress(addr netip.Addr, allowPrivate bool) bool {
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
			return allowedAddress(netip.AddrFrom4([4]byte(bytes[e.at:e.at+4])), allowPrivate)
		}
	}
	return allowPrivate || !slices.ContainsFunc(private, in)
}

// CheckURL returns the reason for which a URL cannot be that of a webhook with the configuration of this process. Names are
// checked again at each connection, after their resolution.
func (d *Deliverer) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not a URL")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !d.cfg.AllowHTTP) {
		return errors.New("must begin with https:// (WEBHOOK_ALLOW_HTTP)")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !allowedAddress(addr, d.cfg.AllowPrivate) {
		return errAddress
	}
	return nil
}

// control refuses connections to addresses that are not allowed. It runs after the resolution of names, for each address.
func (d *Deliverer) control(_, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil || !allowedAddress(host.Addr(), d.cfg.AllowPrivate) {
		return errAddress
	}
	return nil
}

// newTransport returns the transport of requests: no proxy unless configured, and a new connection for each request, so that each
// address is checked.
func (d *Deliverer) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: d.cfg.Timeout, Control: d.control, Resolver: d.cfg.Resolver}
	t := &http.Transport{
		DialContext:       dialer.DialContext,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		TLSHandshakeTimeout: d.cfg.Timeout, TLSClientConfig: d.cfg.TLS,
	}
	if d.cfg.Proxy != nil { // it must enforce the rules, since only it knows the addresses
		t.Proxy = http.ProxyURL(d.cfg.Proxy)
		t.DialContext = (&net.Dialer{Timeout: d.cfg.Timeout}).DialContext
	}
	return t
}

// requestTimeout is the time for a request, from the resolution of the name to the header of the answer.
const requestTimeout = 10 * time.Second

// noRedirects returns a redirect as the answer: a receiver could redirect the service to any address.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withTimeout limits a request.
func (d *Deliverer) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.cfg.Timeout, fmt.Errorf("the receiver did not answer within %s", d.cfg.Timeout))
}
