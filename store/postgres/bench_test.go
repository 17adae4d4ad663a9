package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Store {
		url := pgtest.URL(b)
		require.NoError(b, Migrate(b.Context(), url))
		s, err := Open(b.Context(), Config{URL: url})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		return s
	})
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
