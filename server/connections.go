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
	maxUnproven     = 1024
	maxUnprovenEach = 256
)

// connections are those of one server.
type connections struct {
	most     connectionLimits
	mu       sync.Mutex
	all      map[net.Conn]*connection
	quiet    list.List // of *connection: new and idle ones, the one that has been quiet for the longest in front
	unproven list.List // of *connection, the oldest in front
	each     map[netip.Prefix]*list.List
}

type connectionLimits struct{ total, unproven, unprovenEach int }

var defaultConnections = connectionLimits{maxConnections, maxUnproven, maxUnprovenEach}

// connection is one of them.
type connection struct {
	of        *connections
	conn      net.Conn
	address   netip.Prefix
	proven    atomic.Bool
	quiet     *list.Element // nil: it is not
	unproven  *list.Element // nil: it has sent nothing, or a good credential
	ofAddress *list.Element // likewise
}

func newConnections(most connectionLimits) *connections {
	return &connections{most: most, all: map[net.Conn]*connection{}, each: map[netip.Prefix]*list.List{}}
}

type connectionKey struct{}

// context is the server's ConnContext: requests find their connection in theirs.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, c.of(conn))
}

func (c *connections) of(conn net.Conn) *connection {
	known := c.all[conn]
	if known == nil {
		known = &connection{of: c, conn: conn, address: prefixOf(conn.RemoteAddr().String())}
		c.all[conn] = known
	}
	return known
}

// proven notes that a request had a good credential: its connection is none of those that are limited more tightly.
func proven(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok && !c.proven.Load() {
		c.of.prove(c)
	}
}

func (c *connections) prove(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.proven.Store(true)
	c.forget(conn)
}

// forget takes a connection off the lists of unproven ones.
func (c *connections) forget(conn *connection) {
	if conn.unproven == nil {
		return
	}
	c.unproven.Remove(conn.unproven)
	own := c.each[conn.address]
	own.Remove(conn.ofAddress)
	if own.Len() == 0 {
		delete(c.each, conn.address)
	}
	conn.unproven, conn.ofAddress = nil, nil
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	surplus := c.note(conn, state)
	if surplus == nil {
		return
	}
	if encrypted, ok := surplus.(*tls.Conn); ok {
		surplus = encrypted.NetConn() // without a farewell, for which a client that takes nothing would have to be waited for
	}
	_ = surplus.Close() // it says so itself, to note, from its own goroutine
}

// note follows a connection, and returns one that is to be closed for it.
func (c *connections) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(conn)
	if known.quiet != nil {
		c.quiet.Remove(known.quiet)
		known.quiet = nil
	}
	switch state {
	case http.StateNew:
		known.quiet = c.quiet.PushBack(known)
		if len(c.all) > c.most.total {
			return c.surplus(c.quiet.Front())
		}
	case http.StateIdle:
		known.quiet = c.quiet.PushBack(known)
	case http.StateActive:
		return c.speaks(known)
	case http.StateClosed, http.StateHijacked:
		c.forget(known)
		delete(c.all, conn)
	}
	return nil
}

// speaks notes that a connection has sent something, and returns one that is to be closed for it.
func (c *connections) speaks(conn *connection) net.Conn {
	if conn.proven.Load() || conn.unproven != nil {
		return nil
	}
	own := c.each[conn.address]
	if own == nil {
		own = &list.List{}
		c.each[conn.address] = own
	}
	conn.unproven, conn.ofAddress = c.unproven.PushBack(conn), own.PushBack(conn)
	switch {
	case own.Len() > c.most.unprovenEach:
		return c.surplus(own.Front())
	case c.unproven.Len() > c.most.unproven:
		return c.surplus(c.unproven.Front())
	}
	return nil
}

// surplus takes a connection that is to be closed off the lists. It is counted until it says that it is closed.
func (c *connections) surplus(first *list.Element) net.Conn {
	conn := first.Value.(*connection)
	if conn.quiet != nil {
		c.quiet.Remove(conn.quiet)
		conn.quiet = nil
	}
	c.forget(conn)
	conn.proven.Store(true) // it is not listed again
	return conn.conn
}
