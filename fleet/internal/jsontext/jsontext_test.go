package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for body, want := range map[string]Problem{
		``:                           {Detail: "the body is not valid JSON: it ends too early"},
		`{`:                          {Detail: "the body is not valid JSON: it ends too early"},
		`{} {}`:                      {Detail: "the body is not valid JSON: there is something after the JSON document"},
		"{\"a\":\"\xff\"}":           {Detail: "the body is not valid UTF-8"},
		deep:                         {Detail: "the body is not valid JSON: it is nested deeper than 64"},
		`{"a":{"b":1,"b":2}}`:        {Pointer: "/a/b", Detail: "the key appears twice"},
		`{"a":["x\u0000"]}`:          {Pointer: "/a/0", Detail: `must not contain \u0000`},
		`{"a/~":9007199254740993}`:   {Pointer: "/a~1~0", Detail: "an integer above 2^53 would arrive rounded; send it as a string"},
		`{"a":-9007199254740993}`:    {Pointer: "/a", Detail: "an integer above 2^53 would arrive rounded; send it as a string"},
		`{"a":9007199254740993.0}`:   {Pointer: "/a", Detail: "a number of 2^53 or more would arrive rounded; send it as a string"},
		`{"a":-1e16}`:                {Pointer: "/a", Detail: "a number of 2^53 or more would arrive rounded; send it as a string"},
		`{"a":1e999}`:                {Pointer: "/a", Detail: "the number is too large"},
		`{"a":1e-1000000}`:           {Pointer: "/a", Detail: "the number is too small"},
		`{"a":0e-99999999999999999}`: {Pointer: "/a", Detail: "the number is too small"},
		`{"a":0.` + strings.Repeat("1", 99) + `}`: {Pointer: "/a", Detail: "the number has more than 64 characters; send it as a string"},
		`{"a":99999999999999999999}`:              {Pointer: "/a", Detail: "an integer above 2^53 would arrive rounded; send it as a string"},
	} {
		_, problems := Parse([]byte(body))
		require.Equal(t, []Problem{want}, problems, body)
	}
}

// TestNumbers: a number is written as YAML and JSON encoders write it, and an integer as it was.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"9007199254740992": "9007199254740992", "1.10": "1.1", "2.0": "2", "1e3": "1000", "1E3": "1000", "-0": "0", "-0.0": "0", "0e7": "0",
		"1e-7": "1e-7", "3.14159265358979323846": "3.141592653589793",
	} {
		v, problems := Parse([]byte(number))
		require.Empty(t, problems)
		out, err := Canonical(v)
		require.NoError(t, err)
		require.Equal(t, want, string(out), number)
	}
}

// TestMergePatch runs the test cases of RFC 7396, appendix A.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var target, patch any
		require.NoError(t, json.Unmarshal([]byte(tc[0]), &target))
		require.NoError(t, json.Unmarshal([]byte(tc[1]), &patch))
		got, err := Canonical(MergePatch(target, patch))
		require.NoError(t, err)
		require.JSONEq(t, tc[2], string(got), "%s with %s", tc[0], tc[1])
	}
}

// Canonical writes most values itself, and must write the same as encoding/json.
func TestCanonicalEqualsTheEncoder(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", "\"", "\\", "\u2028<&>", "\xff", "\x7f", "\n"}))
	leaf := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.SampledFrom([]any{nil, json.Number("1.0"), json.Number("-0"), json.RawMessage(`{"b":1,  "a":[]}`), []any(nil), map[string]any(nil), []string{"<"}}),
	)
	value := leaf
	for range 3 {
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.MapOfN(text, value, 0, 4), func(m map[string]any) any { return m }),
			rapid.Map(rapid.SliceOfN(value, 0, 4), func(s []any) any { return s }))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		want, err := encode(v)
		require.NoError(t, err)
		got, err := Canonical(v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// TestDecode reads the same as encoding/json, from the stored form and from formatted text.
func TestDecode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text, err := Canonical(rapid.MapOf(randomKey(), randomJSON(3)).Draw(rt, "object"))
		require.NoError(rt, err)
		var formatted bytes.Buffer
		require.NoError(rt, json.Indent(&formatted, text, " ", "\t"))
		for _, body := range [][]byte{text, formatted.Bytes()} {
			dec := json.NewDecoder(bytes.NewReader(body))
			dec.UseNumber()
			var want map[string]any
			require.NoError(rt, dec.Decode(&want))
			got, _, err := Decode(body)
			require.NoError(rt, err)
			require.Equal(rt, want, got)
		}
	})
}

// TestDecodeNonObject: a manipulated database must not cause a panic.
func TestDecodeNonObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", `"`, `"a`, `{`, `{"a`, `{"a"`, `{"a":`, `[1]`, `{1:2}`, `{"a":1`, `{,}`, `{"\`, `}`, `1`, `{} {}`} {
		_, _, err := Decode([]byte(text))
		require.Error(t, err, text)
	}
}

// TestOpen parses one level of any formatting, and writing restores an equal text.
func TestOpen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text, err := Canonical(rapid.MapOf(randomKey(), randomJSON(3)).Draw(rt, "object"))
		require.NoError(rt, err)
		var formatted bytes.Buffer
		require.NoError(rt, json.Indent(&formatted, text, " ", "\t"))
		for _, body := range [][]byte{text, formatted.Bytes()} {
			v, err := Open(body)
			require.NoError(rt, err)
			for _, field := range v.(map[string]any) {
				require.NotContains(rt, []string{"map[string]interface {}", "[]interface {}"}, fmt.Sprintf("%T", field))
			}
			again, err := Canonical(v)
			require.NoError(rt, err)
			require.JSONEq(rt, string(text), string(again))
		}
		again, err := Open(Text(text))
		require.NoError(rt, err)
		back, err := Canonical(again)
		require.NoError(rt, err)
		require.Equal(rt, string(text), string(back))
	})
	_, err := Open(Text(`{"a":1,"b":[],"a":[]}`))
	require.ErrorContains(t, err, "twice")
}

func randomKey() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "ab", "a.b", `q"q`, `b\s`, "ü", "z{", "[", ",", " s", "", "\u2028", "<&>"})
}

func randomJSON(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "type") {
		case 0:
			return rapid.Bool().Draw(t, "bool")
		case 1:
			return json.Number(fmt.Sprint(rapid.IntRange(-9, 1e9).Draw(t, "number")))
		case 2, 3:
			return rapid.SampledFrom([]string{"", "x", `{"a":[`, `\`, `\"`, `"`, "]},", "ü\u2028", "a,b"}).Draw(t, "string")
		case 4:
			return nil
		case 5:
			return append([]any{}, rapid.SliceOfN(randomJSON(depth-1), 0, 4).Draw(t, "list")...)
		default:
			return rapid.MapOfN(randomKey(), randomJSON(depth-1), 0, 4).Draw(t, "object")
		}
	})
}
