package server_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestMemoryOfStalledConnections: connections that never open their window, each with eight requests whose bodies are not read,
// hold no more memory than docs/security.md says. That of the clients, in the same process, is counted as well.
func TestMemoryOfStalledConnections(t *testing.T) { //nolint:paralleltest // memory of other tests would count
	tw := setupTLS(t, nil)
	for name, c := range map[string]struct {
		most    int64
		request func(c http2Client, stream uint32)
		silent  bool // the client reads nothing
	}{
		"large answers": {192 << 10, func(c http2Client, stream uint32) {
			c.request(stream, true, [][2]string{{":method", "GET"}, {":path", "/openapi.json"}})
		}, false},
		"large headers": {384 << 10, func(c http2Client, stream uint32) {
			c.request(stream, true, [][2]string{{":method", "GET"}, {":path", "/clusters"}, {"x-padding", strings.Repeat("x", 12<<10)}})
		}, false},
		"bodies that are not read": {256 << 10, func(c http2Client, stream uint32) {
			c.request(stream, false, [][2]string{{":method", "POST"}, {":path", "/batch"}, {"content-type", "application/json"}, {"content-length", "1000000"}})
			require.NoError(c.t, c.framer.WriteData(stream, false, make([]byte, 7<<10)))
		}, false},
		"all streams with the largest headers": {384 << 10, func(c http2Client, stream uint32) {
			c.request(stream, true, [][2]string{{":method", "GET"}, {":path", "/openapi.json"}, {"x-padding", strings.Repeat("x", 15<<10)}})
		}, false},
		"all streams with the largest headers, nothing read": {384 << 10, func(c http2Client, stream uint32) {
			c.request(stream, true, [][2]string{{":method", "GET"}, {":path", "/clusters"}, {"x-padding", strings.Repeat("x", 15<<10)}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			const connections, streams = 48, 8 // as many streams as the server admits
			open := func() {
				client := tw.http2Client(t)
				for n := range uint32(streams) {
					c.request(client, 2*n+1)
				}
				if !c.silent {
					client.answered(streams)
				}
			}
			open() // global state of the first connection is not counted
			before := memoryInUse()
			for range connections {
				open()
			}
			each := (memoryInUse() - before) / connections
			t.Logf("%d KiB for each connection", each>>10)
			require.Less(t, each, c.most)
		})
	}
}

// memoryInUse returns the bytes reachable on the heap, and the stacks of goroutines.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // the second run empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// http2Client is a connection of HTTP/2 that takes no answer.
type http2Client struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
}

func (tw *tlsWorld) http2Client(t *testing.T) http2Client {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: tw.ca.pool(), NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(tw.url, "https://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitFor)))
	_, err = conn.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	c := http2Client{t, conn, http2.NewFramer(conn, conn)}
	require.NoError(t, c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	return c
}

// request sends the header of a request, and its end.
func (c http2Client) request(stream uint32, end bool, fields [][2]string) {
	c.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range slices.Concat([][2]string{{":scheme", "https"}, {":authority", "x"}}, fields, [][2]string{{"accept-encoding", "identity"}}) {
		require.NoError(c.t, enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(c.t, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true}))
}

// answered waits until so many requests have been answered, as far as the window admits it.
func (c http2Client) answered(requests int) {
	c.t.Helper()
	for requests > 0 {
		frame, err := c.framer.ReadFrame()
		require.NoError(c.t, err)
		if _, ok := frame.(*http2.HeadersFrame); ok {
			requests--
		}
	}
}
