package server_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that announces a body and does not send it is answered at once and then disconnected: otherwise a few thousand such
// connections, without a token, would block all other clients.
func TestUnreadBodiesReleased(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]string{
		"without a token":   "POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"in chunks":         "POST /clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a part of it":      "PUT " + demoCluster + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"to a probe":        "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"to a poll":         "GET " + demoPolls + "/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + readToken + "\r\nContent-Length: 1000\r\n\r\n",
		"to nothing at all": "DELETE /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				w := setupWith(t, options{serve: serveInMemory})
				ln := newMemory()
				_, _ = serveOn(t, ln, w.http.Config.Handler)
				conn := ln.dialed(t)
				began := time.Now()
				_, err := io.WriteString(conn, start)
				require.NoError(t, err)
				answer := bufio.NewReader(conn)
				res, err := http.ReadResponse(answer, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, answer) // until the server hangs up
				require.Less(t, time.Since(began), 3*time.Second)
			})
		})
	}
}

// A client that sends its body keeps its connection, regardless of the answer.
func TestRefusedRequestKeepsConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		ln := newMemory()
		_, _ = serveOn(t, ln, w.http.Config.Handler)
		conn := ln.dialed(t)
		answer := bufio.NewReader(conn)
		for range 3 {
			go func() {
				_, _ = io.WriteString(conn, "POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789")
			}()
			res, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, res.StatusCode)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Second) // of the bubble's time: longer than what is left for a body
		polled(t, conn)
	})
}
