package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// The benchmarks compare, in one run and in turns, what is measured with a baseline that does the least anybody could:
// the ratio is the figure, since the machine's own speed drifts.

const benchToken = "bench-read"

// fleetOf builds a service with a fleet of so many clusters, each with so many components, in a SQLite file.
func fleetOf(b *testing.B, clusters, components int) (http.Handler, *store.Replica) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	require.NoError(b, sqlite.Migrate(b.Context(), path))
	st, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	return fleetIn(b, st, clusters, components)
}

// fleetIn is fleetOf in a store that is empty.
func fleetIn(b *testing.B, st store.Store, clusters, components int) (http.Handler, *store.Replica) {
	b.Helper()
	replica := store.NewReplica(store.Config{Store: st, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, replica.Load(b.Context()))
	_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error { return fillFleet(tx, clusters, components) })
	require.NoError(b, err)
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Tokens: server.Tokens{Read: benchToken, Write: "bench-write"},
		Logger: slog.New(slog.NewJSONHandler(&discard{}, nil)), // at the default level, as in production
	})
	require.NoError(b, err)
	return srv, replica
}

func fillFleet(tx *fleet.Tx, clusters, components int) error {
	var entries []string
	for i := range components {
		id := fmt.Sprintf("component-%d", i)
		body := fmt.Sprintf(`{"id":%q,"component_path":"charts/%s","oci_url":"https://charts.example.com","component_version":"1.2.%d"}`, id, id, i)
		if _, err := tx.Create(fleet.KindComponent, []byte(body)); err != nil {
			return err
		}
		entries = append(entries, fmt.Sprintf(`{"id":%q}`, id))
	}
	for i := range clusters {
		body := fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.k8s.example.com","environment":"dev","platform_components":[%s],"patches":{"component-0":{"replicaCount":"%d","ui.color":"#2f855a"}}}`,
			i, i, strings.Join(entries, ","), i%5)
		if _, err := tx.Create(fleet.KindCluster, []byte(body)); err != nil {
			return err
		}
	}
	return nil
}

func pollPath(cluster int) string {
	return fmt.Sprintf("/api/v2/flux/clusters/c%d.k8s.example.com/platform-components", cluster)
}

// pollRequest is what Flux Operator sends.
func pollRequest(path string, closing bool) []byte {
	connection := ""
	if closing {
		connection = "Connection: close\r\n"
	}
	return []byte("GET " + path + " HTTP/1.1\r\nHost: flux-api\r\nUser-Agent: flux-operator/v0.58.1\r\nAccept: application/json\r\n" +
		"Accept-Encoding: gzip\r\nAuthorization: Bearer " + benchToken + "\r\n" + connection + "\r\n")
}

// bare is the baseline of polls: a handler that writes the same bytes and does nothing else.
func bare(b *testing.B, handler http.Handler, path string) http.Handler {
	b.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer "+benchToken)
	req.Header.Set("Accept-Encoding", "gzip")
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req)
	require.Equal(b, http.StatusOK, rec.Code)
	body := rec.Body.Bytes()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		maps.Copy(h, rec.Header())
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	})
}

// load sends polls from a few connections at once with a client that costs next to nothing, and returns how long they
// took.
func load(b *testing.B, addr string, requests [][]byte, total int, keepAlive bool) time.Duration {
	b.Helper()
	const connections = 8
	var wg sync.WaitGroup
	start := time.Now()
	for worker := range connections {
		wg.Go(func() {
			var c *client
			for i := worker; i < total; i += connections {
				if c == nil {
					c = dial(b, addr)
				}
				c.poll(b, requests[i%len(requests)])
				if !keepAlive {
					c.conn.Close()
					c = nil
				}
			}
			if c != nil {
				c.conn.Close()
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(b *testing.B, addr string) *client {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return nil
	}
	return &client{conn, bufio.NewReader(conn)}
}

// poll sends a request and reads the answer, of which it only understands the status and the length.
func (c *client) poll(b *testing.B, request []byte) {
	if _, err := c.conn.Write(request); err != nil {
		b.Error(err)
		return
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			b.Error(err)
			return
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			b.Errorf("answer: %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
		}
		if len(line) <= 2 {
			break
		}
	}
	if _, err := c.r.Discard(length); err != nil {
		b.Error(err)
	}
}

// compare runs two loads in turns, so that a drift of the machine hits both, and reports how the second compares.
func compare(b *testing.B, polls int, baseline, ours func() time.Duration) {
	b.Helper()
	baseline() // warm up
	ours()
	var base, own time.Duration
	for b.Loop() {
		base += baseline()
		own += ours()
	}
	n := float64(polls * b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/base.Seconds(), "baseline/s")
	b.ReportMetric(n/own.Seconds(), "ours/s")
	b.ReportMetric(base.Seconds()/own.Seconds(), "ratio")
}

// BenchmarkPoll: throughput of polls over TCP against a bare handler that writes the same bytes.
func BenchmarkPoll(b *testing.B) {
	handler, _ := fleetOf(b, 1, 3)
	ours, baseline := httptest.NewServer(handler), httptest.NewServer(bare(b, handler, pollPath(0)))
	b.Cleanup(ours.Close)
	b.Cleanup(baseline.Close)
	const polls = 4000
	for name, keepAlive := range map[string]bool{"keep-alive": true, "connection-per-poll": false} {
		b.Run(name, func(b *testing.B) {
			requests := [][]byte{pollRequest(pollPath(0), !keepAlive)}
			run := func(s *httptest.Server) func() time.Duration {
				return func() time.Duration { return load(b, s.Listener.Addr().String(), requests, polls, keepAlive) }
			}
			compare(b, polls, run(baseline), run(ours))
		})
	}
}

// BenchmarkPollFleet: polls of different clusters of a large fleet against those of a fleet of one.
func BenchmarkPollFleet(b *testing.B) {
	one, _ := fleetOf(b, 1, 3)
	many, _ := fleetOf(b, 10_000, 3)
	small, large := httptest.NewServer(one), httptest.NewServer(many)
	b.Cleanup(small.Close)
	b.Cleanup(large.Close)
	var spread [][]byte
	for i := range 10_000 {
		spread = append(spread, pollRequest(pollPath(i), false))
	}
	const polls = 10_000
	compare(b, polls,
		func() time.Duration { return load(b, small.Listener.Addr().String(), spread[:1], polls, true) },
		func() time.Duration { return load(b, large.Listener.Addr().String(), spread, polls, true) })
}

// BenchmarkPollAllocs: what one poll allocates in the handler, whatever the size of the fleet and of the answer.
func BenchmarkPollAllocs(b *testing.B) {
	for _, size := range []struct{ clusters, components int }{{1, 3}, {1, 1000}, {1000, 3}} {
		b.Run(fmt.Sprintf("clusters=%d/inputs=%d", size.clusters, size.components), func(b *testing.B) {
			handler, _ := fleetOf(b, size.clusters, size.components)
			req := httptest.NewRequest(http.MethodGet, pollPath(0), nil)
			req.Header.Set("Authorization", "Bearer "+benchToken)
			req.Header.Set("Accept-Encoding", "gzip")
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, req)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkWrite: a change to one cluster, over a bare append to a file on the same disk that is synced.
func BenchmarkWrite(b *testing.B) {
	for _, clusters := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			_, replica := fleetOf(b, clusters, 3)
			f, err := os.Create(filepath.Join(b.TempDir(), "sync"))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, f.Close()) })
			page := make([]byte, 4096)
			var sync, own time.Duration
			n := 0
			for b.Loop() {
				start := time.Now()
				_, err := f.Write(page)
				require.NoError(b, err)
				require.NoError(b, f.Sync())
				sync += time.Since(start)

				n++
				start = time.Now()
				_, err = replica.Update(context.Background(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
					_, err := tx.Patch(fleet.KindCluster, "c0", fmt.Appendf(nil, `{"patches":{"component-0":{"replicaCount":"%d"}}}`, n))
					return err
				})
				require.NoError(b, err)
				own += time.Since(start)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(sync.Microseconds())/float64(n)/1000, "sync-ms")
			b.ReportMetric(float64(own.Microseconds())/float64(n)/1000, "write-ms")
			b.ReportMetric(float64((own-sync).Microseconds())/float64(n)/1000, "over-sync-ms")
		})
	}
}

// BenchmarkCatalogChange: a change to a catalog entry that every one of 10,000 clusters uses, and the plan of it.
func BenchmarkCatalogChange(b *testing.B) {
	_, replica := fleetOf(b, 10_000, 30)
	n := 0
	change := func(tx *fleet.Tx) error {
		n++
		_, err := tx.Patch(fleet.KindComponent, "component-0", fmt.Appendf(nil, `{"component_version":"2.0.%d"}`, n))
		return err
	}
	b.Run("commit", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, change)
			require.NoError(b, err)
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "commit-ms")
	})
	b.Run("plan", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			res, err := replica.Update(b.Context(), store.Meta{Actor: "bench", DryRun: true}, change)
			require.NoError(b, err)
			plan, err := res.Plan()
			require.NoError(b, err)
			require.Equal(b, 10_000, plan.Totals.Clusters)
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "plan-ms")
	})
}

// BenchmarkBatch: one operation on each of 10,000 clusters, in one commit.
func BenchmarkBatch(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		_, replica := fleetOf(b, 10_000, 30)
		benchmarkBatch(b, replica)
	})
	b.Run("postgres", func(b *testing.B) {
		url := pgtest.URL(b)
		require.NoError(b, postgres.Migrate(b.Context(), url))
		st, err := postgres.Open(b.Context(), postgres.Config{URL: url})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, st.Close()) })
		_, replica := fleetIn(b, st, 10_000, 30)
		benchmarkBatch(b, replica)
	})
}

func benchmarkBatch(b *testing.B, replica *store.Replica) {
	b.Helper()
	n := 0
	defer cpu(b)()
	for b.Loop() {
		n++
		op := api.Operation{Op: "set_component", All: true, ComponentID: "component-7", OCITag: nullable.NewNullableWithValue(fmt.Sprintf("v1.0.%d", n))}
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := fleet.NewBatch(tx, nil).Run([]api.Operation{op})
			return err
		})
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "batch-ms")
}

// BenchmarkFleetInMemory: what a fleet of 10,000 clusters with 30 components takes, before and after all were polled.
func BenchmarkFleetInMemory(b *testing.B) {
	for b.Loop() {
		_, replica := fleetOf(b, 10_000, 30)
		b.ReportMetric(heapMiB(), "loaded-MiB")
		st := replica.State()
		for _, d := range st.All(fleet.KindCluster) {
			for _, r := range []fleet.Resource{fleet.PlatformComponents, fleet.Namespaces, fleet.RoleBindings} {
				_, err := st.Answer(d, r)
				require.NoError(b, err)
			}
		}
		b.ReportMetric(heapMiB(), "polled-MiB")
		runtime.KeepAlive(st)
	}
}

// cpu reports the processor time of an operation: what it takes on a machine that has nothing else to do, less waiting.
func cpu(b *testing.B) func() {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Milliseconds())/float64(b.N), "cpu-ms") }
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
