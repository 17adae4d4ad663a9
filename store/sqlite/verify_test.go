package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// writeHistory commits creations, changes, a decommissioning and a removal, and returns the store.
func writeHistory(t *testing.T, path string) *Store {
	t.Helper()
	require.NoError(t, Migrate(t.Context(), path))
	s, err := Open(t.Context(), Config{Path: path})
	require.NoError(t, err)
	var head fleet.Head
	bodies := map[string][]byte{}
	for n := range 12 {
		c := fleet.Commit{Revision: head.Revision + 1, ID: uuid.New(), At: time.UnixMicro(1700000000000000 + int64(n)).UTC(), Actor: "ci", Author: "an author", Reason: fmt.Sprint("because ", n), RequestID: uuid.NewString(), Operations: []byte(`[{"op":"update"}]`)}
		for of := range 3 {
			id := fmt.Sprint("d", of)
			kind, after := fleet.KindCluster, fmt.Appendf(nil, `{"cluster_dns":"%s.example.com","cluster_name":"revision %d","id":%q}`, id, n, id)
			switch {
			case of == 2 && n == 9:
				after = nil
			case of == 1 && n == 10:
				after = fmt.Appendf(nil, `{"cluster_dns":"%s.example.com","deleted_at":"2026-01-02T03:04:05Z","id":%q}`, id, id)
			case of > 0 && n > 8:
				continue
			}
			c.Changes = append(c.Changes, fleet.Change{Kind: kind, ID: id, Before: bodies[id], After: after})
			bodies[id] = after
		}
		require.NoError(t, s.Commit(t.Context(), head, c))
		head = c.Head()
	}
	return s
}

// flipBit flips a random bit of a value of a column, and returns a description; empty: the column has no value.
func flipBit(t *testing.T, db *sql.DB, random *rand.Rand, table, column string) string {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, pragma := range []string{`ignore_check_constraints = ON`, `foreign_keys = OFF`} {
		_, err = conn.ExecContext(t.Context(), `PRAGMA `+pragma)
		require.NoError(t, err)
	}
	key := map[string]string{"head": "single", "commits": "revision", "changes": "revision || ' ' || seq", "documents": "kind || ' ' || id"}[table]
	where := "true"
	switch table + "." + column { // where it has a meaning
	case "changes.sum":
		where = "after IS NOT NULL AND revision >= (SELECT oldest FROM head)"
	case "changes.seq", "changes.packed_after", "commits.hash", "commits.previous", "commits.checkpoint":
		where = "revision >= (SELECT oldest FROM head)"
	}
	var row, kind string
	var number int64
	var bytes []byte
	values := fmt.Sprintf(`FROM %s WHERE %[2]s IS NOT NULL AND (typeof(%[2]s) = 'integer' OR length(%[2]s) > 0) AND %[3]s`, table, column, where)
	var count int
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT count(*) "+values).Scan(&count))
	if count == 0 {
		return ""
	}
	err = conn.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %s, typeof(%s), CASE WHEN typeof(%[2]s) = 'integer' THEN %[2]s ELSE 0 END, CAST(%[2]s AS BLOB) %s
		ORDER BY 1 LIMIT 1 OFFSET %d`, key, column, values, random.IntN(count))).Scan(&row, &kind, &number, &bytes)
	require.NoError(t, err)
	to := `$1`
	var value any = number ^ 1<<random.IntN(63)
	if table+"."+column == "head.oldest" && value.(int64)|1 == 1 && number|1 == 1 {
		return "" // 0 and 1 both mean a log that was never shortened
	}
	if kind != "integer" {
		bytes[random.IntN(len(bytes))] ^= 1 << random.IntN(8)
		if value = bytes; kind == "text" {
			to = `CAST($1 AS TEXT)`
		}
	}
	_, err = conn.ExecContext(t.Context(), fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s = $2`, table, column, to, key), value, row)
	if err != nil {
		return "" // the new value belongs to another row
	}
	return fmt.Sprintf("%s.%s of %s: %v", table, column, row, value)
}

// TestVerifyNoticesFlippedBits: a flipped bit in any column of the history, the documents and the head is noticed.
func TestVerifyNoticesFlippedBits(t *testing.T) {
	t.Parallel()
	harmless := map[string]bool{
		"head.single":   true, // only identifies the row
		"changes.bytes": true, // limits how much is read at once
	}
	for name, prepare := range map[string]func(ctx context.Context, s *Store) error{
		"complete": func(context.Context, *Store) error { return nil },
		"shortened": func(ctx context.Context, s *Store) error {
			_, _, err := s.Compact(ctx, time.UnixMicro(1700000000000006).UTC())
			if err == nil {
				err = (&store.Audit{Store: s}).Check(ctx)
			}
			return err
		},
		"quarantined": func(ctx context.Context, s *Store) error {
			return s.Quarantine(ctx, store.Quarantine{Reason: store.QuarantineReplaced, At: time.Unix(1700000000, 0).UTC(), Served: store.FormatHead(fleet.Head{Revision: 99, ID: uuid.New()}), Clusters: 3, Installs: map[string]int{"d0": 7}})
		},
	} {
		random := rand.New(rand.NewPCG(46, 16))
		original := filepath.Join(t.TempDir(), "fleet.db")
		s := writeHistory(t, original)
		require.NoError(t, prepare(t.Context(), s))
		_, err := store.Verify(t.Context(), s, nil)
		require.NoError(t, err, name)
		db, err := connect(original, accessWrite, 1)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`)
		require.NoError(t, err)
		columns := columnsOf(t, db)
		require.NoError(t, db.Close())
		require.NoError(t, s.Close())
		raw, err := os.ReadFile(original)
		require.NoError(t, err)
		flips := 0
		for _, column := range columns {
			if harmless[column[0]+"."+column[1]] {
				continue
			}
			for range 8 {
				path := filepath.Join(t.TempDir(), "flipped.db")
				require.NoError(t, os.WriteFile(path, raw, 0o600))
				db, err := connect(path, accessWrite, 1)
				require.NoError(t, err)
				flipped := flipBit(t, db, random, column[0], column[1])
				require.NoError(t, db.Close())
				if flipped == "" {
					continue
				}
				flips++
				if opened, err := Open(t.Context(), Config{Path: path, ReadOnly: true}); err == nil {
					_, err = store.Verify(t.Context(), opened, nil)
					require.NoError(t, opened.Close())
					if err == nil {
						t.Errorf("%s: not noticed: %s", name, flipped)
					}
				}
			}
		}
		require.Greater(t, flips, 150)
	}
}

// columnsOf returns the columns of the tables of the fleet.
func columnsOf(t *testing.T, db *sql.DB) (out [][2]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name IN ('head', 'commits', 'changes', 'documents') ORDER BY 1, 2`)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var column [2]string
		require.NoError(t, rows.Scan(&column[0], &column[1]))
		out = append(out, column)
	}
	require.NoError(t, rows.Err())
	return out
}
