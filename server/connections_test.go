package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const rawPoll = "GET " + demoPolls + "/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + readToken + "\r\n"

// dialed opens a connection that the test closes.
func dialed(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialed opens a connection in memory that the test closes.
func (m *memory) dialed(t *testing.T) net.Conn {
	t.Helper()
	conn, err := m.dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// polled sends a whole poll on a connection and requires its answer.
func polled(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err := io.WriteString(conn, rawPoll+"\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// Slowloris: a client that sends its request a byte at a time is cut off, while others are answered. The time-outs are those
// of every server; in a bubble they take none.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		ln := newMemory()
		_, _ = serveOn(t, ln, w.http.Config.Handler)
		const body = "PUT " + demoCluster + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + writeToken + "\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
		began := time.Now()
		var slow sync.WaitGroup
		for name, start := range map[string]string{"header": rawPoll + "X-Slow: ", "request line": "GE", "body": body, "silent": ""} {
			conn := ln.dialed(t)
			slow.Go(func() { dribble(t, name, conn, start) })
		}
		polled(t, ln.dialed(t))
		require.Less(t, time.Since(began), time.Second)
		w.unchanged(slow.Wait)
		require.Less(t, time.Since(began), time.Minute)
		polled(t, ln.dialed(t))
	})
}

// dribble sends a request that never ends until the server closes the connection. silent ones are closed all the same.
func dribble(t *testing.T, name string, conn net.Conn, start string) {
	_, err := io.WriteString(conn, start)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, conn) // an answer such as 408 may come first
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(3 * time.Minute)
	for {
		select {
		case <-closed:
			return
		case <-patience:
			t.Errorf("%s: still connected", name)
			return
		case <-tick.C:
			if start != "" {
				_, _ = io.WriteString(conn, " ") // fails once the server has disconnected; closed reports it
			}
		}
	}
}
