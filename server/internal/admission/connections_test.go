package admission

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// fromAddress is a connection of an address.
type fromAddress struct {
	net.Conn
	address net.IP
	closed  bool
}

func (c *fromAddress) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.address} }

func (c *fromAddress) Close() error {
	c.closed = true
	return nil
}

// TestSilentConnectionsOfOneAddress: an address that opens connections and sends nothing keeps only the newest of them, and takes none
// from others.
func TestSilentConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	c := NewConnections(ConnectionLimits{Total: 1000, Unauthenticated: 100, UnauthenticatedPerAddress: 50, SilentPerAddress: 10})
	other := &fromAddress{address: net.IPv4(10, 0, 0, 2)}
	c.ConnState(other, http.StateNew)
	open := func() (n int, all []*fromAddress) {
		for i := range 100 {
			conn := &fromAddress{address: net.IPv4(10, 0, 0, 1)}
			c.ConnState(conn, http.StateNew)
			if i < 5 {
				c.ConnState(conn, http.StateActive) // it sends a request
			}
			all = append(all, conn)
		}
		for _, conn := range all {
			if !conn.closed {
				n++
			}
		}
		return n, all
	}
	n, all := open()
	require.Equal(t, 5+10, n)
	require.False(t, all[99].closed, "the newest")
	for _, conn := range all {
		c.ConnState(conn, http.StateClosed)
	}
	require.False(t, other.closed)
	require.Len(t, c.silent, 1)
	require.Empty(t, c.perAddress)
	c.ConnState(other, http.StateClosed)
	require.Empty(t, c.silent)
}
