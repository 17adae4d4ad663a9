package sqlite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// newReference writes a database file as the reference implementation does.
func newReference(t *testing.T, sql string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reference.db")
	db, err := connect(path, accessMigrate, 1)
	require.NoError(t, err)
	_, err = db.Exec(`PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = 0; ` + sql)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return path
}

const referenceSQL = `
CREATE TABLE clusters (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE components (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE namespaces (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE rolebindings (id TEXT PRIMARY KEY, data TEXT NOT NULL);
INSERT INTO clusters VALUES ('c2', '{"_id":"c2", "patches":null}'), ('c1', '{"_id":"c1"}');
INSERT INTO namespaces VALUES ('ä', '{"id":"ä"}');
`

func TestReadReference(t *testing.T) {
	t.Parallel()
	path := newReference(t, referenceSQL)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	want := &Reference{
		Clusters:   []json.RawMessage{json.RawMessage(`{"_id":"c1"}`), json.RawMessage(`{"_id":"c2", "patches":null}`)},
		Namespaces: []json.RawMessage{json.RawMessage(`{"id":"ä"}`)},
	}
	for range 2 {
		ref, err := ReadReference(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, want, ref)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after, "the file is untouched")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "and nothing is left beside it")

	// An import that dies after Migrate starts again; one that has committed never does.
	require.NoError(t, Migrate(t.Context(), path))
	ref, err := ReadReference(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, want, ref)
	s := openStore(t, Config{Path: path})
	require.NoError(t, s.Commit(t.Context(), fleet.Head{}, fleet.Commit{Revision: 1, ID: uuid.New(), Changes: []fleet.Change{
		{Kind: fleet.KindCluster, ID: "c1", After: json.RawMessage(`{}`)},
	}}))
	ref, err = ReadReference(t.Context(), path)
	require.NoError(t, err)
	require.Nil(t, ref)
}

// The reference may have been killed in the middle of a transaction, with the old pages only in its journal.
func TestReadReferenceAfterACrash(t *testing.T) {
	t.Parallel()
	path := newReference(t, referenceSQL)
	db, err := connect(path, accessMigrate, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec(`PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE;
		UPDATE clusters SET data = '{"_id":"half"}';
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
		INSERT INTO components SELECT 'half' || i, '{"_id":"a component long enough to fill pages"}' FROM n`)
	require.NoError(t, err)
	crashed := filepath.Join(t.TempDir(), "crashed.db")
	for _, suffix := range []string{"", "-journal"} {
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(crashed+suffix, data, 0o600))
	}
	ref, err := ReadReference(t.Context(), crashed)
	require.NoError(t, err)
	require.Len(t, ref.Clusters, 2)
	require.Equal(t, `{"_id":"c1"}`, string(ref.Clusters[0]))
	require.Empty(t, ref.Components)
}

func TestReadReferenceOfSomethingElse(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, path := range []string{missing, newFile(t)} {
		ref, err := ReadReference(t.Context(), path)
		require.NoError(t, err)
		require.Nil(t, ref)
	}
	require.NoFileExists(t, missing)

	half := newReference(t, `CREATE TABLE clusters (id TEXT PRIMARY KEY, data TEXT)`)
	ref, err := ReadReference(t.Context(), half)
	require.NoError(t, err)
	require.Nil(t, ref)
	require.Error(t, Migrate(t.Context(), half), "not the reference's, and not ours to fill")

	null := newReference(t, referenceSQL+`DROP TABLE components; CREATE TABLE components (id TEXT PRIMARY KEY, data TEXT);
		INSERT INTO components VALUES ('traefik', NULL)`)
	_, err = ReadReference(t.Context(), null)
	require.ErrorContains(t, err, "traefik", "a document that is missing is not an empty one")
}
