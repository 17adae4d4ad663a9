package jsontext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseJSON: accepted text is JSON and survives canonical writing; any body around it that has a duplicate key, an
// integer above 2^53 or too many levels is refused.
func FuzzParseJSON(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `null`, `{"a":[1,-2,3.5,1e3,"x",true,null]}`, `9007199254740992`, `9007199254740993`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\u0000"`, `"\ud800"`,
		`"\ud83d\ude80"`, "\"\xff\"", `1e999`, `-0`, `01`, `{"a":1}x`, strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
		"\ufeff{}", `"\u2028"`, `9007199254740993.0`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, problems := Parse(body)
		if len(problems) > 0 {
			require.Nil(t, v)
			return
		}
		require.True(t, json.Valid(body))
		written, err := Canonical(v)
		require.NoError(t, err)
		require.JSONEq(t, string(body), string(written))
		again, problems := Parse(written)
		require.Empty(t, problems, "%s", written)
		require.Equal(t, v, again)
		for what, bad := range map[string]string{
			"a duplicate key":   `{"k":` + string(body) + `,"\u006b":` + string(body) + `}`,
			"a large integer":   `[` + string(body) + `,9007199254740993]`,
			"too deep":          strings.Repeat("[", maxDepth) + string(body) + strings.Repeat("]", maxDepth),
			"\\u0000":           `[` + string(body) + `,"\u0000"]`,
			"something after":   string(body) + " 1",
			"half of a pair":    `[` + string(body) + `,"\udc00"]`,
			"not UTF-8":         `[` + string(body) + ",\"\xc0\xaf\"]",
			"it ends too early": `[` + string(body),
		} {
			_, problems := Parse([]byte(bad))
			require.NotEmpty(t, problems, what)
		}
	})
}

// FuzzMergePatch checks MergePatch against the definition in RFC 7396, for any two JSON values.
func FuzzMergePatch(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":"b"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"a":null}`},
		{`{"a":["b"]}`, `{"a":"c"}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`},
		{`["a"]`, `["b"]`},
		{`{"a":"b"}`, `null`},
		{`{"e":null}`, `{"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, targetJSON, patchJSON []byte) {
		target, problems := Parse(targetJSON)
		if len(problems) > 0 {
			return
		}
		patch, problems := Parse(patchJSON)
		if len(problems) > 0 {
			return
		}
		before := encoded(t, target)
		result := MergePatch(target, patch)
		require.Equal(t, before, encoded(t, target), "the target was changed in place")
		require.Equal(t, encoded(t, result), encoded(t, MergePatch(result, patch)), "a second time changes nothing")
		requireMerged(t, target, patch, result)
	})
}

func requireMerged(t *testing.T, target, patch, result any) {
	t.Helper()
	p, ok := patch.(map[string]any)
	if !ok {
		require.Equal(t, patch, result)
		return
	}
	before, _ := target.(map[string]any)
	after, ok := result.(map[string]any)
	require.True(t, ok, "a patch that is an object makes an object")
	for key, value := range before {
		if _, mentioned := p[key]; !mentioned {
			require.Contains(t, after, key)
			require.Equal(t, value, after[key])
		}
	}
	for key := range after {
		_, was := before[key]
		_, mentioned := p[key]
		require.True(t, was || mentioned, "%q is from nowhere", key)
	}
	for key, value := range p {
		if value == nil {
			require.NotContains(t, after, key)
			continue
		}
		require.Contains(t, after, key)
		requireMerged(t, before[key], value, after[key])
	}
}

// encoded returns a value as JSON, in which Helm's integers and ours are equal.
func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
