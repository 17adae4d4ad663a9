package versions

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

const helmIndex = `apiVersion: v1
entries:
  other:
  - apiVersion: v2
    version: 9.9.9
  podinfo:
  - apiVersion: v1
    annotations:
      artifacthub.io/changes: |
        - kind: changed
          version: 0.0.1
        # no comment
      version: 0.0.2
    appVersion: 6.5.1
    created: "2026-03-04T05:06:07.123456789Z"
    description: Podinfo Helm chart for
      Kubernetes
    digest: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    maintainers:
    - email: stefanprodan@users.noreply.github.com
      name: stefanprodan
    name: podinfo
    urls:
    - https://example.com/podinfo-6.5.1.tgz
    version: 6.5.1

  - created: 2026-03-03T05:06:07Z # plain
    version: '6.10.0+build'
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  - version: 1.10
  - name: podinfo
generated: "2026-03-04T05:06:08Z"
`

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// collected returns the versions that the reader finds of the chart podinfo; "invalid" is an entry that cannot be read.
func collected(text string) (out []entry, invalid int, err error) {
	one := &chart{}
	one.add = func(e *entry) bool {
		if e == nil {
			invalid++
		} else {
			out = append(out, *e)
		}
		return true
	}
	err = readIndex(strings.NewReader(text), map[string]*chart{"podinfo": one})
	return out, invalid, err
}

// TestReadIndex: the styles that servers of charts write.
func TestReadIndex(t *testing.T) {
	t.Parallel()
	want := []entry{
		{"6.5.1", "2026-03-04T05:06:07.123456789Z", someDigest[7:]},
		{"6.10.0+build", "2026-03-03T05:06:07Z", someDigest},
		{"1.10", "", ""},
		{"", "", ""},
	}
	indented := strings.ReplaceAll(helmIndex, "\n    ", "\n      ")
	indented = strings.ReplaceAll(indented, "\n  - ", "\n    - ")
	var parsed any
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(helmIndex, "version: 1.10", `version: "1.10"`, 1)), &parsed))
	asJSON, err := json.Marshal(parsed)
	require.NoError(t, err)
	pretty, err := json.MarshalIndent(parsed, " ", "\t")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"of helm":         helmIndex,
		"indented lists":  indented,
		"windows":         strings.ReplaceAll(helmIndex, "\n", "\r\n"),
		"byte order mark": "\xef\xbb\xbf" + helmIndex,
		"document start":  "# comment\n---\n" + helmIndex,
		"quoted keys":     strings.NewReplacer("podinfo:", `"podinfo":`, "version:", `'version':`, "entries:", `"entries":`).Replace(helmIndex),
		"comments":        strings.NewReplacer("  podinfo:\n", "      # a comment\n  podinfo: # the chart\n # another\n", "entries:\n", "entries: # all\n    # x\n").Replace(helmIndex),
		"dash alone":      strings.ReplaceAll(helmIndex, "  - version: 1.10", "  -\n    version: 1.10"),
		"flow entry":      strings.ReplaceAll(helmIndex, "  - version: 1.10", "  - {version: 1.10, urls: [\n     x]}"),
		"anchor":          strings.ReplaceAll(helmIndex, "  - version: 1.10", "  - &one\n    version: 1.10"),
		"folded version":  strings.ReplaceAll(helmIndex, "version: 1.10", "version: >-\n      1.10"),
		"escapes":         strings.ReplaceAll(helmIndex, "version: 1.10", `version: "\x31.10"`),
		"no end of line":  strings.TrimSuffix(helmIndex, "\n"),
		"JSON":            string(asJSON),
		"indented JSON":   string(pretty),
		"entries last":    strings.Replace(helmIndex, "entries:", "a: {}\nb:\n- x: 1\n  entries: no\nentries:", 1),
		"long lines":      strings.ReplaceAll(helmIndex, "Podinfo Helm", strings.Repeat("Podinfo", 100_000)),
	} {
		got, invalid, err := collected(text)
		require.NoError(t, err, name)
		require.Zero(t, invalid, name)
		require.Equal(t, want, got, name)
	}
	for name, text := range map[string]string{
		"no version": "entries: {}\n", "null": "entries:\n", "tilde": "entries: ~\napiVersion: v1\n", "chart without versions": "entries:\n  podinfo: []\n",
		"null chart": "entries:\n  podinfo:\n", "JSON": `{"entries":{"podinfo":[]}}`, "JSON null": `{"entries":null}`, "JSON null chart": `{"entries":{"podinfo":null}}`,
	} {
		got, invalid, err := collected(text)
		require.NoError(t, err, name)
		require.Zero(t, invalid, name)
		require.Empty(t, got, name)
	}
}

// TestBadIndex: what is not an index, and styles that the reader does not support, are errors without text of the index.
func TestBadIndex(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "spaces": " \n\t\n", "html": "<!DOCTYPE html>\n<html>SECRET", "text": "SECRET", "a list": "- SECRET\n", "other YAML": "apiVersion: v1\nkind: SECRET\n",
		"flow entries": "entries: {podinfo: [{version: SECRET}]}\n", "flow chart": "entries:\n  podinfo: [{version: SECRET}]\n", "alias chart": "entries:\n  podinfo: *SECRET\n",
		"list of entries": "entries:\n- podinfo\n- SECRET\n", "indented list of entries": "entries:\n  - podinfo:\n    - version: SECRET\n", "scalar chart": "entries:\n  podinfo:\n    SECRET\n",
		"twice": "entries:\n  podinfo:\n  - version: SECRET\n  podinfo:\n  - version: 2.0.0\n", "entries twice": "entries:\n  a:\nentries:\n  podinfo:\n", "two documents": "entries:\n  a:\n---\nentries:\n",
		"dedented": "entries:\n    podinfo:\n    - version: SECRET\n  x: y\n", "tab": "entries:\n\tpodinfo:\n", "alias key": "entries:\n  ? SECRET\n",
		"JSON not closed": `{"entries":{"podinfo":[{"version":"SECRET"`, "JSON list": `{"entries":[]}`, "JSON map chart": `{"entries":{"podinfo":{}}}`, "JSON without entries": `{"a":"SECRET"}`,
		"JSON twice": `{"entries":{"podinfo":[],"podinfo":[]}}`, "JSON entries twice": `{"entries":{},"entries":{}}`, "flow YAML": "{entries: {podinfo: []}}",
		"JSON deep": `{"a":` + strings.Repeat("[", 1_000_000), "JSON deep entry": `{"entries":{"podinfo":[` + strings.Repeat(`{"x":`, 1_000_000), "JSON long text": `{"a":"` + strings.Repeat("x", 8<<20) + `"}`,
	} {
		_, _, err := collected(text)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "SECRET", name)
	}
	for name, text := range map[string]string{
		"a scalar": "entries:\n  podinfo:\n  - x\n", "an alias": "entries:\n  podinfo:\n  - *x\n", "version alias": "entries:\n  podinfo:\n  - version: *x\n", "a list": "entries:\n  podinfo:\n  - version: [1]\n",
		"too long": "entries:\n  podinfo:\n  - version: >\n" + strings.Repeat("      x\n", 20_000), "twice": "entries:\n  podinfo:\n  - version: 1\n    version: 2\n",
		"bomb": "entries:\n  podinfo:\n  - {a: &a [1,1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c], version: *d}\n",
		"deep": "entries:\n  podinfo:\n  - {a: " + strings.Repeat("[", 30_000) + "}\n", "dedented key": "entries:\n  podinfo:\n  -   version: 1\n    x: y\n",
		"JSON number": `{"entries":{"podinfo":[{"version":1}]}}`, "JSON text": `{"entries":{"podinfo":["1.0.0"]}}`,
	} {
		got, invalid, err := collected(text)
		require.NoError(t, err, name)
		require.Empty(t, got, name)
		require.Equal(t, 1, invalid, name)
	}
}

// TestIndexProperty: for any index, in YAML and in JSON, the reader finds what the library for YAML finds.
func TestIndexProperty(t *testing.T) {
	t.Parallel()
	// Three characters end a line in YAML 1.1 only. Helm's library writes them in a way that the reader refuses.
	text := rapid.OneOf(rapid.StringN(0, 20, -1).Filter(func(s string) bool { return !strings.ContainsAny(s, "\u0085\u2028\u2029") }), rapid.SampledFrom([]string{"1.0.0", "1.10", "- x", "a: b", "# no", "x\ny", " x", "|", "null", "true", "2026-01-02", "0x10", "'", "\"", "podinfo:", "version: 1", "\n", "---", "..."}))
	value := rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(text.AsAny(), rapid.Just(any(nil)), rapid.SliceOfN(text, 0, 3).AsAny(), rapid.MapOfN(text, text, 0, 3).AsAny())
	})
	version := rapid.Custom(func(t *rapid.T) map[string]any {
		out := rapid.MapOfN(rapid.SampledFrom([]string{"name", "urls", "description", "annotations", "maintainers", "a b", "x:y"}), value, 0, 4).Draw(t, "fields")
		for _, key := range []string{"version", "created", "digest"} {
			if rapid.Bool().Draw(t, key) {
				out[key] = text.Draw(t, key)
			}
		}
		return out
	})
	rapid.Check(t, func(t *rapid.T) {
		charts := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "podinfo", "podinfo-x", "z"}), 0, 4, rapid.ID[string]).Draw(t, "charts") {
			charts[name] = rapid.SliceOfN(version, 0, 4).Draw(t, name)
		}
		index := map[string]any{"apiVersion": "v1", "entries": charts, "generated": text.Draw(t, "generated")}
		asYAML, err := yaml.Marshal(index)
		if err != nil {
			t.Skip("not text of YAML")
		}
		asJSON, err := json.Marshal(index)
		require.NoError(t, err)
		var want struct{ Entries map[string][]entry }
		if yaml.Unmarshal(asYAML, &want) != nil {
			t.Skip("the library does not read what it wrote")
		}
		for _, text := range []string{string(asYAML), string(asJSON)} {
			got, invalid, err := collected(text)
			require.NoError(t, err, "%s", text)
			require.Zero(t, invalid, "%s", text)
			require.Equal(t, append([]entry{}, want.Entries["podinfo"]...), append([]entry{}, got...), "%s", text)
		}
	})
}

// helmRepository serves an index, compressed if a request permits it.
func helmRepository(t *testing.T, text func() string) *server {
	t.Helper()
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		body := []byte(text())
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(body)))
		switch {
		case r.URL.Path != "/charts/index.yaml":
			w.WriteHeader(http.StatusNotFound)
			return
		case r.Header.Get("If-None-Match") == w.Header().Get("ETag"):
			w.WriteHeader(http.StatusNotModified)
			return
		case r.Header.Get("Accept-Encoding") == "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(body)
			_ = z.Close()
			body = packed.Bytes()
		}
		_, _ = w.Write(body)
	})
}

// TestIndexScan: one request for all charts of a repository, none for the body of an index that has not changed.
func TestIndexScan(t *testing.T) {
	t.Parallel()
	text := helmIndex
	r := helmRepository(t, func() string { return text })
	s := newScanner(t, []*server{r})
	podinfo := Source{Kind: Index, URL: r.URL + "/charts/", Path: "podinfo", Wants: func(v string) bool { return v != "1.10" }}
	other := Source{Kind: Index, URL: r.URL + "/charts", Path: "other", Track: []string{"9.9.9"}}
	missing := Source{Kind: Index, URL: r.URL + "/charts", Path: "missing", Wants: every}
	got := scanAll(t, s, podinfo, other, missing)
	require.Equal(t, 1, r.count(""))
	require.Nil(t, got[0].Err)
	require.Equal(t, []Version{
		{"6.10.0+build", "", someDigest, time.Date(2026, 3, 3, 5, 6, 7, 0, time.UTC)},
		{"6.5.1", "", someDigest, time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)},
	}, got[0].Versions)
	require.Equal(t, 3, got[0].Listed)
	require.Equal(t, 1, got[0].Invalid, "an entry without a version")
	require.Equal(t, []string{"9.9.9"}, names(got[1].Versions))
	require.Equal(t, NotFound, got[2].Err.Class)
	require.Equal(t, []string{"6.10.0+build", "6.5.1"}, got[0].Present)
	require.Nil(t, got[2].Present)

	podinfo.Validator, other.Validator = got[0].Validator, got[1].Validator
	require.NotEmpty(t, podinfo.Validator)
	again := scanAll(t, s, podinfo, other)
	for _, r := range again {
		require.Equal(t, Result{NotModified: true, Validator: podinfo.Validator}, r)
	}
	other.Validator = ""
	again = scanAll(t, s, podinfo, other)
	require.False(t, again[0].NotModified, "another chart needs the index")
	require.Equal(t, got[0].Versions, again[0].Versions)

	text += "# changed\n"
	changed := scanOne(t, s, podinfo)
	require.False(t, changed.NotModified)
	require.NotEqual(t, podinfo.Validator, changed.Validator)
}

// TestIndexLimits: more versions than one chart may have are not read, and the result reports it.
func TestIndexLimits(t *testing.T) {
	t.Parallel()
	text := "entries:\n  podinfo:\n"
	for i := range 30 {
		text += fmt.Sprintf("  - version: 1.0.%d\n", i)
	}
	r := helmRepository(t, func() string { return text + "  other:\n  - version: 1.0.0\n" })
	s := newScanner(t, []*server{r}, func(c *Config) { c.Limits.Versions, c.Limits.Keep = 20, 3 })
	got := scanAll(t, s, Source{Kind: Index, URL: r.URL + "/charts", Path: "podinfo", Wants: every}, Source{Kind: Index, URL: r.URL + "/charts", Path: "other", Wants: every})
	require.True(t, got[0].Truncated)
	require.Equal(t, 20, got[0].Listed)
	require.Equal(t, []string{"1.0.19", "1.0.18", "1.0.17"}, names(got[0].Versions))
	require.False(t, got[1].Truncated)
	require.Equal(t, []string{"1.0.0"}, names(got[1].Versions))
}

// TestPrivateHelmRepository: credentials are sent to their host only.
func TestPrivateHelmRepository(t *testing.T) {
	t.Parallel()
	elsewhere := helmRepository(t, func() string { return helmIndex })
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "robot" || password != "PASSWORD" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, q, elsewhere.URL+"/charts/index.yaml", http.StatusFound)
	})
	source := Source{Kind: Index, URL: r.URL + "/private?token=QUERY", Path: "podinfo", Wants: every}
	got := scanOne(t, newScanner(t, []*server{r, elsewhere}), source)
	require.Equal(t, Unauthorized, got.Err.Class)
	s := newScanner(t, []*server{r, elsewhere}, func(c *Config) {
		c.AuthFile = authFile(t, `{"auths":{"https://`+r.host()+`/private/":{"username":"robot","password":"PASSWORD"}}}`)
	})
	got = scanOne(t, s, source)
	require.Nil(t, got.Err)
	require.Len(t, got.Versions, 3)
	require.Equal(t, []string{""}, elsewhere.headers("Authorization"))
	require.Equal(t, []string{""}, elsewhere.headers("Referer"), "it would have the query")
}
