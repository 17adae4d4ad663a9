package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func TestOldHistoryIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	replica := store.NewReplica(store.Config{Store: db, Now: func() time.Time { return time.Now().Add(-3 * time.Hour) }})
	require.NoError(t, replica.Load(t.Context()))
	for _, id := range []string{"a", "b"} {
		_, err := replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
			_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"`+id+`"}`))
			return err
		})
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())

	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+path, "HISTORY_RETENTION=4h")
	p.eventually("/revisions/1", 200)
	for _, id := range []string{"c", "d", "e", "f"} { // by these the log tells what time it is
		require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"`+id+`"}`).status)
	}
	p.Kill()
	p = start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+path, "HISTORY_RETENTION=2h")
	p.eventually("/revisions/1", 404)
	p.eventually("/revisions/2", 404)
	require.Equal(t, 200, p.send("GET", "/revisions/3", "").status)
	require.Equal(t, 200, p.send("GET", "/namespaces/a", "").status)
	// A backup has the remaining history.
	file, copied := filepath.Join(t.TempDir(), "backup.db"), "sqlite://"+filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, os.WriteFile(file, []byte(p.get("/backup")), 0o600))
	code, _, stderr := invoke(t, "restore", file, "--database-url", copied)
	require.Zero(t, code, stderr)
	restored := start(t, "API_MODE=crud", "DATABASE_URL="+copied)
	require.Equal(t, p.get("/revisions"), restored.get("/revisions"))
	require.Equal(t, 404, restored.send("GET", "/revisions/2", "").status)
	require.Regexp(t, `flux_resourceset_store_size_bytes \d{5,}|flux_resourceset_store_size_bytes \d\.\d+e\+0[5-9]`, p.get("/metrics"))
}
