package server_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// inBubble runs a test in a synctest bubble: time advances only while all goroutines wait, so the speed of the machine does
// not matter. Connections are in memory.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	w := setup(t) // initializes the globals of the process outside of the bubble; the log compresses large records
	for _, message := range []string{strings.Repeat("large ", 1000), "small"} {
		w.patch(demoCluster, `{"patches":{"podinfo":{"ui.message":"`+message+`"}}}`).want(200)
	}
	w.get("/revisions/3").want(200)
	synctest.Test(t, test)
}

// memory is a listener whose connections are in memory.
type memory struct {
	conns  chan net.Conn
	ctx    context.Context // it is how long it listens
	closed context.CancelFunc
}

func newMemory() *memory {
	m := &memory{conns: make(chan net.Conn)}
	m.ctx, m.closed = context.WithCancel(context.Background())
	return m
}

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error { m.closed(); return nil }

// Addr implements net.Listener.
func (*memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// dial connects to it.
func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.ctx.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveInMemory is for worlds in a bubble.
func serveInMemory(h http.Handler) *httptest.Server {
	m := newMemory()
	srv := httptest.NewUnstartedServer(h)
	_ = srv.Listener.Close() // unused
	srv.Listener = m
	srv.Start()
	srv.Client().Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx) }
	return srv
}
