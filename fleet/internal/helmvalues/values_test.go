package helmvalues

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/strvals"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func patchesOf(t require.TestingT, doc string) map[string]json.RawMessage {
	var p map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(doc), &p))
	return p
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ patches, values string }{
		"nothing":                      {`{}`, `{}`},
		"nested":                       {`{"ui.color":"#2f855a","ui.message":"hi","replicaCount":"2"}`, `{"ui":{"color":"#2f855a","message":"hi"},"replicaCount":2}`},
		"strings are typed":            {`{"a":"true","b":"FALSE","c":"null","d":"0","e":"12","f":"-3","g":"007","h":"1e3","i":"1.5","j":"","k":"yes"}`, `{"a":true,"b":false,"c":null,"d":0,"e":12,"f":-3,"g":"007","h":"1e3","i":"1.5","j":"","k":"yes"}`},
		"quotes inside keep a string":  {`{"a":"\"3\"","b":"'true'","c":"\"null\"","d":"\"","e":"\"a'"}`, `{"a":"3","b":"true","c":"null","d":"\"","e":"\"a'"}`},
		"syntax in a value is data":    {`{"a":"x,y=z","b":"{1,2}","c":"a\nb","d":"[0]","e":"a.b","f":"\\n"}`, `{"a":"x,y=z","b":"{1,2}","c":"a\nb","d":"[0]","e":"a.b","f":"\\n"}`},
		"other types pass":             {`{"a":3,"b":1.50,"c":true,"d":["x",{"y":null}],"e":{"f.g":1}}`, `{"a":3,"b":1.50,"c":true,"d":["x",{"y":null}],"e":{"f.g":1}}`},
		"lists":                        {`{"hosts[0].name":"a","hosts[1].name":"b","hosts[1].port":"80","m[1][0]":"x"}`, `{"hosts":[{"name":"a"},{"name":"b","port":80}],"m":[null,["x"]]}`},
		"a gap in a list is null":      {`{"a[2]":"x"}`, `{"a":[null,null,"x"]}`},
		"escaped characters in a name": {`{"nodeSelector.kubernetes\\.io/os":"linux","a\\,b":"1","c\\=d":"2","e\\[0]":"3"}`, `{"nodeSelector":{"kubernetes.io/os":"linux"},"a,b":1,"c=d":2,"e[0]":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, problems := Expand(patchesOf(t, tc.patches))
			require.Empty(t, problems)
			got, err := json.Marshal(values)
			require.NoError(t, err)
			require.JSONEq(t, tc.values, string(got))
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	for patches, want := range map[string]string{
		`{"":"x"}`:                  "must not be empty",
		`{"a..b":"x"}`:              "must not be empty",
		`{".a":"x"}`:                "must not be empty",
		`{"a.":"x"}`:                "must not end with a dot",
		`{"a[0].":"x"}`:             "must not be empty",
		`{"[0]":"x"}`:               "must not be empty",
		`{"a\\":"x"}`:               "must not end with a backslash",
		`{"a,b":"x"}`:               "needs a backslash",
		`{"a=b":"x"}`:               "needs a backslash",
		`{"a[":"x"}`:                "closing bracket",
		`{"a[]":"x"}`:               "is not a list index",
		`{"a[x]":"x"}`:              "is not a list index",
		`{"a[-1]":"x"}`:             "is not a list index",
		`{"a[+1]":"x"}`:             "is not a list index",
		`{"a[65537]":"x"}`:          "at most 65536",
		`{"a[0]b":"x"}`:             "after a list index",
		`{"a\nb":"x"}`:              "control characters",
		`{"a":null}`:                "null is not a value",
		`{"a":"9007199254740993"}`:  "above 2^53",
		`{"ui":"x","ui.color":"y"}`: `contradicts the path "ui"`,
		`{"a[0]":"x","a.b":"y"}`:    "contradicts",
		`{"a[0]":"x","a[00]":"y"}`:  "contradicts",
		`{"a.b":"x","a.b.c":"y"}`:   "contradicts",
		`{"a":{"b":1},"a.c":"y"}`:   "contradicts",
		`{"` + strings.Repeat("a.", 30) + `a":"x"}`: "at most 30 names",
	} {
		_, problems := Expand(patchesOf(t, patches))
		require.Len(t, problems, 1, patches)
		require.Contains(t, problems[0].Detail, want, patches)
	}
}

// TestExpandAgreesWithHelm compares expand with Helm's own parser, for paths and values that mean the same to both: values
// without the syntax that only `helm --set` interprets.
func TestExpandAgreesWithHelm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9_/ -]{1,6}(\\[.,=\[\]][a-z]{0,3})?`)
		var path strings.Builder
		for i := range rapid.IntRange(1, 4).Draw(t, "names") {
			if i > 0 {
				path.WriteByte('.')
			}
			path.WriteString(name.Draw(t, "name"))
			for range rapid.IntRange(0, 2).Draw(t, "indices") {
				fmt.Fprintf(&path, "[%d]", rapid.IntRange(0, 4).Draw(t, "index"))
			}
		}
		value := rapid.OneOf(
			rapid.SampledFrom([]string{"true", "False", "null", "NULL", "0", "00", "-0", "+5", "12", "-7", "0x1", "1e3", "1.5", "yes", "~"}),
			rapid.StringMatching(`[a-zA-Z0-9 .:/#_-]{1,8}`), // Helm drops an empty value below a list; ours keeps it
		).Draw(t, "value")

		helm := map[string]any{}
		require.NoError(t, strvals.ParseInto(path.String()+"="+value, helm))
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		ours, problems := Expand(map[string]json.RawMessage{path.String(): raw})
		require.Empty(t, problems)
		want, err := json.Marshal(helm)
		require.NoError(t, err)
		got, err := json.Marshal(ours)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	})
}

func TestSubstitutions(t *testing.T) {
	t.Parallel()
	vars, problems := Substitutions(patchesOf(t, `{"A":"x","b_1":3,"_c":true,"d":"-1","e":"a:b","f":"a-b #c"}`))
	require.Len(t, problems, 1, "a space before # starts a comment")
	require.Nil(t, vars)
	vars, problems = Substitutions(patchesOf(t, `{"A":"x","b_1":3,"_c":true,"d":"-1","e":"a:b","f":"","g":"https://x/y?z=1"}`))
	require.Empty(t, problems)
	require.Equal(t, map[string]string{"A": "x", "b_1": "3", "_c": "true", "d": "-1", "e": "a:b", "f": "", "g": "https://x/y?z=1"}, vars)

	for patches, want := range map[string]string{
		`{"a.b":"x"}`:  "substitution variables",
		`{"1a":"x"}`:   "substitution variables",
		`{"a":{}}`:     "strings, numbers or booleans",
		`{"a":null}`:   "null is not a value",
		`{"a":"x\ny"}`: "one line",
		`{"a":"a\"b"}`: "quotes",
		`{"a":"$b"}`:   "$",
		`{"a":"a: b"}`: "mapping",
		`{"a":"a:"}`:   "mapping",
		`{"a":"*x"}`:   "means something in YAML",
		`{"a":"- x"}`:  "means something in YAML",
		`{"a":" x"}`:   "space",
		`{"a":"---"}`:  "mean something in YAML",
		`{"a":"null"}`: "no value",
		`{"a":"Null"}`: "no value",
		`{"a":"~"}`:    "no value",
	} {
		_, problems := Substitutions(patchesOf(t, patches))
		require.Len(t, problems, 1, patches)
		require.Contains(t, problems[0].Detail, want, patches)
	}
}

// TestMisread: Misread knows exactly the texts that YAML, as Flux reads it, makes another text of.
func TestMisread(t *testing.T) {
	t.Parallel()
	for text := range strings.FieldsSeq(`a yes no on off y n Y N Yes NO True TRUE false true null2 0 1 -1 +1 10 007 0777 08 0x1F 0x1G 0o17 0b11 1_000 1.5 1.10 1.0 0.5 .5 5. -0 -0.0 1e3 1E3 1e+3 1.5e-7
		012345678901 12345678901 9223372036854775807 18446744073709551616 1.2.3 v1 1h 10Gi .inf -.Inf .nan .NaN inf nan 1-2 1:30 2001-01-01 0.1 100000000000000000000.5 0.30000000000000004 1e308 _1 __ +.5 -.5 +`) {
		var read string
		if plain, err := yaml.YAMLToJSON([]byte("a: " + text)); err == nil {
			read = strings.Trim(string(patchesOf(t, string(plain))["a"]), `"`)
		} else {
			read = err.Error() // a number that JSON does not have
		}
		require.Equal(t, read != text, Misread(text), "%q is read as %s", text, read)
	}
	require.True(t, Misread(""))
}

// TestBoundOfOddPatches covers patches whose nested form is much larger than the patches.
func TestBoundOfOddPatches(t *testing.T) {
	t.Parallel()
	type patches = map[string]json.RawMessage
	deep, texts, quoted, lists := patches{}, patches{}, patches{}, patches{}
	for i := range 300 {
		deep[fmt.Sprintf("n%d%s", i, strings.Repeat(".a", maxPathDepth-1))] = json.RawMessage(`1`)
		texts[fmt.Sprintf("t%d", i)] = json.RawMessage(`"` + strings.Repeat("\u2028", 50) + `"`)
		quoted[fmt.Sprintf("%s%d", strings.Repeat(`\.`, 30), i)] = json.RawMessage(`"\"7\""`)
		lists[fmt.Sprintf("l%d[100]", i)] = json.RawMessage(`true`)
	}
	for name, set := range map[string]patches{"none": {}, "deep": deep, "texts": texts, "quoted": quoted, "lists": lists} {
		values, problems := Expand(set)
		require.Empty(t, problems, name)
		require.GreaterOrEqual(t, Bound(set), encodedSize(t, set)+encodedSize(t, values), name)
	}
	vars := patches{}
	for i := range 300 {
		vars[fmt.Sprintf("V%d", i)] = json.RawMessage(`1`)
	}
	substituted, problems := Substitutions(vars)
	require.Empty(t, problems)
	require.GreaterOrEqual(t, Bound(vars), encodedSize(t, vars)+encodedSize(t, substituted))
}

func encodedSize(t *testing.T, v any) int { return len(encoded(t, v)) }
