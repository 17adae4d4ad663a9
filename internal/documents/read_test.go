package documents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

var testKinds = Kinds{
	{Kind: "platform_component", Name: "component", Title: "platform component", List: "platform_components", Aliases: []string{"components"}},
	{Kind: "namespace", Name: "namespace", Title: "namespace", List: "namespaces", Aliases: []string{"ns"}},
	{Kind: "rolebinding", Name: "rolebinding", Title: "role binding", List: "rolebindings", Aliases: []string{"rb"}},
	{Kind: "resource_type", Name: "resource-type", Title: "resource type", List: "resource_types"},
	{Kind: "layer", Name: "layer", Title: "layer", List: "layers", Refers: true},
	{Kind: "cluster", Name: "cluster", Title: "cluster", List: "clusters", Refers: true},
}

// TestTruncatedExportRefused: wherever a file ends, it is applied as a whole or not at all.
func TestTruncatedExportRefused(t *testing.T) {
	t.Parallel()
	export := ExportHeader + "\nnamespaces:\n- id: team\n  labels:\n    a: b\nclusters:\n- id: c1\n  platform_components:\n  - id: p\n    enabled: true\n  - id: q\n    enabled: true\n...\n"
	whole, err := read(testKinds, []byte(export), "fleet.yaml")
	if err != nil || len(whole) != 2 {
		t.Fatalf("%d documents, %v", len(whole), err)
	}
	for end := len(ExportHeader) + 1; end < len(export); end++ {
		docs, err := read(testKinds, []byte(export[:end]), "fleet.yaml")
		if err == nil && (len(docs) != 2 || string(docs[1].Fields["platform_components"]) != string(whole[1].Fields["platform_components"])) {
			t.Errorf("cut after %d of %d bytes: %d documents, %q", end, len(export), len(docs), export[:end])
		}
	}
	for text, want := range map[string]string{
		export + export[:120]:                    "was cut off", // two exports
		strings.ReplaceAll(export, "...\n", ""):  "was cut off",
		export + export:                          "is in fleet.yaml, document 1",
		export + "# a remark":                    "",
		strings.TrimSuffix(export, "\n"):         "",
		strings.ReplaceAll(export, "\n", "\r\n"): "",
	} {
		_, err := read(testKinds, []byte(text), "fleet.yaml")
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func read(kinds Kinds, data []byte, source string) ([]Document, error) {
	r := Reader{Kinds: kinds}
	r.Add(data, source)
	return r.Documents()
}

// TestReaderStops: the problems of files that are not trusted are few and short.
func TestReaderStops(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{
		"kinds":     strings.Repeat("kind: "+long+"\n---\n", 20),
		"entries":   "clusters:\n" + strings.Repeat("- {}\n", 1000),
		"documents": strings.Repeat("[]\n---\n", 1000),
		"keys":      strings.Repeat(long[:1000]+": 1\n---\n", 1000),
		"twice":     "clusters:\n" + strings.Repeat("- {id: "+long+"}\n", 20),
		"resources": strings.Repeat("{kind: resource, type: "+long+"}\n---\n", 20),
	} {
		r := Reader{Kinds: testKinds, MaxProblems: 10, Budget: &strictyaml.Budget{Values: 1 << 20, DocumentValues: 1 << 20, Bytes: 1 << 20}}
		r.Add([]byte(text), name+".yaml")
		r.Add([]byte("]["), "next.yaml")
		_, err := r.Documents()
		if err == nil || strings.Count(err.Error(), "\n") != 10 || len(err.Error()) > 10_000 || !strings.HasSuffix(err.Error(), "there are more problems") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := Reader{Kinds: testKinds, Budget: &strictyaml.Budget{Values: 100, DocumentValues: 100, Bytes: 1000}}
	r.Add([]byte("clusters: ["+strings.Repeat("{id: c},", 100)+"]"), "large.yaml")
	if _, err := r.Documents(); err == nil || err.Error() != "large.yaml: a document is too large: it has more than 100 values; use several documents or files" {
		t.Errorf("%v", err)
	}
}

// TestIsFile: a directory's files with documents.
func TestIsFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a.yaml": true, "a/b.yml": true, "a/b.c.json": true, ".a.yaml": false, "a/.b/c.yaml": false, "a.yaml.orig": false, "README.md": false, "yaml": false,
		"..yaml": false, "a.YAML": false,
	} {
		if got := IsFile(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestUntrusted: ten thousand clusters in files of their own, and two thousand in one file, are within the budget of files of others.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	one, many := Untrusted(testKinds), Untrusted(testKinds)
	entries := strings.Repeat("  - id: component\n    enabled: true\n", 9)
	list := strings.Builder{}
	list.WriteString("clusters:\n")
	for i := range 10_000 {
		if i%5 == 0 {
			fmt.Fprintf(&list, "- id: c%d\n  platform_components:\n%s", i, entries)
		}
		many.Add(fmt.Appendf(nil, "kind: cluster\nid: c%d\nplatform_components:\n%s", i, entries), fmt.Sprint("c", i, ".yaml"))
	}
	one.Add([]byte(list.String()), "fleet.yaml")
	for want, r := range map[int]*Reader{2_000: one, 10_000: many} {
		if docs, err := r.Documents(); err != nil || len(docs) != want {
			t.Errorf("%d documents, %v", len(docs), err)
		}
	}
}

// TestTooManyDocuments: small documents of others are limited by their number, since each one costs more than its text.
func TestTooManyDocuments(t *testing.T) {
	t.Parallel()
	r := Untrusted(testKinds)
	list := strings.Builder{}
	list.WriteString("clusters:\n")
	for i := range 60_000 {
		fmt.Fprintf(&list, "- id: c%d\n", i)
	}
	r.Add([]byte(list.String()), "fleet.yaml")
	r.Add([]byte("kind: cluster\nid: c0\n"), "again.yaml")
	if _, err := r.Documents(); err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "there are more than 50000 documents") {
		t.Errorf("%v", err)
	}
}
