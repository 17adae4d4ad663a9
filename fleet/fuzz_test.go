package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// FuzzPath: whatever path is accepted, Helm accepts, and puts the value at the same place.
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
		ours, problems := expand(api.PatchValues{path: json.RawMessage(`"x"`)})
		require.Empty(t, problems)
		require.Equal(t, "x", at(t, ours, steps))
		helm := map[string]any{}
		require.NoError(t, strvals.ParseInto(path+"=x", helm), "%q", path)
		require.Equal(t, encoded(t, helm), encoded(t, ours), "%q", path)
	})
}

// FuzzTyped: a string gets the type that `helm --set` gives it, when what is syntax there is escaped.
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
		ours, problems := expand(api.PatchValues{"a": raw})
		helm := map[string]any{}
		require.NoError(t, strvals.ParseInto("a="+escape.Replace(value), helm), "%q", value)
		if len(problems) > 0 {
			i, integer := helm["a"].(int64)
			require.True(t, integer && (i > maxSafeInteger || i < -maxSafeInteger), "%q is refused: %v", value, problems)
			return
		}
		require.Equal(t, encoded(t, helm), encoded(t, ours), "%q", value)
	})
}

// FuzzExpand: any patches are refused or become values in which every path leads to its value, and nothing else does;
// the values arrive on the cluster, through YAML, as they are.
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
		obj, err := ParseObject(body)
		if err != nil {
			return
		}
		patches := api.PatchValues{}
		for path, value := range obj {
			if patches[path], err = canonical(value); err != nil {
				t.Fatal(err)
			}
		}
		if vars, problems := substitutions(patches); len(problems) == 0 {
			requireSubstitutable(t, vars)
		}
		values, problems := expand(patches)
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

// requireSubstitutable pastes each variable where Flux's substitution does, unquoted and quoted: YAML reads the same.
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

// FuzzParseJSON: what is accepted is JSON, is the same after it is written canonically, and any body around it that
// has a duplicate key, an integer above 2^53 or too many levels is refused.
func FuzzParseJSON(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `null`, `{"a":[1,-2,3.5,1e3,"x",true,null]}`, `9007199254740992`, `9007199254740993`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\u0000"`, `"\ud800"`,
		`"\ud83d\ude80"`, "\"\xff\"", `1e999`, `-0`, `01`, `{"a":1}x`, strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
		"\ufeff{}", `"\u2028"`, `9007199254740993.0`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := ParseJSON(body)
		if err != nil {
			var domain *Error
			require.ErrorAs(t, err, &domain)
			require.Equal(t, CodeInvalid, domain.Code)
			require.NotEmpty(t, domain.Problems)
			return
		}
		require.True(t, json.Valid(body))
		written, err := canonical(v)
		require.NoError(t, err)
		require.JSONEq(t, string(body), string(written))
		again, err := ParseJSON(written)
		require.NoError(t, err, "%s", written)
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
			_, err := ParseJSON([]byte(bad))
			require.Error(t, err, what)
		}
	})
}

// FuzzMergePatch holds mergePatch against what RFC 7396 promises, for any two JSON values.
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
		target, err := ParseJSON(targetJSON)
		if err != nil {
			return
		}
		patch, err := ParseJSON(patchJSON)
		if err != nil {
			return
		}
		before := encoded(t, target)
		result := mergePatch(target, patch)
		require.Equal(t, before, encoded(t, target), "the target was changed in place")
		require.Equal(t, encoded(t, result), encoded(t, mergePatch(result, patch)), "a second time changes nothing")
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

// FuzzSeed: any seed file is refused with an error made for people, or makes a fleet that answers every poll.
func FuzzSeed(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"clusters":[]}`, `{"clusters":[{"_id":"c","cluster_dns":"c.k","environment":"dev"}]}`,
		`{"namespaces":[{"id":"n"}],"clusters":[{"id":"c","cluster_dns":"c.k","environment":"dev","namespaces":[{"id":"n"}]}]}`,
		`{"components":[{"_id":"p","component_path":"p","oci_url":"oci://r/p","oci_tag":null}],"clusters":[{"id":"c","cluster_dns":"C.K","environment":"dev","platform_components":[{"id":"p","enabled":true}],"patches":{"p":{"A":"1"}}}]}`,
		`{"rolebindings":[{"id":"r","role":"view","subjects":[{"kind":"Group","name":"g"}]}]}`, `{"clusters":{}}`, `{"x":1}`, `[]`, `{"clusters":[null,1,{"id":1}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		seed, err := ParseSeed(body)
		w := newWorld(t)
		var res Result
		if err == nil {
			res, err = w.try(seed.Create)
			err = seed.Locate(err)
		}
		if err != nil {
			var domain *Error
			require.ErrorAs(t, err, &domain)
			require.NotEqual(t, CodeUnresolved, domain.Code)
			return
		}
		for _, doc := range res.State.All(KindCluster) {
			found, ok := res.State.ByDNS(doc.Cluster().ClusterDNS)
			require.True(t, ok)
			for _, r := range []Kind{KindComponent, KindNamespace, KindRoleBinding} {
				answer, err := res.State.Answer(found, r)
				require.NoError(t, err)
				text, err := answer.Body()
				require.NoError(t, err)
				var got struct{ Inputs []struct{ ID string } }
				require.NoError(t, json.Unmarshal(text, &got))
				require.Len(t, got.Inputs, assignedTo(doc, r))
			}
		}
	})
}

func assignedTo(doc *Document, r Kind) int {
	switch r {
	case KindComponent:
		return len(doc.Cluster().PlatformComponents)
	case KindNamespace:
		return len(doc.Cluster().Namespaces)
	case KindRoleBinding:
		return len(doc.Cluster().Rolebindings)
	default:
		return -1
	}
}

// FuzzSelector: any text is refused or selects the same clusters when it is written out and read again.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a=b", "environment=dev,region in (eu,us)", "!x", "id notin (c1)", "a>1", "a==b,", "=", "a in ()", "environment", "\x00", "a=ü"} {
		f.Add(s)
	}
	clusters := []*api.Cluster{
		{ID: "c1", Environment: "dev", Labels: map[string]string{"a": "b", "region": "eu"}},
		{ID: "c2", Environment: "prod", Labels: map[string]string{"environment": "dev", "a": "2"}},
		{ID: "c3"},
	}
	f.Fuzz(func(t *testing.T, text string) {
		sel, err := ParseSelector(text)
		if err != nil {
			var domain *Error
			require.ErrorAs(t, err, &domain)
			require.Equal(t, CodeInvalid, domain.Code)
			return
		}
		again, err := ParseSelector(sel.selector.String())
		require.NoError(t, err, "%q", sel.selector.String())
		for _, c := range clusters {
			require.Equal(t, sel.Matches(c), again.Matches(c), "%q and %q on %s", text, sel.selector.String(), c.ID)
		}
	})
}

// FuzzMatchETag: no header panics; a list matches when one of its members does, and only then.
func FuzzMatchETag(f *testing.F) {
	const etag = `"7-0a1b2c3d"`
	for _, header := range []string{"", "*", etag, "W/" + etag, `"x", ` + etag, `,,` + etag, `"7-0a1b2c3"`, "w/" + etag, `7-0a1b2c3d`, "\x00"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := MatchETag(header, etag)
		require.Equal(t, got, MatchETag(header+`,"other"`, etag))
		require.True(t, MatchETag(header+", W/"+etag, etag))
		if !strings.Contains(header, etag) && !strings.Contains(header, "*") {
			require.False(t, got, "%q", header)
		}
	})
}

// FuzzSecret: what FormatSecret writes is recognised, and with any one character changed it is not.
func FuzzSecret(f *testing.F) {
	f.Add(make([]byte, 32), 5, "x", "frs_")
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 40, "0", FormatSecret([32]byte{}))
	f.Fuzz(func(t *testing.T, seed []byte, at int, char, text string) {
		var random [32]byte
		copy(random[:], seed)
		secret := FormatSecret(random)
		require.True(t, LooksLikeSecret(secret))
		require.Len(t, secret, len(secretPrefix)+secretDigits+checksumDigits)
		i := int(uint(at) % uint(len(secret)))
		if changed := secret[:i] + char + secret[i+1:]; changed != secret && (len(char) == 1 || len(changed) != len(secret)) {
			require.False(t, LooksLikeSecret(changed), "%q was %q", changed, secret)
		}
		if LooksLikeSecret(text) {
			require.Len(t, text, len(secret))
		}
	})
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

// encoded is a value as JSON, which Helm's integers and ours have in common.
func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
