package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	book := observations.NewBook(observations.Config{})
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
			for b.Loop() {
				req := httptest.NewRequest(http.MethodGet, path, nil)
				req.Header.Set("Authorization", "Bearer "+benchToken)
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, req)
				require.Equal(b, 200, rec.Code)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms")
		})
	}
}
