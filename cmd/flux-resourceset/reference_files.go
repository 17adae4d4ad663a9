package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gosimple/slug"
	"go.yaml.in/yaml/v3"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// referenceFiles are the documents of the reference as files for apply, in the layout of export --split.
type referenceFiles struct{ files []referenceFile }

type referenceFile struct {
	at       string // prefix of the document's problems
	path     string
	document *yaml.Node
}

// newReferenceFiles copies the documents into files. Call it before validation, which consumes the documents.
func newReferenceFiles(a *adoption) (*referenceFiles, error) {
	f := &referenceFiles{}
	taken := map[string]bool{}
	for _, kind := range referenceKinds {
		for _, d := range a.docs[kind] {
			document, err := yamlNode(d.obj)
			if err != nil {
				return nil, fmt.Errorf("%s%w", at(kind, d.id), err)
			}
			document.Content = append([]*yaml.Node{scalar("!!str", "kind"), scalar("!!str", referenceNames[kind])}, document.Content...)
			f.files = append(f.files, referenceFile{at(kind, d.id), fileOf(kind, d.id, taken), document})
		}
	}
	return f, nil
}

// fileOf returns a path that no other document has: an id of the reference may be any text.
func fileOf(kind fleet.Kind, id string, taken map[string]bool) string {
	name := slug.Make(id)
	if len(name) > 200 || name == "" {
		name = "document"
	}
	if strings.ReplaceAll(id, ".", "-") == name && filepath.IsLocal(id) {
		name = id
	}
	for n := 1; ; n++ {
		path := filepath.Join(kind.Collection(), name+".yaml")
		if n > 1 {
			path = filepath.Join(kind.Collection(), fmt.Sprintf("%s-%d.yaml", name, n))
		}
		if key := strings.ToLower(path); !taken[key] {
			taken[key] = true
			return path
		}
	}
}

// write writes the files, with the problems of the adoption as comments.
func (f *referenceFiles) write(w io.Writer, dir string, a *adoption) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if dir == "" || len(entries) > 0 {
		return fmt.Errorf("--export-to %s: the directory must be empty, because apply takes all files in it; nothing was written", dir)
	}
	var elsewhere []fleet.Problem
	for _, p := range a.problems {
		if !f.comment(p) {
			elsewhere = append(elsewhere, p)
		}
	}
	for _, file := range f.files {
		var text bytes.Buffer
		enc := yaml.NewEncoder(&text)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(file.document), enc.Close()); err != nil {
			return fmt.Errorf("%s%w", file.at, err)
		}
		path := filepath.Join(dir, file.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "documents written to %s: %d; nothing was imported\n", dir, len(f.files))
	if len(a.problems) == 0 {
		return nil
	}
	fmt.Fprintf(w, "problems in them, each marked with %q: %d; more may show when these are resolved: flux-resourceset validate -f %s\n", strings.TrimSpace(problemMark), len(a.problems)-len(elsewhere), dir)
	a.problems = elsewhere
	var report strings.Builder
	a.report(&report)
	_, err = io.WriteString(w, report.String())
	return err
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// problemMark is the start of a comment about a problem.
const problemMark = "# problem: "

// comment adds a problem as a comment next to its line. It returns false if the problem belongs to no document.
func (f *referenceFiles) comment(p fleet.Problem) bool {
	var file *referenceFile
	for i := range f.files {
		if known := &f.files[i]; strings.HasPrefix(p.Pointer, known.at) && (file == nil || len(known.at) > len(file.at)) {
			file = known
		}
	}
	if file == nil {
		return false
	}
	key, value := file.document.Content[2], file.document // above the id, unless the pointer is found
	if len(file.document.Content) < 3 {
		key = file.document
	}
	for i, step := range strings.Split(strings.TrimPrefix(p.Pointer, file.at), "/") {
		next := value
		if i > 0 {
			key, next = child(key, value, unescapePointer.Replace(step))
		}
		if value = next; value == nil {
			break
		}
	}
	comment := problemMark + strings.ReplaceAll(p.Detail, "\n", " ")
	if value != nil && value.Kind == yaml.ScalarNode && !strings.Contains(value.Value, "\n") {
		value.LineComment = joinComments(value.LineComment, comment, "; ")
	} else {
		key.HeadComment = joinComments(key.HeadComment, comment, "\n")
	}
	return true
}

func joinComments(old, comment, separator string) string {
	switch {
	case old == "":
		return comment
	case separator != "\n":
		comment = strings.TrimPrefix(comment, problemMark)
	}
	return old + separator + comment
}

// child returns an entry of a mapping or a sequence, and the node for a comment above it. If the entry does not exist,
// the comment goes above its parent.
func child(above, in *yaml.Node, step string) (key, value *yaml.Node) {
	switch in.Kind { //nolint:exhaustive // the other nodes have no children
	case yaml.MappingNode:
		for i := 0; i < len(in.Content); i += 2 {
			if in.Content[i].Value == step {
				return in.Content[i], in.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for i, item := range in.Content {
			if fmt.Sprint(i) == step {
				return item, item
			}
		}
	}
	return above, nil
}

func scalar(tag, value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	if tag == "!!str" {
		n.SetString(value)
	}
	return n
}

// yamlNode converts parsed JSON to YAML, with the id first.
func yamlNode(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			if (a == "id") != (b == "id") && a == "id" {
				return -1
			} else if b == "id" {
				return 1
			}
			return strings.Compare(a, b)
		})
		for _, key := range keys {
			value, err := yamlNode(v[key])
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, scalar("!!str", key), value)
		}
		return n, nil
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			value, err := yamlNode(item)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, value)
		}
		return n, nil
	case string:
		return scalar("!!str", v), nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return scalar(tag, v.String()), nil
	case bool:
		return scalar("!!bool", fmt.Sprint(v)), nil
	case nil:
		return scalar("!!null", "null"), nil
	}
	return nil, fmt.Errorf("%T is not JSON", v)
}
