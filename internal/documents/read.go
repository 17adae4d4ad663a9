package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// ExportHeader is the first line of an export in YAML, which ends with [strictyaml.EndMarker]: a truncated file is often valid YAML, but
// has no end marker.
const ExportHeader = "# Exported by flux-resourceset-cli. The line \"...\" at the end marks it as complete."

// An export by an identity with limits contains them, in a comment or in a member of a JSON document.
const (
	LimitsComment = "limited-export:"
	LimitsMember  = "limited_export"
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

// Size estimates the bytes of the document in a request.
func (d Document) Size() (n int) {
	for name, value := range d.Fields {
		n += len(name) + len(value)
	}
	return n
}

// IsFile reports whether a file of a directory has documents, by its path below the directory with slashes: those with a name that
// starts with a dot have none.
func IsFile(name string) bool {
	hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
	return !hidden && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// Reader collects the documents of files, and their problems.
type Reader struct {
	Kinds Kinds
	// Budget is that of all files, which are not trusted; nil: they are.
	Budget *strictyaml.Budget
	// MaxDocuments is the number of documents that are read; 0: all.
	MaxDocuments int
	// MaxProblems is the number of problems after which nothing more is read; 0: all problems are reported.
	MaxProblems int

	documents []Document
	problems  []error
	tooMany   bool
	first     map[string]string // the source of each document, by name
}

// Untrusted returns a Reader of files of others: at most 500,000 values in a document (200 MB of memory while it is read), four million
// in all, 128 MiB of YAML with its aliases, 50,000 documents, and 20 problems.
func Untrusted(kinds Kinds) *Reader {
	return &Reader{Kinds: kinds, MaxDocuments: 50_000, MaxProblems: 20, Budget: &strictyaml.Budget{Values: 4_000_000, DocumentValues: 500_000, Bytes: 128 << 20}}
}

// Documents returns the documents of the files in their order, or all problems together.
func (r *Reader) Documents() ([]Document, error) {
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	return r.documents, nil
}

// problem records a problem.
func (r *Reader) problem(format string, args ...any) {
	switch n := len(r.problems); {
	case r.MaxProblems == 0 || n < r.MaxProblems:
		r.problems = append(r.problems, fmt.Errorf(format, args...))
	case n == r.MaxProblems:
		r.problems = append(r.problems, errors.New("there are more problems"))
	}
}

// full reports whether nothing more is read.
func (r *Reader) full() bool {
	return r.tooMany || r.MaxProblems > 0 && len(r.problems) > r.MaxProblems
}

// Add reads a file. The source is its name in messages.
func (r *Reader) Add(data []byte, source string) {
	if r.full() {
		return
	}
	if exportTruncated(data) {
		r.problem("%s was cut off: it starts as an export, and the line %q at the end of one is missing", source, strictyaml.EndMarker)
		return
	}
	stream := strictyaml.Stream
	if r.Budget != nil {
		stream = r.Budget.Stream
	}
	parts, err := stream(data)
	switch {
	case errors.Is(err, strictyaml.ErrDuplicateKey), errors.Is(err, strictyaml.ErrBudget):
		r.problem("%s: %w", source, err)
		return
	case err != nil:
		r.problem("%s is neither JSON nor YAML: %w", source, err)
		return
	}
	limited := limitsLine.Match(data) // also of documents that were added to the file later
	for i, part := range parts {
		at := source
		if len(parts) > 1 {
			at = fmt.Sprintf("%s, document %d", source, i+1)
		}
		if r.full() {
			return
		}
		r.addValue(part, at, limited)
	}
}

// limitsLine matches the comment of an export by an identity with limits, in any line of the file.
var limitsLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*` + LimitsComment)

// exportTruncated reports whether a YAML stream is certainly truncated: an export without its end.
func exportTruncated(data []byte) bool {
	if !bytes.Contains(data, []byte(ExportHeader)) || json.Valid(data) {
		return false
	}
	open := false
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.TrimRight(line, " \t\r\n") == ExportHeader && open:
			return true
		case strings.TrimRight(line, " \t\r\n") == ExportHeader:
			open = true
		case strictyaml.IsEnd(line):
			open = false
		}
	}
	return open
}

// addValue reads one value: a document with a kind, or lists of documents in the layout of a seed file.
func (r *Reader) addValue(value json.RawMessage, source string, limited bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
		r.problem("%s must hold one object", source)
		return
	}
	if raw, ok := fields["kind"]; ok {
		var kind string
		if err := json.Unmarshal(raw, &kind); err != nil {
			r.problem("%s: the kind must be a string", source)
			return
		}
		delete(fields, "kind")
		r.addDocument(kind, fields, source, limited)
		return
	}
	if _, member := fields[LimitsMember]; member {
		limited = true
		delete(fields, LimitsMember)
	}
	for _, name := range r.Kinds.Lists() {
		raw, ok := fields[name]
		delete(fields, name)
		if !ok {
			continue
		}
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			r.problem("%s: %s must be a list of documents", source, name)
			continue
		}
		for i, fields := range list {
			if r.full() {
				return
			}
			r.addDocument(name, fields, fmt.Sprintf("%s, %s[%d]", source, name, i), limited)
		}
	}
	if len(fields) > 0 {
		r.problem("%s has neither a kind (%s) nor only lists of documents (%s): what is %s?",
			source, listOf(r.Kinds.Words()), strings.Join(r.Kinds.Lists(), ", "), short(listOf(slices.Sorted(maps.Keys(fields)))))
	}
}

// addDocument adds a document of a kind by one of its names; a resource contains its type.
func (r *Reader) addDocument(kind string, fields map[string]json.RawMessage, source string, limited bool) {
	k, ok := r.Kinds.Find(kind)
	if IsResource(kind) && fields != nil {
		var of string
		if err := json.Unmarshal(fields["type"], &of); err != nil || !validID(of) {
			r.problem("%s: a resource needs a type: the id of its resource type", source)
			return
		}
		k, ok = OfType(of), true
	}
	if !ok {
		r.problem("%s: there is no kind %q; there are %s", source, short(kind), listOf(r.Kinds.Words()))
		return
	}
	d, err := newDocument(k, fields, source)
	if err != nil {
		r.problem("%w", err)
		return
	}
	d.Limited = limited
	if n := r.MaxDocuments; n > 0 && len(r.documents) == n {
		r.problem("%s: there are more than %d documents", source, n)
		r.tooMany = true
		return
	}
	if other, twice := r.first[d.Name()]; twice {
		r.problem("%s: %s is in %s already", source, short(d.Name()), other)
	}
	if r.first == nil {
		r.first = map[string]string{}
	}
	r.first[d.Name()] = source
	r.documents = append(r.documents, d)
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
	if err := json.Unmarshal(fields["id"], &d.ID); err != nil || !validID(d.ID) {
		return Document{}, fmt.Errorf("%s: a %s needs an id, which is a string", source, short(k.Title))
	}
	return d, nil
}

// maxQuoted is the number of bytes of a file that a message quotes.
const maxQuoted = 200

func short(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}
