package jsontext

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSorted: the result equals decoding and writing the same text, for any formatting.
func TestSorted(t *testing.T) {
	t.Parallel()
	name := rapid.OneOf(rapid.StringMatching(`[a-c]{0,2}`), rapid.String(), rapid.SampledFrom([]string{"\"", "\\", "\u2028", "<", "\x7f", " "}))
	leaf := rapid.OneOf(rapid.Map(name, func(s string) string {
		text, _ := encode(s)
		return string(text)
	}), rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.50", "1e3", "{}", "[]", `"\u003c"`, `"\/"`, "\"\u2028\"", `{"a":1,"a":2}`, `{"a": 1}`, `[1 ,2]`}))
	var value *rapid.Generator[string]
	value = rapid.Custom(func(rt *rapid.T) string {
		switch rapid.IntRange(0, 3).Draw(rt, "sort") {
		case 0:
			return "[" + joinTexts(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[string] { return value }), 0, 3).Draw(rt, "items")) + "]"
		case 1:
			return anyOrder(rt, rapid.Deferred(func() *rapid.Generator[string] { return value }), name)
		}
		return leaf.Draw(rt, "leaf")
	})
	rapid.Check(t, func(rt *rapid.T) {
		text := anyOrder(rt, value, name)
		require.True(rt, json.Valid([]byte(text)), text)
		obj, _, err := Decode([]byte(text))
		require.NoError(rt, err)
		want, err := Canonical(obj)
		require.NoError(rt, err)
		got, err := Sorted([]byte(text))
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(got), text)
	})
	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":"`, `{"a":1`, `{"a":1,`, `{"a":[1`, `[]`, `"a"`, `{} `, `{}{}`, `{,}`, `{"a":1,}`, `{"a":}`, `{"a":"b}`} {
		want, _, wrong := Decode([]byte(text))
		got, err := Sorted([]byte(text))
		if wrong != nil {
			require.Error(t, err, text)
			continue
		}
		written, err2 := Canonical(want)
		require.NoError(t, err2)
		require.NoError(t, err, text)
		require.Equal(t, string(written), string(got), text)
	}
}

// anyOrder writes an object with its fields in any order.
func anyOrder(rt *rapid.T, value *rapid.Generator[string], name *rapid.Generator[string]) string {
	fields := rapid.MapOfN(name, value, 0, 4).Draw(rt, "fields")
	var texts []string
	for _, k := range rapid.Permutation(slices.Sorted(maps.Keys(fields))).Draw(rt, "order") {
		text, _ := encode(k)
		texts = append(texts, string(text)+":"+fields[k])
	}
	return "{" + joinTexts(texts) + "}"
}

func joinTexts(texts []string) (all string) {
	for i, text := range texts {
		if i > 0 {
			all += ","
		}
		all += text
	}
	return all
}
