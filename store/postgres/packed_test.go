package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	grown := storetest.Growth(t, openStore(t, Config{URL: url}), func() { pgtest.Exec(t, url, `VACUUM`) })
	t.Logf("%d bytes for one change of one label", grown)
	require.Less(t, grown, int64(6<<10))
}

func TestPackedLogDownAndUp(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	open := func() store.Store { return openStore(t, Config{URL: url}) }
	storetest.DownAndUp(t, open, func() {
		require.NoError(t, MigrateDown(t.Context(), url, sqlstore.PackedVersion-1))
		require.NoError(t, Migrate(t.Context(), url))
	})
}

// Going back one migration at a time leads where all at once do.
func TestDownOneByOne(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	open := func() store.Store { return openStore(t, Config{URL: url}) }
	storetest.DownAndUp(t, open, func() {
		for to := newestVersion() - 1; to >= sqlstore.PackedVersion-1; to-- {
			require.NoError(t, MigrateDown(t.Context(), url, to))
		}
		require.NoError(t, Migrate(t.Context(), url))
	})
}

func TestDownWithoutInternalDocuments(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	storetest.Internals(t, func() store.Store { return openStore(t, Config{URL: url}) },
		func() { require.NoError(t, MigrateDown(t.Context(), url, sqlstore.PackedVersion-1)) },
		func() {
			pgtest.Exec(t, url, `CREATE TEMP TABLE loads (fits boolean CHECK (fits)); INSERT INTO loads
				SELECT documents = (SELECT count(*) FROM documents) AND NOT EXISTS (SELECT 1 FROM documents WHERE kind IN ('budget', 'forgotten'))
				AND NOT EXISTS (SELECT 1 FROM changes WHERE kind IN ('budget', 'forgotten')) FROM head`)
		},
		func() { require.NoError(t, Migrate(t.Context(), url)) })
}
