package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
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
	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// The benchmarks alternate, in one run, with a minimal baseline: the figure is the ratio, because the speed of the machine
// drifts.

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

// onEachStore runs a benchmark with a new fleet on SQLite and on Postgres.
func onEachStore(b *testing.B, clusters, components int, run func(b *testing.B, handler http.Handler, replica *store.Replica)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) {
		handler, replica := fleetOf(b, clusters, components)
		run(b, handler, replica)
	})
	b.Run("postgres", func(b *testing.B) {
		url := pgtest.URL(b)
		require.NoError(b, postgres.Migrate(b.Context(), url))
		st, err := postgres.Open(b.Context(), postgres.Config{URL: url})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, st.Close()) })
		handler, replica := fleetIn(b, st, clusters, components)
		run(b, handler, replica)
	})
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
	onEachStore(b, 10_000, 30, func(b *testing.B, _ http.Handler, replica *store.Replica) {
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
	})
}

// BenchmarkBody: processor time of requests with large bodies, as dry runs through the whole server: a batch of 2,000 documents
// in 1 MiB, and the patch of one document of 200 KiB.
func BenchmarkBody(b *testing.B) {
	handler, _ := fleetOf(b, 1, 3)
	var ops []string
	for i := range 2000 {
		ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"namespace","document":{"id":"n-%d","annotations":{"a":"%s","b":"%d"},"labels":{"team":"a"}}}`, i, strings.Repeat("x", 400), i))
	}
	var values []string
	for i := range 4000 {
		values = append(values, fmt.Sprintf(`"key%d.name":"%s"`, i, strings.Repeat("y", 30)))
	}
	for name, r := range map[string]struct{ method, path, body string }{
		"batch": {http.MethodPost, "/batch", `{"operations":[` + strings.Join(ops, ",") + `]}`},
		"patch": {http.MethodPatch, "/platform_components/component-0", `{"patches":{` + strings.Join(values, ",") + `}}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), r.method, r.path+"?dry_run=true", strings.NewReader(r.body))
				req.Header.Set("Authorization", "Bearer bench-write")
				req.Header.Set("Content-Type", "application/json")
				if r.method == http.MethodPatch {
					req.Header.Set("Content-Type", "application/merge-patch+json")
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, req)
				require.Equal(b, http.StatusOK, w.Code, w.Body)
			}
		})
	}
}

// BenchmarkFleetInMemory: memory of a fleet of 10,000 clusters with 30 components, before and after all were polled.
func BenchmarkFleetInMemory(b *testing.B) {
	for b.Loop() {
		_, replica := fleetOf(b, 10_000, 30)
		b.ReportMetric(heapMiB(), "loaded-MiB")
		st := replica.State()
		for _, d := range st.All(fleet.KindCluster) {
			for _, r := range []fleet.Kind{fleet.KindComponent, fleet.KindNamespace, fleet.KindRoleBinding} {
				_, err := st.Answer(d, r)
				require.NoError(b, err)
			}
		}
		b.ReportMetric(heapMiB(), "polled-MiB")
		runtime.KeepAlive(st)
	}
}

// BenchmarkSeed: the first start of a server with a seed, or with a database of the reference: it is read, validated and
// committed. The baseline is the time of encoding/json for the same text.
func BenchmarkSeed(b *testing.B) {
	var text bytes.Buffer
	require.NoError(b, bench.Realistic(10_000).WriteSeed(&text))
	rules := fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}}
	var baseline, took time.Duration
	for b.Loop() {
		before := used(b)
		var read any
		require.NoError(b, json.Unmarshal(text.Bytes(), &read))
		baseline += used(b) - before
		collect := debug.SetGCPercent(300) // as the program has it while it does this
		before = used(b)
		seed, err := fleet.ParseSeed(text.Bytes())
		require.NoError(b, err)
		require.NoError(b, server.CheckSeed(seed, rules))
		path := filepath.Join(b.TempDir(), "fleet.db")
		require.NoError(b, sqlite.Migrate(b.Context(), path))
		st, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
		require.NoError(b, err)
		replica := store.NewReplica(store.Config{Store: st, Rules: rules})
		require.NoError(b, replica.Load(b.Context()))
		loaded, err := server.SeedEmptyStore(b.Context(), replica, seed, store.Meta{Actor: "bench"})
		require.NoError(b, err)
		require.True(b, loaded)
		require.NoError(b, st.Close())
		took += used(b) - before
		debug.SetGCPercent(collect)
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "cpu-ms")
	b.ReportMetric(float64(took)/float64(baseline), "cpu-ratio")
}

// cpu reports the processor time of an operation: its time on an idle machine, without waits.
func cpu(b *testing.B) func() {
	b.Helper()
	start := used(b)
	return func() { b.ReportMetric(float64((used(b)-start).Milliseconds())/float64(b.N), "cpu-ms") }
}

// used is the processor time that this process has used.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkWritePolicies: a change to one cluster through the API, without policies and with 20, alternately. The ratio compares the
// medians of the processor time.
func BenchmarkWritePolicies(b *testing.B) {
	var servers []http.Handler
	for policies := range 2 {
		srv, replica := fleetOf(b, 10_000, 30)
		servers = append(servers, srv)
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			for i := range 20 * policies {
				rule := []string{"effect.clusters.size() <= 1000000", "change.documents.all(d, d.kind != 'rolebinding')", "effect.clusters.all(c, c.removals == 0)", "effect.clusters.all(c, c.lists.rolebindings.size() == 0)"}[i%4]
				if _, err := tx.Create(fleet.KindPolicy, fmt.Appendf(nil, `{"id":"p%d","rule":%q,"action":"deny"}`, i, rule)); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(b, err)
	}
	var times [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		for i, srv := range servers {
			req := httptest.NewRequest(http.MethodPatch, "/clusters/c0", strings.NewReader(fmt.Sprintf(`{"patches":{"component-0":{"replicaCount":"%d"}}}`, n)))
			req.Header.Set("Authorization", "Bearer bench-write")
			req.Header.Set("Content-Type", "application/merge-patch+json")
			rec := httptest.NewRecorder()
			before := used(b)
			srv.ServeHTTP(rec, req)
			times[i] = append(times[i], used(b)-before)
			require.Equal(b, http.StatusOK, rec.Code, rec.Body.String())
		}
	}
	median := func(of []time.Duration) float64 { return float64(slices.Sorted(slices.Values(of))[len(of)/2]) }
	b.ReportMetric(median(times[0])/1e6, "without-cpu-ms")
	b.ReportMetric(median(times[1])/median(times[0]), "cpu-ratio")
}
