package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
			maybe    = pointer.Draw(rt, "text or none")
			all      = rapid.SliceOfN(text, 1, 5).Draw(rt, "texts")
			optional = rapid.SliceOfN(pointer, 0, 5).Draw(rt, "texts or none")
			bytes    = rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 4).Draw(rt, "bytes")
			long     = rapid.SliceOfN(rapid.Int64(), 0, 4).Draw(rt, "numbers")
			short    = rapid.SliceOfN(rapid.Int32(), 0, 4).Draw(rt, "small numbers")
			flags    = rapid.SliceOfN(rapid.Bool(), 0, 4).Draw(rt, "flags")
			number   = rapid.Int64().Draw(rt, "number")
			small    = rapid.IntRange(-9, 9).Draw(rt, "small")
			joined   texts
		)
		bytes = append(bytes, nil)
		for _, s := range all {
			joined = append(joined, []byte(s))
		}
		statement, err := appendStatement(nil, `SELECT $1::text, $2::text, $3::text[], string_to_array($4::text, chr(31)), $5::text[], $6::bytea[],
			$7::bigint[], $8::integer[], $9::boolean[], $10::bigint, 1-$11, $1::text || $1::text`,
			[]any{one, maybe, all, joined, optional, bytes, long, short, flags, number, small})
		require.NoError(rt, err)
		var (
			oneBack, twice string
			maybeBack      *string
			allBack        []string
			split          []*string
			optionalBack   []*string
			bytesBack      [][]byte
			longBack       []int64
			shortBack      []int32
			flagsBack      []bool
			numberBack     int64
			less           int
		)
		require.NoError(rt, conn.QueryRow(t.Context(), string(statement)).Scan(&oneBack, &maybeBack, &allBack, &split, &optionalBack, &bytesBack,
			&longBack, &shortBack, &flagsBack, &numberBack, &less, &twice), "%s", statement)
		require.Equal(rt, one, oneBack)
		require.Equal(rt, one+one, twice)
		require.Equal(rt, maybe, maybeBack)
		require.Equal(rt, all, allBack)
		if strings.Join(all, bodySeparator) != "" { // which is no document
			require.Len(rt, split, len(all))
			for i := range all {
				require.Equal(rt, all[i], *split[i])
			}
		}
		require.Equal(rt, append([]*string{}, optional...), optionalBack)
		require.Equal(rt, len(bytes), len(bytesBack))
		for i := range bytes {
			require.Equal(rt, bytes[i] == nil, bytesBack[i] == nil)
			require.Equal(rt, string(bytes[i]), string(bytesBack[i]))
		}
		require.Equal(rt, append([]int64{}, long...), longBack)
		require.Equal(rt, append([]int32{}, short...), shortBack)
		require.Equal(rt, append([]bool{}, flags...), flagsBack)
		require.Equal(rt, number, numberBack)
		require.Equal(rt, 1-small, less)
	})
}

// TestStatementsAreRefused rather than sent as something else.
func TestStatementsAreRefused(t *testing.T) {
	t.Parallel()
	for statement, args := range map[string][]any{
		"SELECT $1": {"a\x00b"}, "SELECT $2": {1}, "SELECT $0": {1}, "SELECT $": {1}, "SELECT $1::int": {1.5}, "SELECT $1::text[]": {[]string{"\x00"}},
		"SELECT $1::text": {texts{[]byte("\x00")}},
	} {
		_, err := appendStatement(nil, statement, args)
		require.Error(t, err, statement)
	}
}
