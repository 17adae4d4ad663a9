package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// BenchmarkFollowSources: cycles of a source of a fleet of 10,000 clusters and 30 components, from a registry with TLS on this machine.
// Idle cycles alternate with a bare request to the registry; cycles that change one component of all clusters, with a commit that does.
func BenchmarkFollowSources(b *testing.B) {
	st, err := sqlite.Open(b.Context(), sqlite.Config{Memory: true})
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	now, registry := &clock{now: time.Now()}, newOCIRegistry(b)
	replica := store.NewReplica(store.Config{Store: st, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, replica.Load(b.Context()))
	_, err = replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		if err := fillFleet(tx, 10_000, 30); err != nil {
			return err
		}
		if _, err := tx.Create(fleet.KindAccess, []byte(`{"id":"platform","subjects":[{"source":"platform"}],"may":["write"]}`)); err != nil {
			return err
		}
		_, err := tx.Create(fleet.KindSource, []byte(`{"id":"platform","url":"oci://`+registry.host+`/fleet","tag":"prod"}`))
		return err
	})
	require.NoError(b, err)
	s, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, ClusterStatus: clusterstatus.NewTracker(clusterstatus.Config{}), ArtifactReader: registry.reader(),
		Tokens: server.Tokens{Read: readToken, Write: writeToken}, Now: now.Now, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	version := func(component string) string {
		doc, ok := replica.State().Get(fleet.KindComponent, component)
		require.True(b, ok)
		return doc.Component().ComponentVersion
	}
	n := 0
	push := func() {
		n++
		text := ""
		for i := range 30 {
			text += fmt.Sprintf("---\nkind: component\nid: followed-%d\ncomponent_path: charts/%d\noci_url: https://charts.example.com\ncomponent_version: 1.2.0\n", i, i)
		}
		text += fmt.Sprintf("---\nkind: component\nid: component-0\ncomponent_path: charts/component-0\noci_url: https://charts.example.com\ncomponent_version: 2.0.%d\n", n)
		registry.push(b, "fleet:prod", map[string]string{"fleet.yaml": text})
	}
	cycle := func() {
		now.advance(time.Minute)
		s.FollowSources(b.Context())
	}
	push()
	cycle()
	require.NotEqual(b, "2.0.1", version("component-0"), "adoption needs an approval")
	_, err = replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		held := tx.Base().SourceState("platform").Held
		return tx.ApproveArtifact("platform", held.PlanHash, "bench", now.Now())
	})
	require.NoError(b, err)
	cycle()
	require.Equal(b, "2.0.1", version("component-0"))

	b.Run("idle", func(b *testing.B) {
		var bare, own time.Duration
		for b.Loop() {
			start := time.Now()
			req, err := http.NewRequestWithContext(b.Context(), http.MethodHead, registry.URL+"/v2/fleet/manifests/prod", nil)
			require.NoError(b, err)
			resp, err := registry.Client().Do(req)
			require.NoError(b, err)
			require.NoError(b, resp.Body.Close())
			bare += time.Since(start)
			start = time.Now()
			cycle()
			own += time.Since(start)
		}
		b.ReportMetric(float64(own.Microseconds())/float64(b.N), "cycle-us")
		b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "request-us")
	})
	b.Run("change", func(b *testing.B) {
		var bare, own time.Duration
		for b.Loop() {
			start := time.Now()
			_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
				_, err := tx.Patch(fleet.KindComponent, "component-1", fmt.Appendf(nil, `{"component_version":"2.0.%d"}`, n))
				return err
			})
			require.NoError(b, err)
			bare += time.Since(start)
			push()
			start = time.Now()
			cycle()
			own += time.Since(start)
			require.Equal(b, fmt.Sprintf("2.0.%d", n), version("component-0"))
		}
		b.ReportMetric(float64(own.Milliseconds())/float64(b.N), "cycle-ms")
		b.ReportMetric(float64(bare.Milliseconds())/float64(b.N), "commit-ms")
		b.ReportMetric(float64(own)/float64(bare), "cycle/commit")
	})
}
