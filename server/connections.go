package server

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections are held. Beyond it the one that has been quiet for the longest is closed: idle
// ones are only kept to spare clients a handshake, and who has connected and says nothing waits for nothing. So a flood of
// connections costs a bounded amount of memory, and keeps nobody out who speaks.
const maxConnections = 8192

// connections are those of one server.
type connections struct {
	most  int
	mu    sync.Mutex
	quiet map[net.Conn]*list.Element // new and idle ones
	byAge list.List                  // of net.Conn, the one that has been quiet for the longest in front
	total int
}

func newConnections(most int) *connections {
	return &connections{most: most, quiet: map[net.Conn]*list.Element{}}
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		_ = surplus.Close() // it says so itself, to note, from its own goroutine
	}
}

// note follows a connection, and returns one that is to be closed for it.
func (c *connections) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.quiet[conn]; known != nil {
		c.byAge.Remove(known)
		delete(c.quiet, conn)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.quiet[conn] = c.byAge.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		c.total--
	case http.StateActive:
	}
	if state != http.StateNew {
		return nil
	}
	if c.total++; c.total <= c.most {
		return nil
	}
	surplus := c.byAge.Remove(c.byAge.Front()).(net.Conn) // there is one: at least the new one
	delete(c.quiet, surplus)
	return surplus
}
