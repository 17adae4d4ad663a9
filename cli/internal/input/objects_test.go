package input

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

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
		if _, err := Object([]byte(text), "-p"); err == nil {
			t.Errorf("%s: is taken as an object", text)
		}
		if err := flatten(map[string]any{}, []byte(text), "-f"); err == nil {
			t.Errorf("%s: is taken as values", text)
		}
	}
	if _, err := jsonValue(`{"a":{"b":1,"b":2}}`); !errors.Is(err, strictyaml.ErrDuplicateKey) || !strings.Contains(err.Error(), "the key a.b is there twice") {
		t.Errorf("--set-json: %v", err)
	}
	for _, text := range []string{`{"a":1} {"b":2}`, `{"a":1}]`, "a: 1\n---\nb: 2\n", "a: 1\n...\nb: 2\n", `{"a":1} x`, ""} {
		if value, err := Object([]byte(text), "-p"); err == nil {
			t.Errorf("%q is taken as %s", text, value)
		}
	}
	for _, text := range []string{`{"a":{"x":1},"b":{"x":1}}`, "a: {x: 1}\nb: {x: 1}\n...\n", "---\na: 1\n"} {
		if _, err := Object([]byte(text), "-p"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
