package documents

import (
	"encoding/json"
	"testing"
)

// FuzzDocuments: a file for -f is an error, or each of its documents has a kind and an id and survives encoding and decoding.
func FuzzDocuments(f *testing.F) {
	for _, text := range []string{
		"", "kind: cluster\nid: c1\ncluster_dns: c1.example.com\n", `{"kind":"namespace","id":"a"}{"kind":"ns","id":"b"}`,
		"---\nkind: rb\nid: r\n---\n# nothing\n---\nkind: component\n_id: p\n", `{"clusters":[{"_id":"c"}],"namespaces":[{"id":"n"}]}`,
		"clusters:\n- id: c\n  id: d\n", "a: &a [*a]\n", "kind: [1]\n", "id: \"\\0\"\nkind: cluster\n", `{"kind":"cluster","id":9007199254740993}`,
		"kind: cluster\nid: c\npatches: {p: {n: 9007199254740993}}\n", "--- x\n---", "\ufeffkind: cluster\nid: c\n", "kind: cluster\r\nid: c\r\n",
		"? {a: b}\n: c\n", "x: !!binary aGk=\n", "<<: {kind: cluster, id: m}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := read(testKinds, data, "file.yaml")
		if err != nil {
			return
		}
		for _, d := range docs {
			if d.ID == "" || d.Kind.Kind == "" {
				t.Fatalf("%q: a document without id or kind: %+v", data, d)
			}
			fields := map[string]any{"kind": d.Kind.Kind}
			for name, value := range d.Fields {
				fields[name] = value
			}
			text, err := json.Marshal(fields)
			if err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			again, err := read(testKinds, text, "again.json")
			if err != nil || len(again) != 1 || again[0].Name() != d.Name() || len(again[0].Fields) != len(d.Fields) {
				t.Fatalf("%q became %s: %v %+v", data, text, err, again)
			}
		}
	})
}
