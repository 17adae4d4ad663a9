package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// Document is one document of a file.
type Document struct {
	Kind   Kind
	ID     string
	Fields map[string]json.RawMessage
	Source string // the file, with the position if it has several documents
	// Limited: the file contains an export by an identity with limits, so other documents may be missing.
	Limited bool
}

// Name returns the name of the document as KIND/NAME.
func (d Document) Name() string { return d.Kind.Name + "/" + d.ID }

// size estimates the bytes of the document in a request.
func (d Document) size() (n int) {
	for name, value := range d.Fields {
		n += len(name) + len(value)
	}
	return n
}

// ReadFiles returns the documents of files and directories. read returns the content of a file. All errors are about the command
// line, and those about documents are reported together.
func (kinds Kinds) ReadFiles(names []string, read func(file string) ([]byte, error)) ([]Document, error) {
	var (
		docs  []Document
		errs  []error
		first = map[string]string{}
	)
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, args.Error{Err: err}
		}
		for _, file := range files {
			data, err := read(file)
			if err != nil {
				return nil, args.Error{Err: err}
			}
			found, err := kinds.Read(data, file)
			if err != nil {
				errs = append(errs, err)
			}
			for _, d := range found {
				if other, twice := first[d.Name()]; twice {
					errs = append(errs, fmt.Errorf("%s: %s is in %s already", d.Source, d.Name(), other))
				}
				first[d.Name()] = d.Source
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

// Read returns the documents of one file.
func (kinds Kinds) Read(data []byte, source string) ([]Document, error) {
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
		docs    []Document
		errs    []error
		limited = limitsLine.Match(data)
	)
	for i, part := range parts {
		at := source
		if len(parts) > 1 {
			at = fmt.Sprintf("%s, document %d", source, i+1)
		}
		found, err := kinds.fromValue(part, at)
		docs = append(docs, found...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	for i := range docs { // also documents that were added to the file later
		docs[i].Limited = docs[i].Limited || limited
	}
	return docs, errors.Join(errs...)
}

// limitsLine matches the comment of an export by an identity with limits, in any line of the file.
var limitsLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*` + limitsComment)

// fromValue reads one value: a document with a kind, or lists of documents in the layout of a seed file.
func (kinds Kinds) fromValue(value json.RawMessage, source string) ([]Document, error) {
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
		d, err := kinds.document(kind, fields, source)
		return []Document{d}, err
	}
	var (
		docs []Document
		errs []error
	)
	_, limited := fields[limitsMember]
	delete(fields, limitsMember)
	for _, name := range kinds.Lists() {
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
			d, err := kinds.document(name, fields, fmt.Sprintf("%s, %s[%d]", source, name, i))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			d.Limited = limited
			docs = append(docs, d)
		}
	}
	if len(fields) > 0 {
		errs = append(errs, fmt.Errorf("%s has neither a kind (%s) nor only lists of documents (%s): what is %s?",
			source, args.ListOf(kinds.Words()), strings.Join(kinds.Lists(), ", "), args.ListOf(render.SortedKeys(fields))))
	}
	return docs, errors.Join(errs...)
}

// document returns a document of a kind by one of its names; a resource contains its type.
func (kinds Kinds) document(kind string, fields map[string]json.RawMessage, source string) (Document, error) {
	k, ok := kinds.Find(kind)
	if IsResource(kind) && fields != nil {
		var of string
		if err := json.Unmarshal(fields["type"], &of); err != nil || args.CheckID("type", of) != nil {
			return Document{}, fmt.Errorf("%s: a resource needs a type: the id of its resource type", source)
		}
		k, ok = OfType(of), true
	}
	if !ok {
		return Document{}, fmt.Errorf("%s: there is no kind %q; there are %s", source, kind, args.ListOf(kinds.Words()))
	}
	return newDocument(k, fields, source)
}

// newDocument checks the id, which a seed file may call _id. The server checks all else.
func newDocument(k Kind, fields map[string]json.RawMessage, source string) (Document, error) {
	if fields == nil {
		return Document{}, fmt.Errorf("%s must be an object", source)
	}
	if old, ok := fields["_id"]; ok {
		if id, both := fields["id"]; both && !bytes.Equal(id, old) {
			return Document{}, fmt.Errorf("%s: id and _id differ", source)
		}
		fields["id"] = old
		delete(fields, "_id")
	}
	for _, name := range ReadOnly {
		delete(fields, name)
	}
	d := Document{Kind: k, Fields: fields, Source: source}
	if err := json.Unmarshal(fields["id"], &d.ID); err != nil || args.CheckID("id", d.ID) != nil {
		return Document{}, fmt.Errorf("%s: a %s needs an id, which is a string", source, k.Title)
	}
	return d, nil
}
