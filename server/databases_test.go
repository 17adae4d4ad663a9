package server_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// eachDatabase runs a test on an empty database of each kind. start opens it once more, as another process does; the test closes it.
func eachDatabase(t *testing.T, test func(t *testing.T, start func() (store.Store, clusterstatus.Store))) {
	t.Helper()
	for name, create := range map[string]func(t *testing.T) func() (store.Store, clusterstatus.Store){
		"sqlite": func(t *testing.T) func() (store.Store, clusterstatus.Store) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "fleet.db")
			require.NoError(t, sqlite.Migrate(t.Context(), path))
			return func() (store.Store, clusterstatus.Store) {
				st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
				require.NoError(t, err)
				return st, sqlite.NewObservations(path)
			}
		},
		"postgres": func(t *testing.T) func() (store.Store, clusterstatus.Store) {
			t.Helper()
			url := pgtest.URL(t)
			require.NoError(t, postgres.Migrate(t.Context(), url))
			return func() (store.Store, clusterstatus.Store) {
				var st *postgres.Store
				err := store.ErrUnavailable
				for n := 0; n < 20 && errors.Is(err, store.ErrUnavailable); n++ { // a busy machine: a process starts again
					st, err = postgres.Open(t.Context(), postgres.Config{URL: url})
				}
				require.NoError(t, err)
				table, err := postgres.NewObservations(postgres.Config{URL: url})
				require.NoError(t, err)
				return st, table
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}
