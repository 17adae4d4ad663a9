package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

// Every command refuses a database of a development build, and says what to do. The stores' tests check that it stays as it is.
func TestDevelopmentDatabase(t *testing.T) {
	t.Parallel()
	sqliteURL, postgresURL := "sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), pgtest.URL(t)
	for name, tc := range map[string]struct {
		url  string
		exec func(statements string)
	}{
		"sqlite": {sqliteURL, func(statements string) {
			db, err := sql.Open("sqlite", strings.TrimPrefix(sqliteURL, "sqlite://"))
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), statements)
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}},
		"postgres": {postgresURL, func(statements string) { pgtest.Exec(t, postgresURL, statements) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := parseDatabase(tc.url)
			require.NoError(t, err)
			require.NoError(t, db.migrate(t.Context()))
			st, err := db.open(t.Context(), false)
			require.NoError(t, err)
			require.NoError(t, st.Commit(t.Context(), fleet.Head{}, fleet.Commit{
				Revision: 1, ID: uuid.New(), Actor: "a",
				Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: "x", After: []byte(`{"id":"x"}`)}},
			}))
			require.NoError(t, st.Close())
			tc.exec(storetest.DevelopmentDatabases()["version 10"])

			const want = "databases of development builds are not supported: export with the old program and apply to a new database"
			backup := filepath.Join(t.TempDir(), "backup.db")
			for _, args := range [][]string{
				{"migrate", "up"},
				{"migrate", "status"},
				{"accept", "--yes"},
				{"verify"},
				{"backup", backup},
			} {
				code, _, stderr := invoke(t, append(args, "--database-url", tc.url)...)
				require.Equal(t, 1, code, args)
				require.Contains(t, stderr, want, args)
			}
			other := "sqlite://" + filepath.Join(t.TempDir(), "other.db")
			require.NoFileExists(t, backup)
			code, _, stderr := invoke(t, "copy", "--from", tc.url, "--to", other)
			require.Equal(t, 1, code)
			require.Contains(t, stderr, want)
			code, _, stderr = invoke(t, "migrate", "up", "--database-url", other)
			require.Zero(t, code, stderr)
			code, _, stderr = invoke(t, "copy", "--from", other, "--to", tc.url)
			require.Equal(t, 1, code)
			require.Contains(t, stderr, want)
			for _, mode := range []string{"crud", "read-only"} {
				p := start(t, "API_MODE="+mode, "DATABASE_URL="+tc.url, "SEED_FILE="+demoSeed)
				require.Equal(t, 1, p.exit(), p.Log())
				require.Contains(t, p.Log(), want)
			}
		})
	}
}
