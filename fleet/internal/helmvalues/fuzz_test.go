package helmvalues

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// FuzzPath: Helm accepts every accepted path, and puts the value at the same place.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"a", "ui.color", "hosts[0].name", `nodeSelector.kubernetes\.io/os`, "m[1][0]", "a[65536]", "a..b", "[0]", "a[0]b", `a\`,
		"ü.漢字", "a\x00b", "\xff", `a\[0]`, "a[00]", "a[0].[1]", strings.Repeat("a.", 40),
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := parsePath(path)
		if err != nil {
			return
		}
		slots := 0
		for _, s := range steps {
			slots += max(0, s.index)
		}
		if slots > 4096 {
			return // Helm takes long over lists of that length
		}
		ours, problems := Expand(map[string]json.RawMessage{path: json.RawMessage(`"x"`)})
		require.Empty(t, problems)
		require.Equal(t, "x", at(t, ours, steps))
		helm := map[string]any{}
		require.NoError(t, strvals.ParseInto(path+"=x", helm), "%q", path)
		require.Equal(t, encoded(t, helm), encoded(t, ours), "%q", path)
	})
}

// FuzzTyped: a string gets the type that `helm --set` gives it, if its syntax characters are escaped.
func FuzzTyped(f *testing.F) {
	for _, value := range []string{
		"", "x", "true", "False", "null", "0", "00", "-0", "+5", "12", "-7", "0x1", "1e3", "1.5", "9007199254740992", "9007199254740993",
		"99999999999999999999", "a,b={c}", `back\slash`, `"3"`, "'", "two\nlines", "{", "\x7f", "１", " 1", "1_000",
	} {
		f.Add(value)
	}
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`, "{", `\{`, "}", `\}`, "=", `\=`)
	f.Fuzz(func(t *testing.T, value string) {
		if !utf8.ValidString(value) || value == "" {
			return // never reaches typed; Helm drops an empty value in places where ours arrives
		}
		if _, quoted := unquote(value); quoted {
			return // Flux's rule, not Helm's
		}
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		ours, problems := Expand(map[string]json.RawMessage{"a": raw})
		helm := map[string]any{}
		require.NoError(t, strvals.ParseInto("a="+escape.Replace(value), helm), "%q", value)
		if len(problems) > 0 {
			i, integer := helm["a"].(int64)
			require.True(t, integer && (i > jsontext.MaxSafeInteger || i < -jsontext.MaxSafeInteger), "%q is refused: %v", value, problems)
			return
		}
		require.Equal(t, encoded(t, helm), encoded(t, ours), "%q", value)
	})
}

// FuzzExpand: patches are refused, or become values in which every path leads to its value and no other value exists; the
// values survive YAML unchanged.
func FuzzExpand(f *testing.F) {
	for _, patches := range []string{
		`{}`, `{"ui.color":"red","ui.message":"hi","replicaCount":"2"}`, `{"hosts[0].name":"a","hosts[2].port":80}`, `{"a":{"b":[1,null,"x"]}}`,
		`{"ui":"x","ui.color":"y"}`, `{"a[0]":"x","a[00]":"y"}`, `{"a":"9007199254740993"}`, `{"a":1.50,"b":1e3,"c":true}`, `{"a":"\"3\""}`,
		`{"a":"x: y\n- z","b":"<< inputs.id >>","c":"{{ .Values }}","d":"*&!|>%@"}`, `{"a\\.b":"\u2028"}`, `{"a[65536]":1,"b[65536]":1}`,
		`{"A":"x #y"}`, `{"A":"x: y"}`, `{"A":"- x"}`, `{"A":"*x"}`, `{"A":"x\"y"}`, `{"A":" x"}`, `{"A":"--- x"}`, `{"A":"on","B":"1e3","_c":"a/b?d=1"}`,
	} {
		f.Add([]byte(patches))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parsed, problems := jsontext.Parse(body)
		obj, ok := parsed.(map[string]any)
		if !ok || len(problems) > 0 {
			return
		}
		patches := map[string]json.RawMessage{}
		for path, value := range obj {
			var err error
			patches[path], err = jsontext.Canonical(value)
			require.NoError(t, err)
		}
		if vars, problems := Substitutions(patches); len(problems) == 0 {
			requireSubstitutable(t, vars)
		}
		values, problems := Expand(patches)
		if len(problems) > 0 {
			return
		}
		for path, raw := range patches {
			steps, err := parsePath(path)
			require.NoError(t, err)
			want, err := typed(raw)
			require.NoError(t, err)
			require.Equal(t, encoded(t, want), encoded(t, at(t, values, steps)), "%q", path)
		}
		text := encoded(t, values)
		asYAML, err := yaml.JSONToYAML([]byte(text))
		require.NoError(t, err)
		back, err := yaml.YAMLToJSON(asYAML)
		require.NoError(t, err)
		require.JSONEq(t, text, string(back))
	})
}

// requireSubstitutable inserts each variable where Flux's substitution does, unquoted and quoted: YAML reads the same.
func requireSubstitutable(t *testing.T, vars map[string]string) {
	t.Helper()
	for name, value := range vars {
		var quoted, plain map[string]any
		require.NoError(t, yaml.Unmarshal([]byte("a: \""+value+"\"\nb: 1\n"), &quoted), "%s %q", name, value)
		require.Equal(t, map[string]any{"a": value, "b": 1.0}, quoted)
		require.NoError(t, yaml.Unmarshal([]byte("a: "+value+"\nb: 1\n"), &plain), "%s %q", name, value)
		require.Len(t, plain, 2, "%s %q", name, value)
		require.NotContains(t, []string{"map[string]interface {}", "[]interface {}"}, typeName(plain["a"]), "%s %q", name, value)
		if s, ok := plain["a"].(string); ok && !strings.ContainsRune(value, ':') { // 12:30:45 is a number in old YAML
			require.Equal(t, value, s)
		}
	}
}

func typeName(v any) string {
	switch v.(type) {
	case map[string]any:
		return "map[string]interface {}"
	case []any:
		return "[]interface {}"
	}
	return "scalar"
}

// at follows the steps of a path into expanded values.
func at(t *testing.T, v any, steps []step) any {
	t.Helper()
	for _, s := range steps {
		if s.isIndex() {
			items, ok := v.([]any)
			require.True(t, ok && s.index < len(items))
			v = items[s.index]
			continue
		}
		m, ok := v.(map[string]any)
		require.True(t, ok)
		require.Contains(t, m, s.name)
		v = m[s.name]
	}
	return v
}

// encoded returns a value as JSON, in which Helm's integers and ours are equal.
func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
