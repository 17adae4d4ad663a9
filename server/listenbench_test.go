package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/observations"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// confirmedFleet is a service whose clusters have polled everything and confirmed all of it.
func confirmedFleet(b *testing.B, clusters, components int) (http.Handler, *store.Replica, *observations.Book) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	require.NoError(b, sqlite.Migrate(b.Context(), path))
	st, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	_, replica := fleetIn(b, st, clusters, components)
	book := observations.NewBook(observations.Config{Table: sqlite.NewObservations(path)})
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Observations: book, Tokens: server.Tokens{Read: benchToken, Write: "bench-write"},
		Logger: slog.New(slog.NewJSONHandler(&discard{}, nil)),
	})
	require.NoError(b, err)
	now := time.Now()
	for _, doc := range replica.State().All(fleet.KindCluster) {
		asked, err := replica.State().Asked(doc)
		require.NoError(b, err)
		for _, list := range asked {
			book.Polled(doc.ID, list.List, list.ETag, "flux-operator/v0.58.1", now)
			i := 0
			for id := range list.Inputs {
				book.Received(doc.ID, list.List, id, list.Receipts[i], now)
				i++
			}
		}
	}
	return srv, replica, book
}

// BenchmarkStatus asks for the status of 10,000 clusters with 30 components each, all of them confirmed.
func BenchmarkStatus(b *testing.B) {
	h, _, _ := confirmedFleet(b, 10_000, 30)
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

// BenchmarkStatusAfterChange: the first question after a change of the catalog for all of 10,000 clusters, which makes all their
// answers, against their next polls, which would. They are kept: the ratio is what the question costs beside that.
func BenchmarkStatusAfterChange(b *testing.B) {
	h, replica, _ := confirmedFleet(b, 10_000, 30)
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

// BenchmarkListening: polls of 10,000 clusters with 30 components, and a receipt for each twelve of them, as such a fleet sends
// them. Against a bare handler of the same bytes, and against the same polls by somebody whose requests nothing is noted of.
func BenchmarkListening(b *testing.B) {
	const clusters, components = 10_000, 30
	handler, replica, book := confirmedFleet(b, clusters, components)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { book.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait() })
	var requests, unnoted [][]byte
	for i := range clusters {
		requests = append(requests, pollRequest(pollPath(i), false))
		if i%12 > 0 {
			continue
		}
		cluster, ok := replica.State().Get(fleet.KindCluster, fmt.Sprint("c", i))
		require.True(b, ok)
		asked, err := replica.State().Asked(cluster)
		require.NoError(b, err)
		n := i % components
		requests = append(requests, pollRequest(fmt.Sprintf("/api/v2/flux/clusters/c%d.k8s.example.com/receipts/platform-components/component-%d?input=%s",
			i, n, asked[0].Receipts[n]), false))
	}
	for _, r := range requests {
		unnoted = append(unnoted, bytes.Replace(r, []byte("flux-operator/"), []byte("flux-resourceset-bench/"), 1))
	}
	receipt := "/api/v2/flux/clusters/c0.k8s.example.com/receipts/platform-components/component-0?input=0123456789abcdef"
	baseline := mixed(bare(b, handler, pollPath(0), "gzip"), bare(b, handler, receipt, "gzip"))
	b.Run("bare", func(b *testing.B) {
		compare(b, len(requests), true, serving(b, baseline, false, requests...), serving(b, handler, false, requests...))
	})
	b.Run("bare/cpu", func(b *testing.B) {
		compareCPU(b, len(requests), true, serving(b, baseline, false, requests...), serving(b, handler, false, requests...))
	})
	b.Run("not-noted/cpu", func(b *testing.B) {
		compareCPU(b, len(requests), true, serving(b, handler, false, unnoted...), serving(b, handler, false, requests...))
	})
	b.Run("not-noted", func(b *testing.B) {
		compare(b, len(requests), true, serving(b, handler, false, unnoted...), serving(b, handler, false, requests...))
	})
}
