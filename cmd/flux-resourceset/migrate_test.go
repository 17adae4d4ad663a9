package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// People and scripts repeat an interrupted command. The repetition must not go further than the first run.
func TestMigrateDownAgain(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": "sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "postgres": pgtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := parseDatabase(url)
			require.NoError(t, err)
			require.NoError(t, db.migrate(t.Context()))
			st, err := db.open(t.Context(), false)
			require.NoError(t, err)
			require.NoError(t, st.Commit(t.Context(), fleet.Head{}, fleet.Commit{
				Revision: 1, ID: uuid.New(), Actor: "a",
				Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: "x", After: []byte(`{"id":"x"}`)}},
			}))
			require.NoError(t, st.Close())
			down := func(args ...string) (code int, stdout, stderr string) {
				return invoke(t, append([]string{"migrate", "down", "--yes", "--database-url", url}, args...)...)
			}

			// Steps count from the current version, so the second run would drop everything.
			for range 2 {
				code, _, stderr := down("--steps", "3")
				require.Equal(t, 1, code, stderr)
				require.Contains(t, stderr, "--to")
				code, _, stderr = down()
				require.Equal(t, 1, code, "one step is a step: %s", stderr)
			}
			status, err := db.status(t.Context())
			require.NoError(t, err)
			require.Equal(t, status.newest, status.current, "nothing was taken back")

			for range 3 {
				code, stdout, stderr := down("--to", "3")
				require.Zero(t, code, stderr)
				require.Contains(t, stdout, "schema version 3 of ")
			}
			code, _, stderr := down("--to", "4")
			require.Equal(t, 1, code)
			require.Contains(t, stderr, "version 3, which is below 4")
			for _, to := range []string{"0", "-1"} {
				code, _, stderr = down("--to", to)
				require.NotZero(t, code, "--to %s drops every document", to)
				require.NotEmpty(t, stderr)
			}
			code, _, stderr = down("--to", "3", "--steps", "1")
			require.Equal(t, 2, code, stderr)

			require.NoError(t, db.migrate(t.Context()))
			st, err = db.open(t.Context(), true)
			require.NoError(t, err)
			snap, err := st.Load(t.Context())
			require.NoError(t, err)
			require.Len(t, snap.Records, 1)
			require.NoError(t, st.Close())
		})
	}
}

// An interrupted run may have reverted any number of migrations.
func TestMigrateDownAfterAnInterruption(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	for version := 5; version >= 2; version-- {
		code, stdout, stderr := invoke(t, "migrate", "down", "--yes", "--database-url", "sqlite://"+path, "--to", fmt.Sprint(version))
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, fmt.Sprintf("schema version %d of ", version))
	}
	code, stdout, stderr := invoke(t, "migrate", "down", "--yes", "--database-url", "sqlite://"+path, "--to", "0")
	require.Zero(t, code, "an empty store loses nothing: %s", stderr)
	require.Contains(t, stdout, "schema version 0 of ")
}
