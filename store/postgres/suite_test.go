package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		url := newDatabase(t)
		open := func(t *testing.T, readOnly bool) store.Store {
			return openStore(t, Config{URL: url, ReadOnly: readOnly})
		}
		return storetest.Opened{
			Store: open(t, false),
			Again: open,
			Exec:  func(t *testing.T, query string) { pgtest.Exec(t, url, query) },
		}
	})
}

// newDatabase returns the URL of a migrated database.
func newDatabase(t *testing.T) string {
	t.Helper()
	url := pgtest.URL(t)
	require.NoError(t, Migrate(t.Context(), url))
	return url
}

func openStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	var s *Store
	eventually(t, func() (err error) { // as the program does: a busy machine may take longer than one attempt has
		s, err = Open(t.Context(), cfg)
		return err
	})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
