package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// What an administrator set for a database or a role changes nothing: the store is migrated, written and read as without it.
func TestSettingsOfTheDatabase(t *testing.T) {
	t.Parallel()
	settings := map[string]string{
		"array_nulls": "off", "backslash_quote": "off", "bytea_output": "escape", "client_encoding": "LATIN1", "datestyle": "SQL, DMY",
		"default_transaction_deferrable": "on", "default_transaction_isolation": "serializable", "extra_float_digits": "-15",
		"intervalstyle": "sql_standard", "quote_all_identifiers": "on", "standard_conforming_strings": "off", "timezone": "Asia/Kathmandu",
		"transform_null_equals": "on", "xmlbinary": "hex",
	}
	url := pgtest.URL(t)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	var sql strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&sql, "ALTER DATABASE %s SET %s = '%s';", cfg.Database, name, settings[name])
	}
	pgtest.Exec(t, url, sql.String())

	require.NoError(t, Migrate(t.Context(), url))
	at := fill(t, url, 3)
	r := store.NewReplica(store.Config{Store: openStore(t, Config{URL: url})})
	require.NoError(t, r.Load(t.Context()))
	require.Equal(t, at.Revision, r.State().Revision())

	o := observationsOf(t, url)
	row := clusterstatus.Row{Cluster: "ä", Subject: "s", Body: `{"a":"\\x"}`, ObservedAt: time.Now()}
	require.NoError(t, o.Put(t.Context(), []clusterstatus.Row{row}))
	var read []clusterstatus.Row
	_, err = o.Since(t.Context(), time.Time{}, nil, func(r clusterstatus.Row) { read = append(read, r) })
	require.NoError(t, err)
	require.Len(t, read, 1)
	require.Equal(t, []any{row.Cluster, row.Subject, row.Body}, []any{read[0].Cluster, read[0].Subject, read[0].Body})
}

// The server writes every value in the format escape so that it is read as it was.
func TestUnescape(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")
		var text string
		require.NoError(rt, conn.QueryRow(t.Context(), `SELECT encode($1, 'escape')`, want).Scan(&text))
		got, err := unescape([]byte(text))
		require.NoError(rt, err)
		require.Equal(rt, want, got)
	})
	for _, damaged := range []string{`\`, `a\1`, `\12`, `\400`, `\189`, `\x00`} {
		_, err := unescape([]byte(damaged))
		require.Error(t, err, damaged)
	}
}
