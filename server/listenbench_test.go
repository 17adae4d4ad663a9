package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// confirmedFleet is a service whose clusters have polled everything and confirmed all of it. No table is the one beside its database.
func confirmedFleet(b *testing.B, clusters, components int, table clusterstatus.Store, now func() time.Time) (http.Handler, *store.Replica, *clusterstatus.Tracker) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	require.NoError(b, sqlite.Migrate(b.Context(), path))
	st, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	_, replica := fleetIn(b, st, clusters, components)
	if table == nil {
		table = sqlite.NewObservations(path)
	}
	tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, ClusterStatus: tracker, Tokens: server.Tokens{Read: benchToken, Write: "bench-write"},
		Logger: slog.New(slog.NewJSONHandler(&discard{}, nil)), Now: now,
	})
	require.NoError(b, err)
	for _, doc := range replica.State().All(fleet.KindCluster) {
		asked, err := replica.State().DesiredInputs(doc)
		require.NoError(b, err)
		for _, list := range asked {
			if tracker.RecordPoll(clusterstatus.Poll{Cluster: doc.ID, List: list.List, ETag: list.ETag, Agent: "flux-operator/v0.58.1"}, now()) {
				tracker.RecordServed(doc.ID, list, now())
			}
			i := 0
			for id := range list.Inputs {
				tracker.RecordReceipt(doc.ID, list, id, list.Receipts[i], now())
				i++
			}
		}
	}
	return srv, replica, tracker
}

// BenchmarkStatus asks for the status of 10,000 clusters with 30 components each, all of them confirmed.
func BenchmarkStatus(b *testing.B) {
	h, _, _ := confirmedFleet(b, 10_000, 30, nil, time.Now)
	for name, path := range map[string]string{"fleet": "/status?limit=100", "component": "/platform_components/component-0/status", "cluster": "/clusters/c0/status", "metrics": "/metrics"} {
		b.Run(name, func(b *testing.B) {
			before := used(b)
			for b.Loop() {
				req := httptest.NewRequest(http.MethodGet, path, nil)
				req.Header.Set("Authorization", "Bearer "+benchToken)
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, req)
				require.Equal(b, 200, rec.Code)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms")
			b.ReportMetric(float64((used(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms")
		})
	}
}

// BenchmarkStatusAfterChange: the first request after a change of the catalog for all of 10,000 clusters, which computes the
// receipts of the changed inputs, against the polls after another change, which compute all the answers.
func BenchmarkStatusAfterChange(b *testing.B) {
	h, replica, _ := confirmedFleet(b, 10_000, 30, nil, time.Now)
	n := 0
	change := func() {
		n++
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindComponent, "component-0", fmt.Appendf(nil, `{"component_version":"2.0.%d"}`, n))
			return err
		})
		require.NoError(b, err)
	}
	ask := func(path string) {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer "+benchToken)
		req.Header.Set("Accept-Encoding", "gzip")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Equal(b, 200, rec.Code)
	}
	var status, polls time.Duration
	for b.Loop() {
		change()
		before := used(b)
		ask("/status?limit=100")
		status += used(b) - before
		change()
		before = used(b)
		for i := range 10_000 {
			ask(pollPath(i))
		}
		polls += used(b) - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(status.Milliseconds())/float64(b.N), "cpu-ms")
	b.ReportMetric(float64(status)/float64(polls), "of-polls")
}

// BenchmarkPollsDuringStatus: 200 polls a second of one cluster while the first question after a change of the catalog makes the
// answers of all 10,000, for two and a half seconds of that. It is meant for one processor: GOMAXPROCS=1.
func BenchmarkPollsDuringStatus(b *testing.B) {
	h, replica, _ := confirmedFleet(b, 10_000, 30, nil, time.Now)
	poll := serving(b, h, false, pollRequest("/api/v2/flux/clusters/c0.k8s.example.com/namespaces", false))
	poll.every = time.Second / 200
	var p50, p99 time.Duration
	n := 0
	for b.Loop() {
		n++
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindComponent, "component-0", fmt.Appendf(nil, `{"component_version":"3.%d.%d"}`, runtime.GOMAXPROCS(0), n))
			return err
		})
		require.NoError(b, err)
		asked := make(chan int)
		go func() {
			req := httptest.NewRequest(http.MethodGet, "/status?limit=100", nil)
			req.Header.Set("Authorization", "Bearer "+benchToken)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			asked <- rec.Code
		}()
		poll.cost(b, 500, true)
		require.Equal(b, http.StatusOK, <-asked)
		p50, p99 = p50+poll.p50, p99+poll.p99
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(p50.Microseconds())/float64(b.N)/1000, "p50-ms")
	b.ReportMetric(float64(p99.Microseconds())/float64(b.N)/1000, "p99-ms")
}

// mixed answers as two handlers do: receipts by the second.
func mixed(polls, receipts http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/receipts/") {
			receipts.ServeHTTP(w, r)
			return
		}
		polls.ServeHTTP(w, r)
	})
}

// listening is the traffic of a fleet: a poll of each cluster, and a receipt for every twelfth.
func listening(b *testing.B, replica *store.Replica, keepAlive bool) (requests, unnoted [][]byte) {
	b.Helper()
	clusters := replica.State().All(fleet.KindCluster)
	for i := range clusters {
		requests = append(requests, pollRequest(pollPath(i), !keepAlive))
		if i%12 > 0 {
			continue
		}
		cluster, ok := replica.State().Get(fleet.KindCluster, fmt.Sprint("c", i))
		require.True(b, ok)
		asked, err := replica.State().DesiredInputs(cluster)
		require.NoError(b, err)
		n := i % len(asked[0].Receipts)
		requests = append(requests, pollRequest(fmt.Sprintf("/api/v2/flux/clusters/c%d.k8s.example.com/receipts/platform-components/component-%d?input=%s",
			i, n, asked[0].Receipts[n]), !keepAlive))
	}
	for _, r := range requests {
		unnoted = append(unnoted, bytes.Replace(r, []byte("flux-operator/"), []byte("flux-resourceset-bench/"), 1))
	}
	return requests, unnoted
}

// bareListening answers that traffic with the same bytes, without any other work.
func bareListening(b *testing.B, handler http.Handler) http.Handler {
	b.Helper()
	receipt := "/api/v2/flux/clusters/c0.k8s.example.com/receipts/platform-components/component-0?input=0123456789abcdef"
	return mixed(bare(b, handler, pollPath(0), "gzip"), bare(b, handler, receipt, "gzip"))
}

// BenchmarkListening: polls of 10,000 clusters with 30 components, and a receipt for every twelfth, at full speed. Against a
// bare handler of the same bytes, and against the same polls with a User-Agent that is not recorded.
func BenchmarkListening(b *testing.B) {
	handler, replica, _ := confirmedFleet(b, 10_000, 30, nil, time.Now)
	requests, unnoted := listening(b, replica, true)
	baseline := bareListening(b, handler)
	for name, other := range map[string]*endpoint{"bare": serving(b, baseline, false, requests...), "not-noted": serving(b, handler, false, unnoted...)} {
		b.Run(name, func(b *testing.B) {
			compare(b, len(requests), true, other, serving(b, handler, false, requests...))
		})
		b.Run(name+"/cpu", func(b *testing.B) {
			compareCPU(b, len(requests), true, other, serving(b, handler, false, requests...))
		})
	}
}

// counted counts the rows that are written to a table.
type counted struct {
	clusterstatus.Store
	puts, rows int
}

func (c *counted) Put(ctx context.Context, rows []clusterstatus.Row) error {
	c.puts, c.rows = c.puts+1, c.rows+len(rows)
	return c.Store.Put(ctx, rows)
}

// BenchmarkListeningPaced: minutes of such a fleet at its own pace, 1,000 polls and 83 receipts a second, all recorded in the
// table before. In turns of ten seconds: a bare handler, requests that are not recorded, and the fleet's own. Observations are
// exchanged with the table during the last, so the ratios include the processor time of that.
func BenchmarkListeningPaced(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) clusterstatus.Store{
		"sqlite": func(b *testing.B) clusterstatus.Store {
			return sqlite.NewObservations(filepath.Join(b.TempDir(), "fleet.db"))
		},
		"postgres": func(b *testing.B) clusterstatus.Store {
			url := pgtest.URL(b)
			require.NoError(b, postgres.Migrate(b.Context(), url))
			table, err := postgres.NewObservations(postgres.Config{URL: url})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, table.Close()) })
			return table
		},
	} {
		b.Run(name, func(b *testing.B) {
			p := &pace{table: &counted{Store: open(b)}}
			handler, replica, tracker := confirmedFleet(b, 10_000, 30, p.table, p.now)
			p.tracker = tracker
			for before := -1; before != p.table.rows; {
				before = p.table.rows
				tracker.Sync(b.Context(), p.now())
				require.Zero(b, tracker.Stats().Failures)
			}
			time.Sleep(75 * time.Second) // a process looks back that far, and all this is not written every minute
			tracker.Sync(b.Context(), p.now())
			for name, keepAlive := range map[string]bool{"keep-alive": true, "connection-per-poll": false} {
				requests, unnoted := listening(b, replica, keepAlive)
				bare, silent, ours := serving(b, bareListening(b, handler), false, requests...), serving(b, handler, false, unnoted...), serving(b, handler, false, requests...)
				b.Run(name, func(b *testing.B) { p.compare(b, keepAlive, bare, silent, ours) })
			}
		})
	}
}

// pace measures the processor time of a service for a minute of usual traffic.
type pace struct {
	tracker *clusterstatus.Tracker
	table   *counted
	ahead   atomic.Int64 // of the tracker's clock, which stands still while others have their turn
}

func (p *pace) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

func (p *pace) compare(b *testing.B, keepAlive bool, bare, silent, ours *endpoint) {
	b.Helper()
	const rate, turns = 1083, 6 // of ten seconds
	var exchanges time.Duration
	all := []*endpoint{bare, silent, ours}
	costs, p50, p99 := make([]time.Duration, len(all)), make([]time.Duration, len(all)), make([]time.Duration, len(all))
	puts, rows := p.table.puts, p.table.rows
	for b.Loop() {
		for range turns {
			for i, e := range all {
				e.every = time.Second / rate
				stop := func() time.Duration { return 0 }
				if e == ours {
					stop = p.exchange(b)
				}
				began := time.Now()
				costs[i] += e.cost(b, len(e.requests), keepAlive)
				exchanges += stop()
				if e != ours {
					p.ahead.Add(int64(-time.Since(began)))
				}
				p50[i], p99[i] = p50[i]+e.p50, p99[i]+e.p99
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	n := float64(b.N * turns)
	for i, name := range []string{"bare", "not-noted", "ours"} {
		b.ReportMetric(float64(costs[i].Microseconds())/n/float64(len(ours.requests)), name+"-cpu-us")
		b.ReportMetric(float64(p50[i].Microseconds())/n, name+"-p50-us")
		b.ReportMetric(float64(p99[i].Microseconds())/n, name+"-p99-us")
	}
	b.ReportMetric(costs[0].Seconds()/costs[2].Seconds(), "ratio")
	b.ReportMetric(costs[1].Seconds()/costs[2].Seconds(), "ratio-not-noted")
	b.ReportMetric(float64(p.table.puts-puts)/float64(b.N), "upserts/min")
	b.ReportMetric(float64(p.table.rows-rows)/float64(b.N), "rows/min")
	b.ReportMetric(float64(exchanges.Microseconds())/1000/float64(b.N), "exchange-cpu-ms/min")
}

// exchange starts the exchange of observations with the table. The returned function ends it, and returns its processor time.
func (p *pace) exchange(b *testing.B) (stop func() time.Duration) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	took := make(chan time.Duration)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &before)
		tick := time.NewTicker(3 * time.Second / 2) // as Run does
		defer tick.Stop()
		for ctx.Err() == nil {
			p.tracker.Sync(ctx, p.now())
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &after)
		took <- time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	}()
	return func() time.Duration { cancel(); return <-took }
}
