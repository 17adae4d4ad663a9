package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// TestTruncatedExportRefused: wherever a file ends, it is applied as a whole or not at all.
func TestTruncatedExportRefused(t *testing.T) {
	t.Parallel()
	export := render.ExportHeader + "\nnamespaces:\n- id: team\n  labels:\n    a: b\nclusters:\n- id: c1\n  platform_components:\n  - id: p\n    enabled: true\n  - id: q\n    enabled: true\n...\n"
	whole, err := documentsIn([]byte(export), "fleet.yaml")
	if err != nil || len(whole) != 2 {
		t.Fatalf("%d documents, %v", len(whole), err)
	}
	for end := len(render.ExportHeader) + 1; end < len(export); end++ {
		docs, err := documentsIn([]byte(export[:end]), "fleet.yaml")
		if err == nil && (len(docs) != 2 || string(docs[1].fields["platform_components"]) != string(whole[1].fields["platform_components"])) {
			t.Errorf("cut after %d of %d bytes: %d documents, %q", end, len(export), len(docs), export[:end])
		}
	}
	for text, want := range map[string]string{
		export + export[:120]:                    "was cut off", // two exports
		strings.ReplaceAll(export, "...\n", ""):  "was cut off",
		export + export:                          "",
		export + "# a remark":                    "",
		strings.TrimSuffix(export, "\n"):         "",
		strings.ReplaceAll(export, "\n", "\r\n"): "",
	} {
		_, err := documentsIn([]byte(text), "fleet.yaml")
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLastLineTruncated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a: 1\n": false, "a: 1": true, "a: 1\n...": false, "a: 1\n...\nb: 2": true, `{"a":1}`: false, "a: 1\n---\nb: 2": true,
		"a: 1\n... # end": false, "": false, "a: 1\n..": true, "a: 1\n...b": true, `{"a":1} {"b":2}`: false, `{"a":1,"a":2}`: false,
		`{"a":1} {"b":`: true, "a: 1\r\n": false, "a: 1\n...\n# a remark": true,
	} {
		if got := lastLineTruncated([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestDuplicateKeysRefused: duplicate keys, and text after the value, are errors wherever JSON or YAML is read.
func TestDuplicateKeysRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"kind":"namespace","id":"a","id":"b"}`,
		`{"kind":"cluster","id":"a","namespaces":[{"id":"x"}],"namespaces":[]}`,
		`{"kind":"cluster","id":"a","patches":{"p":{"a.b":"1","a.b":"2"}}}`,
		`{"kind":"cluster","id":"a","namespaces":[{"id":"x","id":"y"}]}`,
		`{"kind":"namespace","id":"a"} {"kind":"namespace","id":"b","labels":{},"labels":{}}`,
		"kind: cluster\nid: a\nnamespaces: [{id: x}]\nnamespaces: []\n",
		"kind: cluster\nid: a\nnamespaces: [{id: x, id: y}]\n",
	} {
		if docs, err := documentsIn([]byte(text), "file"); err == nil {
			t.Errorf("%s: %d documents", text, len(docs))
		}
		if _, err := objectOf([]byte(text), "-p"); err == nil {
			t.Errorf("%s: is taken as an object", text)
		}
		if err := flatten(map[string]any{}, []byte(text), "-f"); err == nil {
			t.Errorf("%s: is taken as values", text)
		}
	}
	if _, err := jsonValue(`{"a":{"b":1,"b":2}}`); !errors.Is(err, errTwice) || !strings.Contains(err.Error(), "the key a.b is there twice") {
		t.Errorf("--set-json: %v", err)
	}
	for _, text := range []string{`{"a":1} {"b":2}`, `{"a":1}]`, "a: 1\n---\nb: 2\n", "a: 1\n...\nb: 2\n", `{"a":1} x`, ""} {
		if value, err := objectOf([]byte(text), "-p"); err == nil {
			t.Errorf("%q is taken as %s", text, value)
		}
	}
	for _, text := range []string{`{"a":{"x":1},"b":{"x":1}}`, "a: {x: 1}\nb: {x: 1}\n...\n", "---\na: 1\n"} {
		if _, err := objectOf([]byte(text), "-p"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
