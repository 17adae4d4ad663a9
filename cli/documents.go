package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// document is one document of a file.
type document struct {
	kind   documentKind
	id     string
	fields map[string]json.RawMessage
	source string // the file, with the position if it has several documents
}

func (d document) name() string { return d.kind.name + "/" + d.id }

// size estimates the bytes of the document in a request.
func (d document) size() (n int) {
	for name, value := range d.fields {
		n += len(name) + len(value)
	}
	return n
}

func documentsFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name: "file", Aliases: []string{"f"},
		Usage: "documents, from a YAML or JSON `FILE`, every such file in a directory and those below it, or - for standard input; repeat for more",
	}
}

// documents reads all documents of the --file flags. It reports all errors together.
func (a *applyRun) documents(c *cli.Context) ([]document, error) {
	names := c.StringSlice("file")
	if len(names) == 0 {
		return nil, args.Errorf("%s needs documents: use -f", c.Command.HelpName)
	}
	var (
		docs  []document
		errs  []error
		first = map[string]string{}
	)
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, args.Error{Err: err}
		}
		for _, file := range files {
			data, err := a.s.input(file)
			if err != nil {
				return nil, args.Error{Err: err}
			}
			found, err := documentsIn(data, file)
			if err != nil {
				errs = append(errs, err)
			}
			for _, d := range found {
				if other, twice := first[d.name()]; twice {
					errs = append(errs, fmt.Errorf("%s: %s is in %s already", d.source, d.name(), other))
				}
				first[d.name()] = d.source
				docs = append(docs, d)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, args.Errorf("%w", err)
	}
	if len(docs) == 0 {
		return nil, args.Errorf("there is no document in %s", args.ListOf(names))
	}
	return docs, nil
}

// filesOf returns the files of an argument: of a directory, in the order of their paths, without names that start with a dot.
func filesOf(name string) ([]string, error) {
	if name == "" {
		return nil, errors.New("-f needs the name of a file or directory")
	}
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	root := name + string(filepath.Separator) // follows a symbolic link
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no .yaml, .yml or .json file in %s", name)
	}
	return files, err
}

// documentsIn returns the documents of one file.
func documentsIn(data []byte, source string) ([]document, error) {
	source = input.SourceName(source)
	if input.ExportTruncated(data) {
		return nil, fmt.Errorf("%s was cut off: it starts as an export, and the line %q at the end of one is missing", source, render.EndMarker)
	}
	parts, err := input.Stream(data)
	if errors.Is(err, input.ErrDuplicateKey) {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is neither JSON nor YAML: %w", source, err)
	}
	var (
		docs []document
		errs []error
	)
	for i, part := range parts {
		at := source
		if len(parts) > 1 {
			at = fmt.Sprintf("%s, document %d", source, i+1)
		}
		found, err := documentsFrom(part, at)
		docs = append(docs, found...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return docs, errors.Join(errs...)
}

// documentsFrom reads one value: a document with a kind, or lists of documents in the layout of a seed file.
func documentsFrom(value json.RawMessage, source string) ([]document, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("%s must hold one object", source)
	}
	if raw, ok := fields["kind"]; ok {
		var kind string
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, fmt.Errorf("%s: the kind must be a string", source)
		}
		delete(fields, "kind")
		d, err := documentOf(kind, fields, source)
		return []document{d}, err
	}
	var (
		docs []document
		errs []error
	)
	for _, name := range listNames() {
		raw, ok := fields[name]
		delete(fields, name)
		if !ok {
			continue
		}
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s must be a list of documents", source, name))
			continue
		}
		for i, fields := range list {
			d, err := documentOf(name, fields, fmt.Sprintf("%s, %s[%d]", source, name, i))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			docs = append(docs, d)
		}
	}
	if len(fields) > 0 {
		errs = append(errs, fmt.Errorf("%s has neither a kind (%s) nor only lists of documents (%s): what is %s?",
			source, args.ListOf(kindWords()), strings.Join(listNames(), ", "), args.ListOf(render.SortedKeys(fields))))
	}
	return docs, errors.Join(errs...)
}

// readOnly are the fields of a document that the server sets.
var readOnly = []string{"revision", "created_at", "updated_at", "deleted_at", "patch_owners", "layers", "clusters"}

// documentOf returns a document of a kind by one of its names; a resource contains its type.
func documentOf(kind string, fields map[string]json.RawMessage, source string) (document, error) {
	n, ok := findKind(kind)
	if isResource(kind) && fields != nil {
		var of string
		if err := json.Unmarshal(fields["type"], &of); err != nil || checkID("type", of) != nil {
			return document{}, fmt.Errorf("%s: a resource needs a type: the id of its resource type", source)
		}
		n, ok = resourcesOfID(of), true
	}
	if !ok {
		return document{}, fmt.Errorf("%s: there is no kind %q; there are %s", source, kind, args.ListOf(kindWords()))
	}
	return newDocument(n, fields, source)
}

// isResource reports whether a word means the definitions of all resource types.
func isResource(word string) bool { return word == resourceKind || word == resourcesList }

// newDocument checks the id, which a seed file may call _id. The server checks all else.
func newDocument(n documentKind, fields map[string]json.RawMessage, source string) (document, error) {
	if fields == nil {
		return document{}, fmt.Errorf("%s must be an object", source)
	}
	if old, ok := fields["_id"]; ok {
		if id, both := fields["id"]; both && !bytes.Equal(id, old) {
			return document{}, fmt.Errorf("%s: id and _id differ", source)
		}
		fields["id"] = old
		delete(fields, "_id")
	}
	for _, name := range readOnly {
		delete(fields, name)
	}
	d := document{kind: n, fields: fields, source: source}
	if err := json.Unmarshal(fields["id"], &d.id); err != nil || checkID("id", d.id) != nil {
		return document{}, fmt.Errorf("%s: a %s needs an id, which is a string", source, n.title)
	}
	return d, nil
}

// kindWords returns the API's names of the kinds.
func kindWords() []string {
	names := []string{resourceKind}
	for _, n := range documentKinds() {
		names = append(names, n.kind)
	}
	slices.Sort(names)
	return names
}

// listNames returns the lists of a file in the layout of a seed file, clusters first.
func listNames() []string {
	names := []string{clusters.list}
	for _, n := range append(definitions(), resourceTypes, layers) {
		names = append(names, n.list)
	}
	return append(names, resourcesList)
}

// findKind finds a kind by its name in the API, its command, a short form or plural; resource/TYPE for the definitions of a
// resource type.
func findKind(word string) (documentKind, bool) {
	for _, n := range documentKinds() {
		if word == n.kind || word == n.name || word == n.list || slices.Contains(n.aliases, word) {
			return n, true
		}
	}
	return findResourceKind(word)
}
