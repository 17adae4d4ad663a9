package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSetFieldsIsWhatDecodingAndEncodingWouldDo, in the form that is stored and in one that somebody formatted.
func TestSetFieldsIsWhatDecodingAndEncodingWouldDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		object := rapid.MapOf(randomKey(), randomJSON(3)).Draw(rt, "object")
		change := rapid.MapOfN(randomKey(), randomJSON(2), 0, 3).Draw(rt, "change")
		text, err := canonical(object)
		require.NoError(rt, err)
		fields := map[string]json.RawMessage{}
		for k, v := range change {
			if v == nil {
				fields[k] = nil
				delete(object, k)
				continue
			}
			fields[k], err = canonical(v)
			require.NoError(rt, err)
			object[k] = v
		}
		want, err := canonical(object)
		require.NoError(rt, err)
		got, err := setFields(text, fields)
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(got))

		var formatted bytes.Buffer
		require.NoError(rt, json.Indent(&formatted, text, " ", "\t"))
		got, err = setFields(formatted.Bytes(), fields)
		require.NoError(rt, err)
		require.JSONEq(rt, string(want), string(got))
	})
}

func TestElementsAreTheEntriesOfAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOf(randomJSON(3)).Draw(rt, "list")
		text, err := canonical(append([]any{}, items...))
		require.NoError(rt, err)
		cut := elements(text)
		require.Len(rt, cut, len(items))
		for i, item := range items {
			want, err := canonical(item)
			require.NoError(rt, err)
			require.Equal(rt, string(want), string(cut[i]))
		}
		require.Equal(rt, string(text), string(listOf(cut)))
	})
}

// TestSplicingTextThatIsNoObject must not panic, whatever somebody wrote into the database.
func TestSplicingTextThatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "null", `"`, `"a`, `{`, `{"a`, `{"a"`, `{"a":`, `[1]`, `{1:2}`, `{"a":1`, `{,}`, `{"\`, `}`, `{"\ud800x":1}`} {
		_, _ = setFields([]byte(text), map[string]json.RawMessage{"b": json.RawMessage("1")})
		_, _ = field([]byte(text), "a")
		_ = elements([]byte(text))
	}
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
