package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raw writes a request byte by byte as it is given, which no well-behaved client would send, and reads the answer.
// An error must be a problem, unless net/http answered it before the request reached us.
func raw(t *testing.T, w *world, request string) *answer {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.http.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	got := &answer{t: t, status: res.StatusCode, header: res.Header, body: body}
	if got.status >= 400 && res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.True(t, json.Valid(body), "%s", body)
	}
	return got
}
