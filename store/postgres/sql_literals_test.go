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

// TestLiteralsAreRead: the server reads every text in a document, an id or a reason exactly as it was written.
func TestLiteralsAreRead(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for setting, value := range requiredSettings {
		require.Equal(t, value, conn.PgConn().ParameterStatus(setting))
	}
	hostile := rapid.SampledFrom([]string{
		"", "'", "''", `\`, `\'`, `"`, `{`, `}`, `,`, `{"a",NULL}`, "NULL", "null", "$1", "$2::text", ";", "--", "/*", "E'\\'", "U&'\\0041'", "$$", "$a$",
		"\n", "\t", "\u2028", "\U0001f680", "ü", "\ufeff", "\u00a0", " x ", `\x41`, `\N`, "'; DROP TABLE head; --", "%s", "chr(31)",
	})
	text := rapid.Map(rapid.SliceOfN(hostile, 0, 6), func(parts []string) string { return strings.Join(parts, "") })
	pointer := rapid.Map(rapid.SliceOfN(text, 0, 1), func(s []string) *string {
		if len(s) == 0 {
			return nil
		}
		return &s[0]
	})
	rapid.Check(t, func(rt *rapid.T) {
		var (
			one      = text.Draw(rt, "text")
			all      = rapid.SliceOfN(text, 1, 5).Draw(rt, "texts")
			optional = rapid.SliceOfN(pointer, 1, 5).Draw(rt, "texts or none")
			bytes    = rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 4).Draw(rt, "bytes")
			numbers  = rapid.SliceOfN(rapid.Int64(), 1, 4).Draw(rt, "numbers")
			number   = rapid.Int64().Draw(rt, "number")
			small    = rapid.IntRange(-9, 9).Draw(rt, "small")
		)
		bytes = append(bytes, nil)
		statement, err := appendStatement(nil, `SELECT $1::text, $2::text, $3::text[], string_to_array($4::text, chr(31)), $5::text[], $6::bytea[],
			$7::bigint[], $8::bigint, 1-$9, $1::text || $1::text, $10::bytea, $11::text`,
			[]any{
				one, nil, columnOf(rt, all, func(s string) any { return s }), columnOf(rt, all, func(s string) any { return sqlstore.Body(s) }),
				columnOf(rt, optional, func(s *string) any {
					if s == nil {
						return nil
					}
					return *s
				}),
				columnOf(rt, bytes, func(b []byte) any { return b }), columnOf(rt, numbers, func(n int64) any { return n }), number, small, bytes[0], sqlstore.Body(one),
			})
		require.NoError(rt, err)
		var (
			oneBack, twice string
			none           *string
			allBack        []string
			split          []*string
			optionalBack   []*string
			bytesBack      [][]byte
			numbersBack    []int64
			numberBack     int64
			less           int
			firstBack      []byte
			bodyBack       string
		)
		require.NoError(rt, conn.QueryRow(t.Context(), string(statement)).Scan(&oneBack, &none, &allBack, &split, &optionalBack, &bytesBack,
			&numbersBack, &numberBack, &less, &twice, &firstBack, &bodyBack), "%s", statement)
		require.Equal(rt, one, oneBack)
		require.Equal(rt, one, bodyBack)
		require.Equal(rt, one+one, twice)
		require.Nil(rt, none)
		require.Equal(rt, all, allBack)
		if strings.Join(all, sqlstore.BodySeparator) != "" { // which is no document
			require.Len(rt, split, len(all))
			for i := range all {
				require.Equal(rt, all[i], *split[i])
			}
		}
		require.Equal(rt, optional, optionalBack)
		require.Equal(rt, len(bytes), len(bytesBack))
		for i := range bytes {
			require.Equal(rt, bytes[i] == nil, bytesBack[i] == nil)
			require.Equal(rt, string(bytes[i]), string(bytesBack[i]))
		}
		require.Equal(rt, bytes[0] == nil, firstBack == nil)
		require.Equal(rt, string(bytes[0]), string(firstBack))
		require.Equal(rt, numbers, numbersBack)
		require.Equal(rt, number, numberBack)
		require.Equal(rt, 1-small, less)
	})
}

func columnOf[T any](t require.TestingT, items []T, value func(T) any) literal {
	var c column
	for _, item := range items {
		_, err := c.add(value(item))
		require.NoError(t, err)
	}
	return c.literal()
}

// TestStatementsAreRefused rather than sent as something else.
func TestStatementsAreRefused(t *testing.T) {
	t.Parallel()
	for statement, args := range map[string][]any{
		"SELECT $1": {"a\x00b"}, "SELECT ($1)": {sqlstore.Body("\x00")}, "SELECT $2": {1}, "SELECT $0": {1}, "SELECT $": {1}, "SELECT $1::int": {1.5}, "SELECT $1::text[]": {[]string{"a"}},
	} {
		_, err := appendStatement(nil, statement, args)
		require.Error(t, err, statement)
	}
	for _, value := range []any{"a\x00b", sqlstore.Body("\x00"), sqlstore.Body(`{"a":"` + sqlstore.BodySeparator + `"}`), 1.5} {
		var c column
		_, err := c.add(value)
		require.Error(t, err, "%q", value)
	}
}
