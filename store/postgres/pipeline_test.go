package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestValuesAreRead: the server reads every text in a document, an id or a reason, and every number, exactly as it was written.
func TestValuesAreRead(t *testing.T) {
	t.Parallel()
	cfg, err := Config{URL: pgtest.URL(t)}.pool()
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	hostile := rapid.SampledFrom([]string{
		"", "'", "''", `\`, `\'`, `"`, `{`, `}`, `,`, `{"a",NULL}`, "NULL", "null", "$1", "$2::text", ";", "--", "/*", "E'\\'", "U&'\\0041'", "$$", "$a$",
		"\n", "\t", "\u2028", "\U0001f680", "ü", "\ufeff", "\u00a0", " x ", `\x41`, `\N`, "'; DROP TABLE head; --", "%s", "chr(31)",
	})
	text := rapid.Map(rapid.SliceOfN(hostile, 0, 6), func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(rt *rapid.T) {
		type row struct {
			text, optional, body string
			none                 bool
			bytes                []byte
			number               int64
		}
		var (
			rows  []row
			all   [][]any
			small = rapid.IntRange(-9, 9).Draw(rt, "small")
		)
		for range rapid.IntRange(1, 5).Draw(rt, "rows") {
			r := row{
				text: text.Draw(rt, "text"), optional: text.Draw(rt, "optional text"), body: "{" + text.Draw(rt, "body") + "}", none: rapid.Bool().Draw(rt, "none"),
				bytes: rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"), number: rapid.Int64().Draw(rt, "number"),
			}
			if r.none {
				r.bytes = nil
			}
			values := []any{r.text, any(r.optional), sqlstore.Body(r.body), r.bytes, r.number, nil}
			if r.none {
				values[1] = nil
			}
			rows, all = append(rows, r), append(all, values)
		}
		args := []any{small, rows[0].text, rows[0].bytes}
		for i := range all[0] {
			column, err := array(all, i)
			require.NoError(rt, err)
			args = append(args, column)
		}
		var batch pgx.Batch
		n := 0
		batch.Queue(`SELECT 1-$1, $2::text || $2::text, $3::bytea, text, optional, body, bytes, number, nothing
			FROM unnest($4::text[], $5::text[], string_to_array($6::text, chr(31)), $7::bytea[], $8::bigint[], $9::bigint[])
			WITH ORDINALITY AS c(text, optional, body, bytes, number, nothing, n) ORDER BY n`, args...).Query(func(found pgx.Rows) error {
			for ; found.Next(); n++ {
				var (
					less         int
					twice        string
					first, bytes []byte
					text, body   string
					optional     *string
					number       int64
					nothing      *int64
				)
				if err := found.Scan(&less, &twice, &first, &text, &optional, &body, &bytes, &number, &nothing); err != nil {
					return err
				}
				want := rows[n]
				require.Equal(rt, 1-small, less)
				require.Equal(rt, rows[0].text+rows[0].text, twice)
				require.Equal(rt, rows[0].bytes, first)
				require.Equal(rt, want.text, text)
				require.Equal(rt, want.none, optional == nil)
				if optional != nil {
					require.Equal(rt, want.optional, *optional)
				}
				require.Equal(rt, want.body, body)
				require.Equal(rt, want.bytes, bytes)
				require.Equal(rt, want.number, number)
				require.Nil(rt, nothing)
			}
			return found.Err()
		})
		require.NoError(rt, conn.SendBatch(t.Context(), &batch).Close())
		require.Len(rt, rows, n)
	})
}

// TestRowsAreRefused rather than written as something else.
func TestRowsAreRefused(t *testing.T) {
	t.Parallel()
	for _, rows := range [][][]any{
		{{1.5}, {2.5}},
		{{"a"}, {int64(1)}},
		{{int64(1)}, {"a"}},
		{{sqlstore.Body(`{"a":"` + sqlstore.BodySeparator + `"}`)}, {sqlstore.Body(`{}`)}},
		{{sqlstore.Body(`{}`)}, {nil}},
	} {
		_, err := array(rows, 0)
		require.Error(t, err, "%v", rows)
	}
}
