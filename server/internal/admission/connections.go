package admission

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// Limits of connections.
const (
	// maxConnections is the limit of all connections. Beyond it the one that has been idle for the longest is closed, which
	// costs its client a handshake at most. So a flood of connections takes bounded memory and does not affect active clients.
	maxConnections = 8192
	// maxUnauthenticated is the limit of connections that have sent a request but no valid credential yet;
	// maxUnauthenticatedPerAddress that of one address (of IPv6, the /64). Beyond it the oldest of these is closed. A client
	// of HTTP/2 can make each take some hundred KiB: headers of streams, received bodies, and buffers. A client with a
	// credential is authenticated by its first request, within milliseconds.
	maxUnauthenticated           = 1024
	maxUnauthenticatedPerAddress = 256
	// maxSilentPerAddress is the limit of connections of one address that have sent no request yet. It is larger, because many
	// clusters behind one address may connect at once, and a connection takes little memory until its first request.
	maxSilentPerAddress = 512
)

// Connections tracks the connections of one server.
type Connections struct {
	limits          ConnectionLimits
	mu              sync.Mutex
	all             map[net.Conn]*connection
	idle            list.List // of *connection: new and idle ones, the longest idle in front
	unauthenticated list.List // of *connection, the oldest in front
	perAddress      map[netip.Prefix]*list.List
	silent          map[netip.Prefix]*list.List // connections that have sent no request yet, the oldest in front
}

// ConnectionLimits are numbers of connections.
type ConnectionLimits struct{ Total, Unauthenticated, UnauthenticatedPerAddress, SilentPerAddress int }

// DefaultConnectionLimits are the limits of a server.
var DefaultConnectionLimits = ConnectionLimits{maxConnections, maxUnauthenticated, maxUnauthenticatedPerAddress, maxSilentPerAddress}

// connection is one tracked connection, with its elements in the lists.
type connection struct {
	owner           *Connections
	conn            net.Conn
	address         netip.Prefix
	authenticated   atomic.Bool
	idle            *list.Element // nil: a request is in progress
	unauthenticated *list.Element // nil: it has sent no request, or a valid credential
	perAddress      *list.Element // like unauthenticated, in the list of its address
	silent          *list.Element // nil: it has sent a request
}

// NewConnections returns the tracking of one server's connections.
func NewConnections(most ConnectionLimits) *Connections {
	return &Connections{limits: most, all: map[net.Conn]*connection{}, perAddress: map[netip.Prefix]*list.List{}, silent: map[netip.Prefix]*list.List{}}
}

type connectionKey struct{}

// ConnContext is the http.Server's ConnContext: requests find their connection in their context.
func (c *Connections) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, c.get(conn))
}

func (c *Connections) get(conn net.Conn) *connection {
	known := c.all[conn]
	if known == nil {
		known = &connection{owner: c, conn: conn, address: peerNetwork(conn)}
		c.all[conn] = known
	}
	return known
}

// peerNetwork returns the network of the peer; zero unless it has a TCP address.
func peerNetwork(conn net.Conn) netip.Prefix {
	if peer, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return auth.NetworkOf(peer.AddrPort().Addr())
	}
	return netip.Prefix{}
}

// MarkAuthenticated exempts the connection of a request with a valid credential from the limits of unauthenticated ones.
func MarkAuthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok && !c.authenticated.Load() {
		c.owner.setAuthenticated(c)
	}
}

func (c *Connections) setAuthenticated(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.authenticated.Store(true)
	c.removeUnauthenticated(conn)
}

// removeUnauthenticated removes a connection from the lists of unauthenticated ones.
func (c *Connections) removeUnauthenticated(conn *connection) {
	if conn.unauthenticated == nil {
		return
	}
	c.unauthenticated.Remove(conn.unauthenticated)
	removeFromAddress(c.perAddress, conn.address, conn.perAddress)
	conn.unauthenticated, conn.perAddress = nil, nil
}

// pushToAddress adds a connection to the list of its address, and returns its element and the list.
func pushToAddress(lists map[netip.Prefix]*list.List, conn *connection) (*list.Element, *list.List) {
	own := lists[conn.address]
	if own == nil {
		own = &list.List{}
		lists[conn.address] = own
	}
	return own.PushBack(conn), own
}

// removeFromAddress removes an element from the list of an address.
func removeFromAddress(lists map[netip.Prefix]*list.List, address netip.Prefix, e *list.Element) {
	own := lists[address]
	if own.Remove(e); own.Len() == 0 {
		delete(lists, address)
	}
}

// removeSilent removes a connection from the list of connections that have sent no request.
func (c *Connections) removeSilent(conn *connection) {
	if conn.silent != nil {
		removeFromAddress(c.silent, conn.address, conn.silent)
		conn.silent = nil
	}
}

// ConnState is the http.Server's ConnState.
func (c *Connections) ConnState(conn net.Conn, state http.ConnState) {
	if state == http.StateActive {
		growStack()
	}
	surplus := c.track(conn, state)
	if surplus == nil {
		return
	}
	if encrypted, ok := surplus.(*tls.Conn); ok {
		surplus = encrypted.NetConn() // without the TLS close_notify, which would block on a client that does not read
	}
	_ = surplus.Close() // its own goroutine then reports StateClosed
}

// growStack makes the runtime grow the stack of this goroutine to the 8 KiB that net/http needs to write an answer. To grow it here, with
// few frames, copies less than to grow it twice in the handler: 2 to 3 µs of a poll on a new connection.
//
//go:noinline
func growStack() {
	var frame [2560]byte
	runtime.KeepAlive(&frame)
}

// track updates the lists for a new state of a connection, and returns a connection to close; nil: none.
func (c *Connections) track(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.get(conn)
	if known.idle != nil {
		c.idle.Remove(known.idle)
		known.idle = nil
	}
	if state != http.StateNew {
		c.removeSilent(known)
	}
	switch state {
	case http.StateNew:
		known.idle = c.idle.PushBack(known)
		var own *list.List
		known.silent, own = pushToAddress(c.silent, known)
		switch {
		case own.Len() > c.limits.SilentPerAddress:
			return c.evict(own.Front())
		case len(c.all) > c.limits.Total:
			return c.evict(c.idle.Front())
		}
	case http.StateIdle:
		known.idle = c.idle.PushBack(known)
	case http.StateActive:
		return c.activate(known)
	case http.StateClosed, http.StateHijacked:
		c.removeUnauthenticated(known)
		delete(c.all, conn)
	}
	return nil
}

// activate lists a connection that has sent a request as unauthenticated, and returns a connection to close; nil: none.
func (c *Connections) activate(conn *connection) net.Conn {
	if conn.authenticated.Load() || conn.unauthenticated != nil {
		return nil
	}
	var own *list.List
	conn.perAddress, own = pushToAddress(c.perAddress, conn)
	conn.unauthenticated = c.unauthenticated.PushBack(conn)
	switch {
	case own.Len() > c.limits.UnauthenticatedPerAddress:
		return c.evict(own.Front())
	case c.unauthenticated.Len() > c.limits.Unauthenticated:
		return c.evict(c.unauthenticated.Front())
	}
	return nil
}

// evict removes a connection from the lists, for the caller to close. It counts until it reports StateClosed.
func (c *Connections) evict(first *list.Element) net.Conn {
	conn := first.Value.(*connection)
	if conn.idle != nil {
		c.idle.Remove(conn.idle)
		conn.idle = nil
	}
	c.removeUnauthenticated(conn)
	c.removeSilent(conn)
	conn.authenticated.Store(true) // so that it is not listed again
	return conn.conn
}
