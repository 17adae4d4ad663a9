package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Store {
		path := filepath.Join(b.TempDir(), "fleet.db")
		require.NoError(b, Migrate(b.Context(), path))
		s, err := Open(b.Context(), Config{Path: path})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		return s
	})
}

func BenchmarkHistory(b *testing.B) {
	path := filepath.Join(b.TempDir(), "fleet.db")
	require.NoError(b, Migrate(b.Context(), path))
	db, err := connect(path, accessMigrate, 1)
	require.NoError(b, err)
	s, err := Open(b.Context(), Config{Path: path})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	fill := func(sql string) {
		_, err := db.ExecContext(b.Context(), sql)
		require.NoError(b, err)
	}
	series := func(n int) string {
		return fmt.Sprintf(`(WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d) SELECT n FROM numbers)`, n)
	}
	storetest.BenchmarkHistory(b, s, fill, series, `printf('00000000-0000-4000-8000-%012d', n)`)
	require.NoError(b, db.Close())
}
