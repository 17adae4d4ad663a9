package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	t.Run("File", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) storetest.Opened {
			path := newFile(t)
			open := func(t *testing.T, readOnly bool) store.Store {
				return openStore(t, Config{Path: path, ReadOnly: readOnly})
			}
			return storetest.Opened{
				Store: open(t, false),
				Again: open,
				Exec:  func(t *testing.T, query string) { execFile(t, path, query) },
			}
		})
	})
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) storetest.Opened {
			s := openStore(t, Config{Memory: true})
			return storetest.Opened{
				Store: s,
				Exec: func(t *testing.T, query string) {
					_, err := s.open.writer.ExecContext(t.Context(), query)
					require.NoError(t, err)
				},
			}
		})
	})
}

// newFile returns the path of a migrated database. The name is one that has to be escaped in a URL.
func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a dir?", "fleet #1%41.db")
	require.NoError(t, Migrate(t.Context(), path))
	return path
}

func openStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// execFile changes a database file behind the store's back.
func execFile(t *testing.T, path, query string) {
	t.Helper()
	db, err := connect(path, accessMigrate, 1)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `PRAGMA foreign_keys = 0; `+query)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
