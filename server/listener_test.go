package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// serve runs server.Serve until the test, or stop, ends it.
func serve(t *testing.T, handler http.Handler) (addr string, stop func(), served <-chan error) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop, served = serveOn(t, ln, handler)
	return ln.Addr().String(), stop, served
}

// serveOn is serve on a listener.
func serveOn(t *testing.T, ln net.Listener, handler http.Handler) (stop func(), served <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, ln, handler, nil, slog.New(slog.DiscardHandler)) }()
	return cancel, done
}

// A stopping server answers the requests in progress.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	addr, stop, served := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "whole")
	}))
	got := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr, nil)
		if err != nil {
			got <- err.Error()
			return
		}
		res, err := new(http.Transport).RoundTrip(req)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(body)
	}()
	<-begun
	stop()
	select {
	case err := <-served:
		require.Fail(t, "it did not wait for the request", "%v", err)
	default:
	}
	close(finish)
	require.Equal(t, "whole", <-got)
	require.NoError(t, <-served)
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.Error(t, err, "nobody listens any more")
}

func TestServeLimitsHeaders(t *testing.T) {
	t.Parallel()
	addr, _, _ := serve(t, http.NotFoundHandler())
	for _, header := range []string{"X-Large: " + strings.Repeat("x", 64<<10), strings.Repeat("X-Many: 0123456789\r\n", 4<<10) + "X: y"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n\r\n")
		if err == nil { // else it hung up already
			reply, _ := io.ReadAll(conn)
			require.True(t, len(reply) == 0 || strings.HasPrefix(string(reply), "HTTP/1.1 431 "), "%.100s", reply)
		}
		require.NoError(t, conn.Close())
	}
}

func TestServeListenerFails(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	require.Error(t, server.Serve(t.Context(), ln, http.NotFoundHandler(), nil, slog.New(slog.DiscardHandler)))
}
