package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits on connections.
const (
	// maxConnections is how many connections are held. Beyond it the one that has been quiet for the longest is closed: idle
	// ones are only kept to spare clients a handshake, and who has connected and says nothing waits for nothing. So a flood of
	// connections costs a bounded amount of memory, and keeps nobody out who speaks.
	maxConnections = 8192
	// maxUnproven is how many connections are held that have sent something, but no good credential yet; maxUnprovenEach is
	// how many of one address (of IPv6, the /64). Beyond it the oldest of these is closed. A client of HTTP/2 makes each
	// take some hundred KiB: headers of streams, bodies that have come, and buffers. A client with a credential has proven
	// itself with its first request, within milliseconds.
	maxUnauthenticated           = 1024
	maxUnauthenticatedPerAddress = 256
)

// connections are those of one server.
type connections struct {
	limits          connectionLimits
	mu              sync.Mutex
	all             map[net.Conn]*connection
	idle            list.List // of *connection: new and idle ones, the one that has been quiet for the longest in front
	unauthenticated list.List // of *connection, the oldest in front
	perAddress      map[netip.Prefix]*list.List
}

type connectionLimits struct{ total, unauthenticated, unauthenticatedPerAddress int }

var defaultConnectionLimits = connectionLimits{maxConnections, maxUnauthenticated, maxUnauthenticatedPerAddress}

// connection is one of them.
type connection struct {
	owner           *connections
	conn            net.Conn
	address         netip.Prefix
	authenticated   atomic.Bool
	idle            *list.Element // nil: it is not
	unauthenticated *list.Element // nil: it has sent nothing, or a good credential
	perAddress      *list.Element // likewise
}

func newConnections(most connectionLimits) *connections {
	return &connections{limits: most, all: map[net.Conn]*connection{}, perAddress: map[netip.Prefix]*list.List{}}
}

type connectionKey struct{}

// context is the server's ConnContext: requests find their connection in theirs.
func (c *connections) connContext(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, c.get(conn))
}

func (c *connections) get(conn net.Conn) *connection {
	known := c.all[conn]
	if known == nil {
		known = &connection{owner: c, conn: conn, address: networkOf(conn.RemoteAddr().String())}
		c.all[conn] = known
	}
	return known
}

// proven notes that a request had a good credential: its connection is none of those that are limited more tightly.
func markAuthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok && !c.authenticated.Load() {
		c.owner.setAuthenticated(c)
	}
}

func (c *connections) setAuthenticated(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.authenticated.Store(true)
	c.removeUnauthenticated(conn)
}

// forget takes a connection off the lists of unproven ones.
func (c *connections) removeUnauthenticated(conn *connection) {
	if conn.unauthenticated == nil {
		return
	}
	c.unauthenticated.Remove(conn.unauthenticated)
	own := c.perAddress[conn.address]
	own.Remove(conn.perAddress)
	if own.Len() == 0 {
		delete(c.perAddress, conn.address)
	}
	conn.unauthenticated, conn.perAddress = nil, nil
}

// changed is the server's ConnState.
func (c *connections) stateChanged(conn net.Conn, state http.ConnState) {
	surplus := c.track(conn, state)
	if surplus == nil {
		return
	}
	if encrypted, ok := surplus.(*tls.Conn); ok {
		surplus = encrypted.NetConn() // without a farewell, for which a client that takes nothing would have to be waited for
	}
	_ = surplus.Close() // it says so itself, to note, from its own goroutine
}

// note follows a connection, and returns one that is to be closed for it.
func (c *connections) track(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.get(conn)
	if known.idle != nil {
		c.idle.Remove(known.idle)
		known.idle = nil
	}
	switch state {
	case http.StateNew:
		known.idle = c.idle.PushBack(known)
		if len(c.all) > c.limits.total {
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

// speaks notes that a connection has sent something, and returns one that is to be closed for it.
func (c *connections) activate(conn *connection) net.Conn {
	if conn.authenticated.Load() || conn.unauthenticated != nil {
		return nil
	}
	own := c.perAddress[conn.address]
	if own == nil {
		own = &list.List{}
		c.perAddress[conn.address] = own
	}
	conn.unauthenticated, conn.perAddress = c.unauthenticated.PushBack(conn), own.PushBack(conn)
	switch {
	case own.Len() > c.limits.unauthenticatedPerAddress:
		return c.evict(own.Front())
	case c.unauthenticated.Len() > c.limits.unauthenticated:
		return c.evict(c.unauthenticated.Front())
	}
	return nil
}

// surplus takes a connection that is to be closed off the lists. It is counted until it says that it is closed.
func (c *connections) evict(first *list.Element) net.Conn {
	conn := first.Value.(*connection)
	if conn.idle != nil {
		c.idle.Remove(conn.idle)
		conn.idle = nil
	}
	c.removeUnauthenticated(conn)
	conn.authenticated.Store(true) // it is not listed again
	return conn.conn
}
