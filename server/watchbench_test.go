package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// watchedFleet is a service on a TCP listener that allows 5,000 watches, with the secrets of enough tokens for them.
type watchedFleet struct {
	b       *testing.B
	handler http.Handler
	replica *store.Replica
	addr    string
	secrets []string
}

func newWatchedFleet(b *testing.B, watches int) *watchedFleet {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	require.NoError(b, sqlite.Migrate(b.Context(), path))
	st, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	_, replica := fleetIn(b, st, 1000, 10)
	f := &watchedFleet{b: b, replica: replica}
	_, err = replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		for i := range watches/8 + 1 {
			name := fmt.Sprintf("watch-%d", i)
			if _, err := tx.CreateToken(fleet.NewToken{ID: name, Name: name, Role: fleet.RoleRead, Secret: sha256.Sum256([]byte(name))}, time.Now()); err != nil {
				return err
			}
			f.secrets = append(f.secrets, name)
		}
		return nil
	})
	require.NoError(b, err)
	f.handler, err = server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Tokens: server.Tokens{Read: benchToken, Write: "bench-write"},
		Logger: slog.New(slog.NewJSONHandler(&discard{}, nil)), WatchStreams: watches,
	})
	require.NoError(b, err)
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln, f.handler, nil, slog.New(slog.DiscardHandler)) }()
	b.Cleanup(func() { stop(); require.NoError(b, <-served) })
	f.addr = ln.Addr().String()
	return f
}

// open opens streams, and returns their connections after the first event.
func (f *watchedFleet) open(n int) []net.Conn {
	f.b.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := new(net.Dialer).DialContext(f.b.Context(), "tcp", f.addr)
		require.NoError(f.b, err)
		_, err = fmt.Fprintf(conn, "GET /revisions HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", f.secrets[i/8])
		require.NoError(f.b, err)
		conns[i] = conn
	}
	buf := make([]byte, 4096)
	for _, conn := range conns {
		read := 0
		for !strings.Contains(string(buf[:read]), "id: ") {
			n, err := conn.Read(buf[read:])
			require.NoError(f.b, err, "%s", buf[:read])
			read += n
		}
		require.Contains(f.b, string(buf[:read]), " 200 OK")
	}
	return conns
}

func (f *watchedFleet) close(conns []net.Conn) {
	f.b.Helper()
	for _, conn := range conns {
		_ = conn.Close()
	}
	require.Eventually(f.b, func() bool {
		return strings.Contains(string(f.get("/metrics")), "flux_resourceset_watches 0\n")
	}, time.Minute, 10*time.Millisecond)
}

func (f *watchedFleet) get(path string) []byte {
	f.b.Helper()
	req, err := http.NewRequestWithContext(f.b.Context(), http.MethodGet, "http://"+f.addr+path, nil)
	require.NoError(f.b, err)
	req.Header.Set("Authorization", "Bearer "+benchToken)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(f.b, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(f.b, err)
	return body
}

// processMemory returns the memory of the process that is in use after a collection.
func processMemory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkIdleStreams opens 5,000 idle streams: the memory of each, with the client's end of its connection, and the processor
// time of polls without them, as a share of the time with them.
func BenchmarkIdleStreams(b *testing.B) {
	const streams, polls = 5000, 20_000
	f := newWatchedFleet(b, streams)
	poll := func() time.Duration {
		began := used(b)
		for i := range polls {
			f.handler.ServeHTTP(&discardAnswer{header: http.Header{}}, pollOf(b, i%1000))
		}
		return used(b) - began
	}
	poll()
	var without, with time.Duration
	var memory uint64
	for b.Loop() {
		before := processMemory()
		without += poll()
		conns := f.open(streams)
		memory += processMemory() - min(before, processMemory())
		with += poll()
		f.close(conns)
		without += poll()
		conns = f.open(streams)
		with += poll()
		f.close(conns)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(memory)/float64(b.N)/streams/1024, "KiB/stream")
	b.ReportMetric(float64(without)/float64(with), "of-polls-without")
}

// discardAnswer is an http.ResponseWriter that keeps nothing.
type discardAnswer struct{ header http.Header }

func (d *discardAnswer) Header() http.Header         { return d.header }
func (d *discardAnswer) WriteHeader(int)             {}
func (d *discardAnswer) Write(p []byte) (int, error) { return len(p), nil }

func pollOf(b *testing.B, cluster int) *http.Request {
	b.Helper()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(pollRequest(pollPath(cluster), false)))))
	require.NoError(b, err)
	return req
}

// BenchmarkCommitToWatchers commits while 1,000 streams wait and 1,000 polls come each second: the time until the last and until
// 99 % of the streams have the revision, and as the baseline the time of the commit itself.
func BenchmarkCommitToWatchers(b *testing.B) {
	const streams = 1000
	f := newWatchedFleet(b, streams)
	conns := f.open(streams)
	received := make(chan time.Duration, streams)
	var began time.Time
	var readers sync.WaitGroup
	for _, conn := range conns {
		readers.Go(func() {
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					received <- time.Since(began)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(b.Context())
	readers.Go(func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
				f.handler.ServeHTTP(&discardAnswer{header: http.Header{}}, pollOf(b, i%1000))
			case <-ctx.Done():
				return
			}
		}
	})
	var all []time.Duration
	var commits time.Duration
	n := 0
	for b.Loop() {
		n++
		began = time.Now()
		_, err := f.replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindCluster, "c1", fmt.Appendf(nil, `{"labels":{"n":"n%d"}}`, n))
			return err
		})
		require.NoError(b, err)
		commits += time.Since(began)
		for range streams {
			all = append(all, <-received)
		}
	}
	stop()
	f.close(conns)
	readers.Wait()
	slices.Sort(all)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(commits.Microseconds())/1000/float64(b.N), "commit-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "max-ms")
}
