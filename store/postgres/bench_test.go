package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

const benchDocuments = 10_000

// benchBody is of the size of a cluster with 30 components and some patches.
func benchBody(id, n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":"c%d","n":%d,"components":"%s"}`, id, n, strings.Repeat(`ingress-nginx 1.2.3 `, 300)))
}

// benchStore returns a store with many documents. The benchmarks of one binary share its server only.
func benchStore(b *testing.B) (*Store, fleet.Head) {
	b.Helper()
	url := pgtest.URL(b)
	require.NoError(b, Migrate(b.Context(), url))
	s, err := Open(b.Context(), Config{URL: url})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	c := namespace(fleet.Head{}, "first")
	for i := range benchDocuments {
		c.Changes = append(c.Changes, fleet.Change{Kind: fleet.KindCluster, ID: fmt.Sprint(i), After: benchBody(i, 0)})
	}
	require.NoError(b, s.Commit(b.Context(), fleet.Head{}, c))
	return s, c.Head()
}

func BenchmarkCommitOne(b *testing.B) {
	s, at := benchStore(b)
	for n := 0; b.Loop(); n++ {
		c := namespace(at, fmt.Sprint(n))
		require.NoError(b, s.Commit(b.Context(), at, c))
		at = c.Head()
	}
}

// BenchmarkCommitAll changes every document in one commit.
func BenchmarkCommitAll(b *testing.B) {
	s, at := benchStore(b)
	for n := 0; b.Loop(); n++ {
		c := namespace(at, fmt.Sprint(n))
		for i := range benchDocuments {
			c.Changes = append(c.Changes, fleet.Change{Kind: fleet.KindCluster, ID: fmt.Sprint(i), Before: benchBody(i, n), After: benchBody(i, n+1)})
		}
		require.NoError(b, s.Commit(b.Context(), at, c))
		at = c.Head()
	}
}

func BenchmarkLoad(b *testing.B) {
	s, _ := benchStore(b)
	for b.Loop() {
		snap, err := s.Load(b.Context())
		require.NoError(b, err)
		require.Len(b, snap.Records, benchDocuments+1)
	}
}

func BenchmarkHead(b *testing.B) {
	s, _ := benchStore(b)
	for b.Loop() {
		_, err := s.Head(b.Context())
		require.NoError(b, err)
	}
}

func BenchmarkHistoryOfOne(b *testing.B) {
	s, at := benchStore(b)
	for i := range 200 {
		c := namespace(at, fmt.Sprint(i))
		require.NoError(b, s.Commit(b.Context(), at, c))
		at = c.Head()
	}
	for b.Loop() {
		commits, err := s.History(b.Context(), store.HistoryQuery{Kind: fleet.KindNamespace, ID: "7", Limit: 50})
		require.NoError(b, err)
		require.Len(b, commits, 1)
	}
}

func BenchmarkHistory(b *testing.B) {
	url := pgtest.URL(b)
	require.NoError(b, Migrate(b.Context(), url))
	s, err := Open(b.Context(), Config{URL: url})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	series := func(n int) string { return fmt.Sprintf(`generate_series(1, %d) AS n`, n) }
	storetest.BenchmarkHistory(b, s, func(sql string) { pgtest.Exec(b, url, sql) }, series,
		`('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid`)
}
